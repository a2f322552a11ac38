//! The state machine's frame: what it holds, and the one way in.

use std::collections::BTreeSet;

use mooncake_types::{
    Chance, ClientId, Epoch, ErrorCode, Reply, Request, SharedDirectory, Tick, limits,
};

use crate::config::Config;
use crate::counters::Counters;
use crate::drains::Drains;
use crate::eviction::{Effort, Usage};
use crate::key_events::KeyEvents;
use crate::notice::Notice;
use crate::objects::{
    ByKey, Extras, Groups, Index, Object, Patterns, Queue, Range, Records, SoftPins,
};
use crate::recovery::{Recovery, Reviews, Term};
use crate::replication::{Heat, Repair, Replicator};
use crate::segments::{Clients, Members, RetiredSegments, Segments};
use crate::tasks::Tasks;
use crate::tiers::{self, Offloads};
use crate::timer::Timer;
use crate::tombstones::{Gathered, Tombstones};

/// Objects whose records the processor's caches hold no more.
const LARGE_POOL: usize = 1 << 16;
/// Keys from which on a request is worth fetching ahead for.
const LARGE_BATCH: usize = 8;
/// Keys that are fetched ahead. More of them would push the first ones out of the processor's caches.
const MOST_AHEAD: usize = 2_048;

/// The master's state: who lends what, which objects there are, where they lie, who may read or write them.
///
/// One owner, no locks, no clock: time comes with every call and never goes back. The methods come in four kinds:
/// `handle`, `handle_disconnect` and `handle_timeout` change the state, `poll_timeout` says when the latter is due, the getters and
/// [`Meta::check`] only look.
#[derive(Debug)]
pub struct Meta {
    pub(crate) config: Config,
    pub(crate) term: Term,
    pub(crate) now: Tick,
    pub(crate) objects: Records<Object>,
    pub(crate) ranges: Records<Range>,
    pub(crate) index: Index,
    pub(crate) usage: Usage,
    /// The puts that run beside the objects that hold their keys.
    pub(crate) beside: ByKey,
    pub(crate) groups: Groups,
    /// What this request may yet do to make room.
    pub(crate) effort: Effort,
    pub(crate) tasks: Tasks,
    pub(crate) drains: Drains,
    pub(crate) segments: Segments,
    pub(crate) clients: Clients,
    /// Running puts, oldest first.
    pub(crate) running: Queue,
    pub(crate) soft_pins: SoftPins,
    pub(crate) timers: BTreeSet<(Tick, Timer)>,
    pub(crate) patterns: Patterns,
    pub(crate) chance: Chance,
    pub(crate) counters: Counters,
    pub(crate) members: Members,
    pub(crate) retired_segments: RetiredSegments,
    pub(crate) recovery: Recovery,
    pub(crate) tombstones: Tombstones,
    pub(crate) reviews: Reviews,
    pub(crate) extras: Extras,
    pub(crate) offloads: Offloads,
    /// Reads of objects that lie on disks alone, if these are counted.
    pub(crate) disk_heat: Option<Heat>,
    pub(crate) repair: Repair,
    pub(crate) replicator: Replicator,
    pub(crate) notices: Vec<Notice>,
    /// None unless a shell asked for them.
    pub(crate) key_events: Option<Box<KeyEvents>>,
}

impl Meta {
    /// [`Meta::unrecorded`] for a clock that begins now.
    ///
    /// # Panics
    /// If the configuration does not [validate](Config::validate).
    #[must_use]
    pub fn new(config: Config, epoch: Epoch) -> Self {
        Self::unrecorded(config, epoch, Tick::ZERO)
    }

    pub(crate) fn begin(
        config: Config,
        epoch: Epoch,
        now: Tick,
        (members, recovery): (Members, Recovery),
    ) -> Self {
        assert_eq!(config.validate(), Ok(()), "the configuration is validated by the caller");
        let mut meta = Self {
            term: Term::begin(epoch, now),
            now,
            objects: Records::default(),
            ranges: Records::default(),
            index: Index::new(config.seed),
            usage: Usage::new(config.eviction_policy),
            beside: ByKey::default(),
            groups: Groups::default(),
            effort: Effort::new(0),
            tasks: Tasks::default(),
            drains: Drains::default(),
            segments: Segments::new(config.eviction_high_watermark_ratio),
            clients: Clients::default(),
            running: Queue::default(),
            soft_pins: SoftPins::default(),
            timers: BTreeSet::new(),
            patterns: Patterns::default(),
            chance: Chance::new(config.seed),
            counters: Counters::default(),
            members,
            retired_segments: RetiredSegments::default(),
            recovery,
            tombstones: Tombstones::default(),
            reviews: Reviews::default(),
            extras: Extras::default(),
            offloads: Offloads::default(),
            disk_heat: tiers::disk_heat(config.promotion_on_hit),
            repair: Repair::new(config.repair_bytes_per_second, now),
            replicator: Replicator::new(&config.replication),
            notices: Vec::new(),
            key_events: None,
            config,
        };
        meta.set_recovery_timers();
        meta
    }

