//! Copies and moves, compared with the model.

use mooncake_types::{
    ClientId, CreateTask, ErrorCode, Medium, Prefetch, Reply, Request, TaskKind, TaskOrder,
    TaskStatus,
};

use crate::model::{Extent, Run, Task, extents};

impl Run {
    pub(crate) fn create_task(&mut self, key: &str, moves: bool, nth: u64, targets: usize) {
        let segments = self.world.meta.segments();
        let names: Vec<&str> = segments.iter().map(|segment| &*segment.name).collect();
        if names.is_empty() {
            return;
        }
        let place = |step: usize| names[(nth as usize + step) % names.len()];
        // The source is mostly a segment that holds the object.
        let there = self.world.version(key).map(|_| self.world.holders(key)).unwrap_or_default();
        let source =
            there.first().filter(|_| !nth.is_multiple_of(8)).map_or(place(0), String::as_str);
        let wanted = CreateTask {
            key,
            kind: if moves { TaskKind::Move } else { TaskKind::Copy },
            source,
            targets: (1..=if moves { targets.min(1) } else { targets }).map(place).collect(),
        };
        let result = self.world.create_task(wanted);
        let object = self.model.readable(key);
        let waits = self.model.waiting(key).is_some();
        match (result, object) {
            (Ok(id), Some(object)) => {
                assert!(!self.model.has_task(key), "{key} has two tasks");
                let report = self.world.query_task(id).expect("it was just created");
                if report.status == TaskStatus::Success {
                    return;
                }
                let version = object.version;
                let (assigned, key) = (report.assigned, key.to_owned());
                let none = Vec::<Extent>::new;
                let task = Task {
                    id,
                    key,
                    version,
                    moves,
                    assigned,
                    fetched: false,
                    own: false,
                    extents: none(),
                    source: none(),
                };
                self.model.tasks.push(task);
            }
            (Err(ErrorCode::ObjectHasReplicationTask), Some(_)) => {
                assert!(self.model.has_task(key));
                self.meet("a task was refused at an object with a task");
            }
            (Err(ErrorCode::ObjectNotFound), None) => assert!(targets == 0 || !waits),
            (Err(ErrorCode::ReplicaIsNotReady), None) => assert!(waits),
            (Err(ErrorCode::ReplicaNotFound | ErrorCode::ReplicaAlreadyExists), Some(_)) => {
                assert!(moves);
            }
            (Err(ErrorCode::InvalidParams), _) => {
                assert!(targets == 0 || moves, "{key}");
            }
            (Err(ErrorCode::UnavailableInCurrentStatus), Some(_)) => {}
            (Err(ErrorCode::NotSupported), Some(_)) => assert!(self.config.offload, "{key}"),
            (result, object) => panic!("{key}: {result:?}, but {object:?}"),
        }
    }

    pub(crate) fn prefetch(&mut self, key: &str) {
        let request = Request::Prefetch { keys: vec![key] };
        let Reply::Prefetched(results) = self.world.ask(ClientId(1), &request) else {
            panic!("a wrong kind of reply")
        };
        match (results[0], self.model.readable(key)) {
            (Ok(Prefetch::UnderWay), Some(_)) => assert!(self.config.offload, "{key}"),
            (Ok(Prefetch::InMemory), Some(_)) => {}
            (Err(ErrorCode::ObjectHasReplicationTask), Some(_)) => {}
            (Err(ErrorCode::TaskPendingLimitExceeded), Some(_)) => {
                assert_eq!(self.world.meta.stats().promotions_under_way, 2);
            }
            (Err(ErrorCode::ObjectNotFound), None) => assert!(self.model.waiting(key).is_none()),
            (Err(ErrorCode::ReplicaIsNotReady), None) => assert!(self.model.waiting(key).is_some()),
            (result, object) => panic!("{key}: {result:?}, but {object:?}"),
        }
    }

