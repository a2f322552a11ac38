//! The state machine itself: its fields, and the entry point for requests.

use std::collections::BTreeSet;

use mooncake_types::{
    Chance, ClientId, Epoch, ErrorCode, Reply, Request, SharedDirectory, Tick, limits,
};

use crate::config::Config;
use crate::counters::Counters;
use crate::drains::Drains;
use crate::effort::Effort;
use crate::eviction::Usage;
use crate::key_events::KeyEvents;
use crate::notice::Notice;
use crate::objects::{
    ByKey, Extras, Groups, Index, Object, Patterns, Queue, Range, Records, SoftPins,
};
use crate::recovery::{Recovery, Reviews, Term, takes_all};
use crate::replication::{Repair, Replicator};
use crate::segments::{Clients, Members, RetiredSegments, Segments};
use crate::tasks::Tasks;
use crate::tenants::Tenants;
use crate::tiers::{Offloads, Promotions};
use crate::timer::Timer;
use crate::tombstones::{DropList, Tombstones};

/// Fewest objects of a pool whose records do not all fit into the processor's caches.
const LARGE_POOL: usize = 1 << 16;
/// Fewest keys of a request for which fetching ahead pays off.
const LARGE_BATCH: usize = 8;
/// Most keys that are fetched ahead. Further keys would push the first ones out of the processor's caches.
const MOST_AHEAD: usize = 2_048;

/// The master's state: segments and the clients that lend them, objects and where they lie, grants and leases.
///
/// It has one owner, takes no lock and reads no clock: every call passes the time, which never goes back.
///
/// - `handle` and the other `handle_*` methods change the state.
/// - `poll_timeout` says when [`Meta::handle_timeout`] is due.
/// - The `take_*` methods hand out what the shell must write or report.
/// - The getters and [`Meta::check`] only read.
#[derive(Debug)]
pub struct Meta {
    pub(crate) config: Config,
    pub(crate) term: Term,
    pub(crate) now: Tick,
    pub(crate) objects: Records<Object>,
    pub(crate) ranges: Records<Range>,
    pub(crate) index: Index,
    pub(crate) usage: Usage,
    /// Puts that have not ended, by key, where another object holds the key.
    pub(crate) beside: ByKey,
    pub(crate) groups: Groups,
    /// How much the present turn may still do.
    pub(crate) effort: Effort,
    /// The kind of due work with which the next turn begins.
    pub(crate) first_work: usize,
    pub(crate) tasks: Tasks,
    pub(crate) drains: Drains,
    pub(crate) tenants: Tenants,
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
    pub(crate) promotions: Promotions,
    pub(crate) repair: Repair,
    pub(crate) replicator: Replicator,
    pub(crate) notices: Vec<Notice>,
    /// Absent unless the shell asked for events.
    pub(crate) key_events: Option<Box<KeyEvents>>,
}

impl Meta {
    /// As [`Meta::unrecorded`], with a clock that starts at zero.
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
            effort: Effort::of_request(0),
            first_work: 0,
            tasks: Tasks::default(),
            drains: Drains::default(),
            tenants: Tenants::new(
                config.multi_tenants,
                config.tenant_eviction_high_watermark_ratio,
                config.eviction_policy,
            ),
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
            promotions: Promotions::default(),
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