    /// The epoch under which this leader began.
    #[must_use]
    pub fn began_under(&self) -> Epoch {
        self.term.began_under()
    }

    /// The epoch under which grants are given.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.term.epoch()
    }

    /// Where nodes are to keep objects as files.
    #[must_use]
    pub fn shared_directory(&self) -> Option<&SharedDirectory> {
        self.config.shared_directory.as_ref()
    }

    /// Answers one request of one client. Every request counts as a sign of life.
    pub fn handle(&mut self, now: Tick, from: ClientId, request: &Request<'_>) -> Reply {
        self.advance(now);
        // Another master is no client.
        if from != ClientId::OPERATOR && !matches!(request, Request::ListSegments { .. }) {
            if self.clients.get(from).is_none() && self.clients.len() >= limits::MAX_CLIENTS {
                return Reply::Refused(ErrorCode::UnavailableInCurrentStatus);
            }
            self.hear(from);
        }
        if keys_of(request) > limits::MAX_BATCH_KEYS {
            return Reply::Refused(ErrorCode::InvalidParams);
        }
        if matches!(request, Request::Scan(_)) && request.changes_objects() {
            self.give_up_absent_disks();
        }
        if !self.admits(request) {
            return Reply::Refused(ErrorCode::UnavailableInCurrentStatus);
        }
        self.groups.begin_request();
        self.effort = Effort::new(self.chance.place(self.segments.grantable().len().max(1)));
        self.fetch_ahead(request);
        let reply = self.answer(from, request);
        self.settle_sunk();
        reply
    }

    /// Answers a request that was admitted.
    fn answer(&mut self, from: ClientId, request: &Request<'_>) -> Reply {
        match request {
            Request::Ping { segments, unreachable, .. } => self.ping(from, segments, unreachable),
            Request::Leave { .. } => Reply::Done(self.leave(from)),
            Request::MountSegment(mount) => self.mount(from, mount),
            Request::ReportInventory(page) => Reply::Done(self.report_inventory(from, page)),
            Request::ReportChanges(page) => Reply::Done(self.report_changes(from, page)),
            Request::ListSegments { from, limit } => self.list_segments(*from, *limit),
            Request::FetchDrops { dropped, limit } => self.fetch_drops(from, dropped, *limit),
            Request::UnmountSegment { id, grace_ms } => {
                Reply::Done(self.unmount(from, *id, *grace_ms))
            }
            Request::PutStart(start) => self.put_start(from, start),
            Request::PutEnd { puts } => {
                let (writer, mut gathered) = (self.number_of(from), Gathered::default());
                let results = in_reverse(puts, |put| self.put_end(writer, put, &mut gathered));
                gathered.into_reply(self.now, results)
            }
            Request::PutRevoke { puts } => {
                let writer = self.number_of(from);
                Reply::Statuses(puts.iter().map(|put| self.put_revoke(writer, put)).collect())
            }
            Request::GetReplicaList { keys } => self.get_replica_list(keys, &[]),
            Request::RenewRoutes { keys, uses } => self.get_replica_list(keys, uses),
            Request::ExistKey { keys } => Reply::Exist(in_reverse(keys, |key| self.exist(key))),
            Request::PrefixLen { keys } => self.prefix_len(keys),
            Request::Prefetch { keys } => {
                Reply::Prefetched(keys.iter().map(|key| self.prefetch(key)).collect())
            }
            Request::Remove { keys, force } => {
                let mut gathered = Gathered::default();
                let remove = |key: &&str| self.remove(key, *force, &mut gathered);
                let results = keys.iter().map(remove).collect();
                gathered.into_reply(self.now, results)
            }
            Request::Dropped { dropped } => self.dropped(dropped),
            Request::Retract { keys, ranges } => self.retract(keys, ranges),
            Request::Scan(scan) => self.scan(scan),
            Request::ClearReplicas { keys, segment } => {
                let mut gathered = Gathered::default();
                let clear = |key: &&str| self.clear(from, key, segment, &mut gathered);
                let results = keys.iter().map(clear).collect();
                gathered.into_reply(self.now, results)
            }
            Request::CreateTask(task) => match self.create_task(task) {
                Ok(id) => Reply::TaskCreated(id),
                Err(code) => Reply::Refused(code),
            },
            Request::QueryTask { id } => match self.query_task(*id) {
                Some(report) => Reply::TaskReported(report),
                None => Reply::Refused(ErrorCode::TaskNotFound),
            },
            Request::DrainSegments { segments } => match self.drain_own(from, segments) {
                Ok(report) => Reply::Draining(Box::new(report)),
                Err(code) => Reply::Refused(code),
            },
            Request::FetchTasks { limit, .. } => self.fetch_tasks(from, *limit),
            Request::EndTask { id, outcome } => self.end_task(from, *id, *outcome),
        }
    }

    /// Has the processor fetch what the look-ups and evictions of a batch will read, where it is not likely to be near anyway.
    fn fetch_ahead(&mut self, request: &Request<'_>) {
        if self.objects.len() < LARGE_POOL || keys_of(request) < LARGE_BATCH {
            return;
        }
        let (index, objects, ranges) = (&self.index, &self.objects, &self.ranges);
        match request {
            Request::ExistKey { keys }
            | Request::PrefixLen { keys }
            | Request::GetReplicaList { keys }
            | Request::RenewRoutes { keys, .. }
            | Request::Remove { keys, .. } => {
                index.fetch_ahead(objects, ranges, keys.iter().copied().take(MOST_AHEAD));
            }
            Request::PutStart(start) => {
                let keys = start.puts.iter().map(|put| put.key);
                index.fetch_ahead(objects, ranges, keys.take(MOST_AHEAD));
                self.fetch_victims_ahead(&start.puts[..start.puts.len().min(MOST_AHEAD)]);
            }
            Request::PutEnd { puts } => {
                let keys = puts.iter().rev().map(|put| put.key);
                index.fetch_ahead(objects, ranges, keys.take(MOST_AHEAD));
            }
            _ => {}
        }
    }

    /// An id that is drawn at random, but never twice under an epoch: its low bits are this number.
    pub(crate) fn draw_id(&mut self, number: u64, number_bits: u32) -> u128 {
        let low = self.chance.bits() << number_bits | number;
        u128::from(self.term.epoch().0) << 64 | u128::from(low)
    }

    /// Time never goes back, whatever the caller's clock says.
    pub(crate) fn advance(&mut self, now: Tick) {
        self.now = self.now.max(now);
        self.segments.set_clock(self.now);
    }
}