    pub(crate) fn fetch_tasks(&mut self, client: ClientId) {
        let fetched = self.world.fetch_tasks(client);
        for order in &fetched.orders {
            let place = self.model.tasks.iter().position(|task| task.id == order.id);
            let place = place.unwrap_or_else(|| self.meet_own_task(client, order));
            let task = &mut self.model.tasks[place];
            assert!(!task.fetched && task.assigned == client, "{task:?}");
            assert_eq!((&order.key, order.version), (&task.key, task.version));
            task.fetched = true;
            task.source = extents(&order.source, &fetched.segments);
            assert!(order.grant > self.model.last_version, "versions grow");
            self.model.last_version = order.grant;
        }
        self.learn();
        for order in &fetched.orders {
            let targets = extents(&order.targets, &fetched.segments);
            let place = self.model.tasks.iter().position(|task| task.id == order.id);
            let Some(place) = place else {
                // The master evicted this task's object to make room for a later one.
                let hold_ms = self.config.put_release_ms - self.config.put_discard_ms;
                let until = self.world.now.after_ms(hold_ms);
                self.ranges_are_free(&targets, &[]);
                self.model.held_back.extend(targets.into_iter().map(|extent| (until, extent)));
                continue;
            };
            self.ranges_are_free(&targets, &[]);
            let object = &self.model.objects[&order.key];
            let source = &self.model.tasks[place].source;
            let whole: u64 = source.iter().map(|extent| extent.2).sum();
            assert_eq!((whole, order.len), (object.len, object.len));
            let task = &self.model.tasks[place];
            let written: u64 = targets.iter().map(|extent| extent.2).sum();
            // The master's own copies make one replica, which may lie in pieces. A caller's copy makes one whole
            // replica per target.
            let is_whole = match task.own {
                true => written == object.len,
                false => targets.iter().all(|extent| extent.2 == object.len),
            };
            assert!(is_whole, "{task:?}: {targets:?}");
            self.model.tasks[place].extents = targets;
        }
    }

    /// Adopts a task that the master started itself.
    fn meet_own_task(&mut self, client: ClientId, order: &TaskOrder) -> usize {
        let object = &self.model.objects[&order.key];
        assert_eq!((object.version, object.len), (order.version, order.len));
        let kind = self.world.query_task(order.id).expect("it was just handed out").kind;
        self.model.tasks.push(Task {
            id: order.id,
            key: order.key.clone(),
            version: order.version,
            moves: kind == TaskKind::Move,
            assigned: client,
            fetched: false,
            own: true,
            extents: Vec::new(),
            source: Vec::new(),
        });
        self.model.tasks.len() - 1
    }

    pub(crate) fn end_task(&mut self, nth: u64, ok: bool, stranger: bool) {
        let count = self.model.tasks.len().max(1);
        let Some(task) = self.model.tasks.get(nth as usize % count).cloned() else { return };
        let outcome = if ok { Ok(()) } else { Err(ErrorCode::TransferFail) };
        if stranger {
            let result = self.world.end_task(ClientId(99), task.id, outcome);
            assert_eq!(result, Err(ErrorCode::IllegalClient));
            return;
        }
        let result = self.world.end_task(task.assigned, task.id, outcome);
        if !task.fetched {
            assert_eq!(result, Err(ErrorCode::UnavailableInCurrentStatus));
            return;
        }
        assert_eq!(result, Ok(()));
        self.model.tasks.retain(|other| other.id != task.id);
        let status = self.world.query_task(task.id).expect("it has just ended").status;
        if status == TaskStatus::Failed {
            let mounted: Vec<_> = self.world.meta.segments().iter().map(|s| s.id).collect();
            let left = task.extents.iter().filter(|extent| mounted.contains(&extent.0));
            // A replica in pieces is lost with any of them.
            let len = self.model.objects.get(&task.key).map_or(1, |object| object.len);
            let there = left.map(|extent| extent.2).sum::<u64>() >= len;
            let lives = self.model.objects.contains_key(&task.key);
            assert!(!(ok && there && lives), "{task:?} failed");
            return self.meet("a task failed by its client");
        }
        assert_eq!((status, ok), (TaskStatus::Success, true));
        self.meet(if task.moves { "a move was made" } else { "a copy was made" });
        let object = self.model.objects.get_mut(&task.key).expect("a task has an object");
        object.extents.extend(&task.extents);
        let segments = self.world.meta.segments();
        let on_disk = |extent: &Extent| {
            segments.iter().any(|it| it.id == extent.0 && it.medium == Medium::Disk)
        };
        // Readers are told of replicas in memory first.
        object.extents.sort_by_key(on_disk);
        if task.moves {
            object.extents.retain(|extent| !task.source.contains(extent));
        }
    }
}