    /// The epoch under which this leader grants now.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.term.epoch()
    }

    /// The shared directory in which nodes keep objects as files.
    #[must_use]
    pub fn shared_directory(&self) -> Option<&SharedDirectory> {
        self.config.shared_directory.as_ref()
    }

    /// Answers one request of one client. A request is a sign of life of its client, unless an operator or a standby
    /// sent it.
    pub fn handle(&mut self, now: Tick, from: ClientId, request: &Request<'_>) -> Reply {
        if let Err(code) = self.admit(now, from, request) {
            return Reply::Refused(code);
        }
        self.fetch_ahead(request);
        let reply = self.answer(from, request);
        self.settle_sunk();
        reply
    }

    /// Sets the clock, notes the sign of life, and begins the turn of a request.
    ///
    /// # Errors
    /// The code with which the request is refused.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        now: Tick,
        from: ClientId,
        request: &Request<'_>,
    ) -> Result<(), ErrorCode> {
        self.advance(now);
        // Standbys list segments. Neither they nor operators are clients.
        if from != ClientId::OPERATOR && !matches!(request, Request::ListSegments { .. }) {
            if self.clients.get(from).is_none() && self.clients.len() >= limits::MAX_CLIENTS {
                return Err(ErrorCode::UnavailableInCurrentStatus);
            }
            self.hear(from);
        }
        if keys_of(request) > limits::MAX_BATCH_KEYS {
            return Err(ErrorCode::InvalidParams);
        }
        if takes_all(request) {
            self.give_up_absent();
        }
        if !self.admits(request) || !self.is_written_ahead(request) {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        self.groups.begin_request();
        self.effort = Effort::of_request(self.chance.place(self.segments.grantable().len().max(1)));
        Ok(())
    }

    /// Answers an admitted request.
    fn answer(&mut self, from: ClientId, request: &Request<'_>) -> Reply {
        match request {
            Request::Ping { segments, unreachable, .. } => self.ping(from, segments, unreachable),
            Request::Leave { .. } => Reply::Done(self.leave(from)),
            Request::MountSegment(mount) => self.mount(from, mount),
            Request::ReportInventory(page) => Reply::Done(self.report_inventory(from, page)),
            Request::ReportChanges(page) => Reply::Done(self.report_changes(from, page)),
            Request::ListSegments { from, limit } => self.list_segments(*from, *limit),
            Request::FetchDrops { dropped, limit } => self.fetch_drops(from, dropped, *limit),
            Request::UnmountSegment { id, grace_ms, failure } => {
                self.note_failure(from, *id, failure);
                Reply::Done(self.unmount(from, *id, *grace_ms))
            }
            Request::PutStart(start) => self.put_start(from, start),
            Request::PutEnd { puts } => {
                let (writer, mut gathered) = (self.number_of(from), DropList::default());
                let results = in_reverse(puts, |put| self.put_end(writer, put, &mut gathered));
                gathered.into_reply(self.now, results)
            }
            Request::PutRevoke { puts } => {
                let writer = self.number_of(from);
                Reply::Statuses(puts.iter().map(|put| self.put_revoke(writer, put)).collect())
            }
            Request::GetReplicaList { keys } => self.get_replica_list(keys, &[]),
            Request::RenewRoutes { keys, uses } => self.get_replica_list(keys, uses),
            Request::ExistKey { keys, options } => {
                Reply::Exist(in_reverse(keys, |key| self.exist(key, *options)))
            }
            Request::PrefixLen { keys, leased_from } => self.prefix_len(keys, *leased_from),
            Request::Prefetch { keys } => {
                Reply::Prefetched(keys.iter().map(|key| self.prefetch(key)).collect())
            }
            Request::Remove { keys, force } => {
                let mut gathered = DropList::default();
                let remove = |key: &&str| self.remove(key, *force, &mut gathered);
                let results = keys.iter().map(remove).collect();
                gathered.into_reply(self.now, results)
            }
            Request::Dropped { dropped } => self.dropped(dropped),
            Request::Retract { keys, ranges } => self.retract(keys, ranges),
            Request::ReportLosses { keys, ranges } => self.take_losses(from, keys, ranges),
            Request::Scan(scan) => self.scan(scan),
            Request::ClearReplicas { keys, segment } => {
                let mut gathered = DropList::default();
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

    /// Has the processor load the records that a batch will read in look-ups and evictions, unless its caches are
    /// likely to hold them.
    fn fetch_ahead(&mut self, request: &Request<'_>) {
        if self.objects.len() < LARGE_POOL || keys_of(request) < LARGE_BATCH {
            return;
        }
        let (index, objects, ranges) = (&self.index, &self.objects, &self.ranges);
        match request {
            Request::ExistKey { keys, .. }
            | Request::PrefixLen { keys, .. }
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

    /// Draws a random id. No two ids of one epoch are equal, because `number` makes up their low bits.
    pub(crate) fn draw_id(&mut self, number: u64, number_bits: u32) -> u128 {
        let low = self.chance.bits() << number_bits | number;
        u128::from(self.term.epoch().0) << 64 | u128::from(low)
    }

    /// Sets the clock, unless `now` lies before the time that it has.
    pub(crate) fn advance(&mut self, now: Tick) {
        self.now = self.now.max(now);
        self.segments.set_clock(self.now);
    }
}

/// Calls `act` for each item, from the last to the first, so that the first item becomes the most recently used. A
/// block of a prompt is of no use without the blocks before it. Returns the results in the order of the items.
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
        Request::Retract { keys, ranges } | Request::ReportLosses { keys, ranges } => {
            keys.len().max(ranges.len())
        }
        Request::GetReplicaList { keys }
        | Request::RenewRoutes { keys, .. }
        | Request::ExistKey { keys, .. }
        | Request::PrefixLen { keys, .. }
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