/// Does the same for each item, from the last to the first, so that the first is the most recently used one: blocks
/// of a prompt are worth nothing without those before them. Returns the results in the order of the items.
fn in_reverse<T, R>(items: &[T], act: impl FnMut(&T) -> R) -> Vec<R> {
    let mut results: Vec<R> = items.iter().rev().map(act).collect();
    results.reverse();
    results
}

fn keys_of(request: &Request<'_>) -> usize {
    match request {
        Request::Ping { segments, unreachable, .. } => segments.len().max(unreachable.len()),
        Request::PutStart(start) => start.puts.len(),
        Request::PutEnd { puts } => puts.len(),
        Request::PutRevoke { puts } => puts.len(),
        Request::ReportInventory(page) => page.entries.len(),
        Request::ReportChanges(page) => page.entries.len().max(page.gone.len()),
        Request::Dropped { dropped } | Request::FetchDrops { dropped, .. } => dropped.len(),
        Request::Retract { keys, ranges, .. } => keys.len().max(ranges.len()),
        Request::GetReplicaList { keys }
        | Request::RenewRoutes { keys, .. }
        | Request::ExistKey { keys }
        | Request::PrefixLen { keys }
        | Request::Prefetch { keys }
        | Request::Remove { keys, .. }
        | Request::ClearReplicas { keys, .. } => keys.len(),
        Request::DrainSegments { segments } => segments.len(),
        Request::Leave { .. }
        | Request::MountSegment(_)
        | Request::ListSegments { .. }
        | Request::UnmountSegment { .. }
        | Request::Scan(_)
        | Request::CreateTask(_)
        | Request::QueryTask { .. }
        | Request::FetchTasks { .. }
        | Request::EndTask { .. } => 1,
    }
}
