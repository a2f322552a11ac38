//! A pool without a network: tests pass requests to the state machine, and time is a number.

#![allow(dead_code, reason = "each test file uses its part")]

use mooncake_meta::{Config, Meta, Notice};
use mooncake_types::{
    ClientId, CreateTask, Epoch, ErrorCode, Grant, Located, Medium, MountOutcome, MountSegment,
    PutEnd, PutItem, PutMode, PutRevoke, PutStart, RangeDrop, Remains, ReplicateConfig, Reply,
    Request, Scan, ScanAction, ScanPage, SegmentAddress, SegmentId, TaskId, TaskOrders, TaskReport,
    Tick, Version,
};

pub(crate) const ALICE: ClientId = ClientId(1);
pub(crate) const BOB: ClientId = ClientId(2);

pub(crate) struct World {
    pub(crate) meta: Meta,
    pub(crate) now: Tick,
}

/// A grant or a location, with the segments that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed<T> {
    pub(crate) what: T,
    pub(crate) segments: Vec<SegmentAddress>,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self { meta: Meta::new(config, Epoch(7)), now: Tick(1_000) }
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.now = self.now.after_ms(ms);
        self.timeouts();
    }

    /// Lets time pass on a master that is not held up: timeouts are handled when they are due.
    pub(crate) fn pass(&mut self, ms: u64) {
        let end = self.now.after_ms(ms);
        while let Some(due) = self.meta.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.meta.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// Handles every timeout that is due.
    pub(crate) fn timeouts(&mut self) {
        while self.meta.poll_timeout().is_some_and(|due| due <= self.now) {
            self.meta.handle_timeout(self.now);
        }
    }

    pub(crate) fn ask(&mut self, from: ClientId, request: &Request<'_>) -> Reply {
        self.meta.handle(self.now, from, request)
    }

    pub(crate) fn ping(&mut self, from: ClientId, segments: &[SegmentId]) -> bool {
        self.report(from, segments, &[])
    }

    /// A ping that reports segments whose nodes the client could not reach.
    pub(crate) fn report(
        &mut self,
        from: ClientId,
        segments: &[SegmentId],
        unreachable: &[SegmentId],
    ) -> bool {
        let (segments, unreachable) = (segments.to_vec(), unreachable.to_vec());
        match self.ask(from, &Request::Ping { segments, unreachable, reads: None }) {
            Reply::Pong(pong) => pong.need_remount,
            other => panic!("{other:?}"),
        }
    }

    /// The notices of repairs and of hot keys; notices about segments are left out.
    pub(crate) fn work_notices(&mut self) -> Vec<Notice> {
        use Notice::{Hot, RepairBegins, RepairEnds};
        let mut notices = self.meta.take_notices();
        notices.retain(|it| matches!(it, RepairBegins { .. } | RepairEnds { .. } | Hot { .. }));
        notices
    }

    /// The connection of the client's last ping ends.
    pub(crate) fn disconnect(&mut self, client: ClientId) {
        self.meta.handle_disconnect(self.now, client);
    }

    pub(crate) fn mount(&mut self, from: ClientId, id: u128, len: u64) -> Result<(), ErrorCode> {
        self.mount_on(Medium::Memory, from, id, len)
    }

    pub(crate) fn mount_on(
        &mut self,
        medium: Medium,
        from: ClientId,
        id: u128,
        len: u64,
    ) -> Result<(), ErrorCode> {
        self.mount_in(medium, from, id, len, &[])
    }

    /// Mounts a segment in these failure domains.
    pub(crate) fn mount_in(
        &mut self,
        medium: Medium,
        from: ClientId,
        id: u128,
        len: u64,
        domains: &[&str],
    ) -> Result<(), ErrorCode> {
        let name = format!("node-{id}:12345");
        let domains: Vec<String> = domains.iter().map(|&domain| domain.to_owned()).collect();
        let mount = MountSegment {
            id: SegmentId(id),
            name: &name,
            endpoint: &name,
            len,
            seen_epoch: Epoch(0),
            is_empty: true,
            run: 1,
            medium,
            domains: &domains,
            seal_key: None,
        };
        match self.ask(from, &Request::MountSegment(mount)) {
            Reply::Mounted(MountOutcome::Ready) => Ok(()),
            Reply::Mounted(MountOutcome::StartEmpty) => Err(ErrorCode::SegmentAlreadyExists),
            Reply::Done(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn unmount(
        &mut self,
        from: ClientId,
        id: u128,
        grace_ms: u64,
    ) -> Result<(), ErrorCode> {
        match self.ask(from, &Request::UnmountSegment { id: SegmentId(id), grace_ms, failure: "" })
        {
            Reply::Done(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn start_with(
        &mut self,
        from: ClientId,
        key: &str,
        len: u64,
        config: ReplicateConfig<'_>,
    ) -> Result<Placed<Grant>, ErrorCode> {
        self.begin(from, PutItem::new(key, len), config, PutMode::Insert)
    }

    pub(crate) fn begin(
        &mut self,
        from: ClientId,
        put: PutItem<'_>,
        config: ReplicateConfig<'_>,
        mode: PutMode,
    ) -> Result<Placed<Grant>, ErrorCode> {
        match self.ask(from, &Request::PutStart(PutStart { puts: vec![put], config, mode })) {
            Reply::Granted { mut results, segments } => {
                results.remove(0).map(|what| Placed { what, segments })
            }
            Reply::Refused(code) => Err(code),
            other => panic!("{other:?}"),
        }
    }

    /// Starts an upsert.
    pub(crate) fn upsert(
        &mut self,
        from: ClientId,
        key: &str,
        len: u64,
    ) -> Result<Placed<Grant>, ErrorCode> {
        self.begin(from, PutItem::new(key, len), ReplicateConfig::default(), PutMode::Upsert)
    }

    /// Starts and ends a put of a group's member.
    pub(crate) fn put_member(
        &mut self,
        key: &str,
        len: u64,
        group: &str,
    ) -> Result<Placed<Grant>, ErrorCode> {
        let put = PutItem { group, ..PutItem::new(key, len) };
        let placed = self.begin(ALICE, put, ReplicateConfig::default(), PutMode::Insert)?;
        self.end(ALICE, key, &placed.what, 0)?;
        Ok(placed)
    }

    pub(crate) fn clear(
        &mut self,
        from: ClientId,
        key: &str,
        segment: &str,
    ) -> Result<(), ErrorCode> {
        statuses(self.ask(from, &Request::ClearReplicas { keys: vec![key], segment }))
    }

    pub(crate) fn create_task(&mut self, task: CreateTask<'_>) -> Result<TaskId, ErrorCode> {
        match self.ask(BOB, &Request::CreateTask(task)) {
            Reply::TaskCreated(id) => Ok(id),
            Reply::Refused(code) => Err(code),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn query_task(&mut self, id: TaskId) -> Result<TaskReport, ErrorCode> {
        match self.ask(BOB, &Request::QueryTask { id }) {
            Reply::TaskReported(report) => Ok(report),
            Reply::Refused(code) => Err(code),
            other => panic!("{other:?}"),
        }
    }

    /// Fetches, drops and confirms all drops for this client. Returns them.
    pub(crate) fn fetch_drops(&mut self, from: ClientId) -> Vec<RangeDrop> {
        let (mut dropped, mut all) = (Vec::new(), Vec::new());
        loop {
            let fetch = Request::FetchDrops { dropped, limit: 7 };
            let Reply::Drops(drops) = self.ask(from, &fetch) else { panic!("no drops") };
            if drops.is_empty() {
                return all;
            }
            all.extend_from_slice(&drops);
            dropped = drops;
        }
    }

    pub(crate) fn fetch_tasks(&mut self, from: ClientId) -> TaskOrders {
        match self.ask(from, &Request::FetchTasks { limit: u32::MAX, wait_ms: 0 }) {
            Reply::TasksFetched(orders) => orders,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn end_task(
        &mut self,
        from: ClientId,
        id: TaskId,
        outcome: Result<(), ErrorCode>,
    ) -> Result<(), ErrorCode> {
        match self.ask(from, &Request::EndTask { id, outcome }) {
            Reply::Done(result) => result,
            // The entry of the moved replica must be dropped; the client confirms that and ends the task again.
            Reply::Remaining { .. } => self.end_task(from, id, outcome),
            other => panic!("{other:?}"),
        }
    }

    /// The names of the segments that hold a replica. Takes no lease.
    pub(crate) fn holders(&self, key: &str) -> Vec<String> {
        let report = self.meta.peek(key).expect("the key is there");
        let mut names: Vec<String> = report
            .located
            .placements
            .iter()
            .map(|place| report.segments[place.segment as usize].name.to_string())
            .collect();
        names.sort();
        names
    }

    /// The version that readers get, or `None`. Takes no lease.
    pub(crate) fn version(&self, key: &str) -> Option<Version> {
        self.meta.peek(key).filter(|report| report.complete).map(|report| report.located.version)
    }

    /// Whether a complete object has this key, in sight or not.
    pub(crate) fn holds(&self, key: &str) -> bool {
        self.version(key).is_some() || self.meta.is_out_of_sight(key)
    }

    pub(crate) fn start(
        &mut self,
        from: ClientId,
        key: &str,
        len: u64,
    ) -> Result<Placed<Grant>, ErrorCode> {
        self.start_with(from, key, len, ReplicateConfig::default())
    }

    pub(crate) fn end(
        &mut self,
        from: ClientId,
        key: &str,
        grant: &Grant,
        failed: u32,
    ) -> Result<(), ErrorCode> {
        let put = PutEnd { key, version: grant.version, failed_replicas: failed, held_replicas: 0 };
        let request = Request::PutEnd { puts: vec![put] };
        match self.ask(from, &request) {
            Reply::Remaining { results, remains }
                if results == [Err(ErrorCode::ObjectReplicaBusy)] =>
            {
                self.drop_remains(&remains);
                statuses(self.ask(from, &request))
            }
            reply => statuses(reply),
        }
    }

    pub(crate) fn revoke(
        &mut self,
        from: ClientId,
        key: &str,
        grant: &Grant,
    ) -> Result<(), ErrorCode> {
        self.give_up(from, PutRevoke::new(key, grant.version))
    }

    pub(crate) fn give_up(&mut self, from: ClientId, put: PutRevoke<'_>) -> Result<(), ErrorCode> {
        statuses(self.ask(from, &Request::PutRevoke { puts: vec![put] }))
    }

    /// Starts and ends a put.
    pub(crate) fn put_with(
        &mut self,
        from: ClientId,
        key: &str,
        len: u64,
        config: ReplicateConfig<'_>,
    ) -> Result<Placed<Grant>, ErrorCode> {
        let placed = self.start_with(from, key, len, config)?;
        self.end(from, key, &placed.what, 0)?;
        Ok(placed)
    }

    pub(crate) fn put(&mut self, key: &str, len: u64) -> Result<Placed<Grant>, ErrorCode> {
        self.put_with(ALICE, key, len, ReplicateConfig::default())
    }

    pub(crate) fn get(&mut self, key: &str) -> Result<Placed<Located>, ErrorCode> {
        match self.ask(BOB, &Request::GetReplicaList { keys: vec![key] }) {
            Reply::Located { mut results, mut successors, segments, .. } => {
                let newest = successors.pop().map(|(_, located)| Ok(located));
                newest.unwrap_or_else(|| results.remove(0)).map(|what| Placed { what, segments })
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn exist(&mut self, key: &str) -> bool {
        match self.ask(BOB, &Request::exist(vec![key])) {
            Reply::Exist(results) => results[0].expect("the key is one that the store takes"),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn prefix_len(&mut self, keys: &[&str]) -> Result<u32, ErrorCode> {
        match self.ask(BOB, &Request::prefix_len(keys.to_vec())) {
            Reply::PrefixLen(count) => Ok(count),
            Reply::Refused(code) => Err(code),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn remove(&mut self, key: &str, force: bool) -> Result<(), ErrorCode> {
        statuses(self.ask(BOB, &Request::Remove { keys: vec![key], force }))
    }

    /// Confirms to the master that nodes have dropped these ranges.
    pub(crate) fn drop_remains(&mut self, remains: &Remains) {
        let dropped = remains.ranges.iter().map(|range| RangeDrop {
            segment: remains.segments[range.segment as usize].id,
            offset: range.offset,
            version: range.version,
            grant: range.grant,
        });
        let request = Request::Dropped { dropped: dropped.collect() };
        assert_eq!(self.ask(BOB, &request), Reply::Done(Ok(())));
    }

    /// Scans the objects of all tenants, page by page.
    pub(crate) fn scan(
        &mut self,
        pattern: Option<&str>,
        action: ScanAction,
        limit: u32,
    ) -> Result<ScanPage, ErrorCode> {
        let mut all = ScanPage::default();
        let mut cursor = 0;
        loop {
            let tenant = None;
            let request = Request::Scan(Scan { tenant, pattern, action, cursor, limit });
            match self.ask(BOB, &request) {
                Reply::Scanned(page) => {
                    all.removed += page.removed;
                    all.objects.extend(page.objects);
                    match page.next_cursor {
                        Some(next) => cursor = next,
                        None => return Ok(all),
                    }
                }
                Reply::Refused(code) => return Err(code),
                other => panic!("{other:?}"),
            }
        }
    }

    /// The readable keys. Takes no lease.
    pub(crate) fn keys(&mut self) -> Vec<String> {
        let page = self.scan(None, ScanAction::List, 100).expect("there is no pattern");
        let mut keys: Vec<String> = page.objects.into_iter().map(|(key, _)| key).collect();
        keys.sort();
        keys
    }

    pub(crate) fn check(&self) {
        if let Err(violation) = self.meta.check() {
            panic!("{violation}");
        }
    }
}

fn statuses(reply: Reply) -> Result<(), ErrorCode> {
    match reply {
        Reply::Statuses(results) | Reply::Remaining { results, .. } => results[0],
        other => panic!("{other:?}"),
    }
}
