//! The end of tasks: their client reports it or dies, their timer fires, or their object goes.

use std::sync::Arc;

use mooncake_types::{ClientId, ErrorCode, Reply, TaskId, TaskStatus, Tick};

use super::task::{Ending, Origin, Task, Tasks};
use crate::Meta;
use crate::effort::CHANGE;
use crate::notice::Notice;
use crate::slab::NONE;
use crate::timer::Timer;
use crate::tombstones::DropList;

/// Whether a task has ended with its copy.
enum Joined {
    /// The task has ended.
    Whole,
    /// The nodes must still drop the source of the move.
    SourceStays,
}

impl Meta {
    pub(crate) fn end_task(
        &mut self,
        from: ClientId,
        id: TaskId,
        outcome: Result<(), ErrorCode>,
    ) -> Reply {
        let mut gathered = DropList::default();
        let result = self.end_task_with(from, id, outcome, &mut gathered);
        match gathered.into_reply(self.now, vec![result]) {
            Reply::Statuses(_) => Reply::Done(result),
            remaining => remaining,
        }
    }

    fn end_task_with(
        &mut self,
        from: ClientId,
        id: TaskId,
        outcome: Result<(), ErrorCode>,
        gathered: &mut DropList,
    ) -> Result<(), ErrorCode> {
        let task = self.tasks.get(id).ok_or(ErrorCode::TaskNotFound)?;
        if task.assigned != from {
            return Err(ErrorCode::IllegalClient);
        }
        match task.status {
            TaskStatus::Pending => return Err(ErrorCode::UnavailableInCurrentStatus),
            TaskStatus::Processing => {}
            TaskStatus::Failed | TaskStatus::Success => return Ok(()),
        }
        let number = Tasks::number(id);
        if outcome.is_ok() && task.copy == NONE {
            self.finish_move(number);
            return Ok(());
        }
        let result = outcome.and_then(|()| self.join_copy(number, gathered));
        let code = match result {
            Ok(Joined::Whole) => {
                self.finish_task(number, Ending::Success);
                return Ok(());
            }
            Ok(Joined::SourceStays) => return Ok(()),
            Err(code) => code,
        };
        let copy = self.take_copy(number);
        if copy != NONE {
            if code == ErrorCode::ObjectReplicaBusy {
                self.reserve_replicas(copy, u32::MAX, self.end_of_readers());
            }
            self.drop_object(copy);
        }
        self.finish_task(number, Ending::Refused(code));
        Ok(())
    }

    fn take_copy(&mut self, number: u64) -> u32 {
        let task = self.tasks.known.get_mut(&number).expect("the task is known");
        std::mem::replace(&mut task.copy, NONE)
    }

    /// Ends a move whose new replica its object already has, once the nodes have dropped the source.
    fn finish_move(&mut self, number: u64) {
        let task = &self.tasks.known[&number];
        let (object, moved) = (task.object, task.moved.expect("only a move is ended twice"));
        if self.ranges_of(object).all(|(_, range)| range.replica == moved) {
            // The new replica was lost meanwhile. The task fails with its object.
            self.drop_lost(object);
            return;
        }
        self.free_replicas(object, 1 << moved);
        self.finish_task(number, Ending::Success);
    }

    /// Adds the new replicas of a task to its object. If readers may have routes to the source of a move, the source
    /// stays a replica until the nodes have dropped it.
    fn join_copy(&mut self, number: u64, gathered: &mut DropList) -> Result<Joined, ErrorCode> {
        let task = &self.tasks.known[&number];
        let (object, copy, moved) = (task.object, task.copy, task.moved);
        if !self.lives(object) {
            return Err(ErrorCode::ReplicaIsGone);
        }
        let lost = self.dead_replicas(copy) | self.missed_replicas(copy);
        self.free_replicas(copy, lost);
        let first = self.objects[copy].first_range;
        if first == NONE {
            return Err(ErrorCode::ReplicaIsGone);
        }
        self.void_beneath(copy);
        self.take_copy(number);
        if self.tasks.known[&number].origin == Origin::Replication {
            self.set_extras(object, self.extra_replicas(object) | self.replica_set(copy));
        }
        self.adopt(object, copy);
        let Some(replica) = moved else { return Ok(Joined::Whole) };
        // The segment of the source may have left since, with its ranges.
        let dead = self.dead_replicas(object);
        let is_there = dead & 1 << replica == 0
            && self.ranges_of(object).any(|(_, range)| range.replica == replica);
        if self.is_leased(object) && is_there {
            self.gather(object, 1 << replica, gathered);
            return Ok(Joined::SourceStays);
        }
        self.free_replicas(object, 1 << replica);
        Ok(Joined::Whole)
    }

    /// Fails the task of an object that lost its key, if it has one.
    pub(crate) fn lose_task(&mut self, object: u32) {
        if !self.tasks.by_object.is_empty()
            && let Some(&number) = self.tasks.by_object.get(&object)
        {
            self.fail_task(number, Ending::ObjectGone);
        }
    }

    /// Fails a task whose client may still be writing: the new ranges stay reserved until it must have stopped.
    pub(super) fn fail_task(&mut self, number: u64, ending: Ending) {
        let copy = self.take_copy(number);
        if copy != NONE {
            self.reserve_replicas(copy, u32::MAX, self.end_of_writers());
            self.drop_object(copy);
        }
        self.finish_task(number, ending);
    }

    /// The timer of a task has fired.
    pub(crate) fn task_due(&mut self, number: u64) {
        let ending = match self.tasks.known[&number].status {
            TaskStatus::Pending => Ending::NeverFetched,
            _ => Ending::NeverReported,
        };
        self.give_up_task(number, ending);
    }

    /// Ends a task whose client does not report. A move is complete if nodes may have dropped its source already. Any
    /// other task fails.
    fn give_up_task(&mut self, number: u64, ending: Ending) {
        match self.may_lack_source(number) {
            true => self.finish_move(number),
            false => self.fail_task(number, ending),
        }
    }

    /// Whether nodes were told to drop the replica that a task reads. That is so for a move whose object already has
    /// the new replica.
    pub(super) fn may_lack_source(&self, number: u64) -> bool {
        let task = &self.tasks.known[&number];
        task.status == TaskStatus::Processing && task.copy == NONE
    }

    /// Ends tasks of dead clients, a bounded number at a time.
    pub(crate) fn fail_tasks_of_the_dead(&mut self) {
        while let Some(&client) = self.tasks.dead_clients.first()
            && self.effort.spend(CHANGE)
        {
            let pending = self.tasks.next_pending(client, None).map(|(_, number)| number);
            let processing = || {
                let mut all = self.tasks.processing.range((client, 0)..=(client, u64::MAX));
                all.next().map(|&(_, number)| number)
            };
            let Some(number) = pending.or_else(processing) else {
                self.tasks.dead_clients.remove(&client);
                continue;
            };
            self.give_up_task(number, Ending::ClientGone);
        }
    }

    /// The timer of a task that is pending or processing. `None` if the task has no time limit.
    pub(super) fn task_timer(&self, task: &Task) -> Option<(Tick, u64)> {
        let (since, ms) = match task.status {
            TaskStatus::Pending => (task.created, self.config.pending_task_ms),
            TaskStatus::Processing => (task.updated, self.config.processing_task_ms),
            TaskStatus::Failed | TaskStatus::Success => return None,
        };
        (ms > 0).then(|| (since.after_ms(ms), Tasks::number(task.id)))
    }

    pub(super) fn set_task_timer(&mut self, number: u64) {
        if let Some((due, number)) = self.task_timer(&self.tasks.known[&number]) {
            self.timers.insert((due, Timer::Task(number)));
        }
    }

    pub(super) fn clear_task_timer(&mut self, number: u64) {
        if let Some((due, number)) = self.task_timer(&self.tasks.known[&number]) {
            self.timers.remove(&(due, Timer::Task(number)));
        }
    }

    /// Ends a task, and tells its origin. Its copy must be gone already. Its object may be about to go.
    pub(crate) fn finish_task(&mut self, number: u64, ending: Ending) {
        self.clear_task_timer(number);
        let task = self.tasks.end(number);
        assert_eq!(task.copy, NONE, "the new replicas of a finished task have gone their way");
        let (origin, object) = (task.origin, std::mem::replace(&mut task.object, NONE));
        let (kind, had_begun) = (task.kind, task.status == TaskStatus::Processing);
        (task.status, task.updated, task.message) = (ending.status(), self.now, ending.message());
        let targets = std::mem::take(&mut task.targets);
        if let (true, Some(target), Ending::Refused(code)) =
            (origin.is_to_disk(), targets.first(), ending)
        {
            self.notify(Notice::OffloadFailed { segment: Arc::from(&**target), code });
        }
        self.count_task_in_group(object, false);
        let counts = self.counters.of_tasks(kind);
        match ending {
            Ending::Success => {
                counts.made += 1;
                self.counters.tasks_succeeded += 1;
            }
            _ => {
                counts.failed += u64::from(had_begun);
                self.counters.tasks_failed += 1;
            }
        }
        self.tasks.remember(number, origin, self.config.max_finished_tasks);
        self.tell_origin(origin, number, object, ending);
    }

    /// Tells the origin of a task how the task ended. The object may be about to go: the origin looks at it later, and
    /// nothing changes it here.
    fn tell_origin(&mut self, origin: Origin, number: u64, object: u32, ending: Ending) {
        let record = &self.objects[object];
        let (len, version) = (record.len, record.version);
        let made = (ending == Ending::Success).then_some(len);
        self.counters.count_copy(origin, made);
        match origin {
            Origin::Caller | Origin::Replication | Origin::Promotion => {}
            Origin::Drain(job) => self.drain_task_ended(job, (number, len), ending),
            Origin::Repair => self.repair_ended(),
            Origin::Offload => self.offload_ended(object, version, ending),
            Origin::Sink => self.sink_ended(object, version, ending),
        }
    }
}
