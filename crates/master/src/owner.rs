//! The owner of the state machine.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_calls::{CallPart, Watch};
use mooncake_ha::{Change, Silence, boot_time};
use mooncake_meta::{
    KeyEvent, MatchedKeys, Meta, Notice, Remnant, RemnantCursor, TenantQuota, UnmatchedKeys,
};
use mooncake_seals::Sealer;
use mooncake_types::{
    ClientId, DrainId, DrainOrder, Epoch, ErrorCode, MountSegment, Reply, Request, Scan, Seal,
    SegmentId, Tenant, Tick, Version, limits,
};

use crate::clock::Clock;
use crate::drain_log::DrainLog;
use crate::hot_keys::{HotKey, HotKeys};
use crate::leadership::{Authority, Lateness, Service, Term, change, drain_mark, effect};
use crate::metadata_server::Cleanup;
use crate::metrics::{Operation, Reads, RequestOutcome, RpcMetrics, Snapshot};
use crate::obstacle;
use crate::problems::Problem;
use crate::sight::{ConnectionId, Pings};
use crate::troubles::Troubles;

/// Most objects that one page of a scan covers, whatever the request asks for. So one page takes a few hundred
/// microseconds at most, and other requests are served between two pages.
pub(crate) const SCAN_PAGE_OBJECTS: u32 = 1024;

/// Most tenants without a quota that the metrics name.
const MOST_OTHER_TENANTS: usize = 16;

/// The state machine, its clock and its metrics.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) meta: Meta,
    /// How late the membership record is.
    lateness: Lateness,
    term: Term,
    clock: Clock,
    metrics: RpcMetrics,
    /// What clients read, as they report it.
    reads: Reads,
    pings: Pings,
    drain_log: DrainLog,
    troubles: Troubles,
    hot_keys: HotKeys,
    /// Removes the metadata of dead clients.
    cleanup: Option<Cleanup>,
    sealer: Sealer,
    /// Logs what was slow.
    pub(crate) calls: Arc<Watch>,
}

/// The leadership is over: the master may neither change nor answer anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deposed;

const _: () = assert!(SCAN_PAGE_OBJECTS <= limits::MAX_SCAN_OBJECTS);

impl Owner {
    /// The owner of one term.
    pub(crate) fn new(
        meta: Meta,
        (term, lateness): (&Term, Lateness),
        clock: Clock,
        (cleanup, calls): (Option<Cleanup>, Arc<Watch>),
    ) -> Owner {
        let (metrics, pings) = (RpcMetrics::default(), Pings::default());
        let drain_log = DrainLog::default();
        Owner {
            meta,
            lateness,
            term: term.clone(),
            clock,
            metrics,
            reads: Reads::default(),
            pings,
            drain_log,
            troubles: Troubles::default(),
            hot_keys: HotKeys::default(),
            cleanup,
            sealer: Sealer::default(),
            calls,
        }
    }

    /// Whether this master leads at this moment.
    pub(crate) fn leads(&self) -> bool {
        self.term.leads(boot_time::now())
    }

    /// What this master may do at this moment.
    pub(crate) fn authority(&self) -> Authority {
        self.term.authority(boot_time::now())
    }

    /// How much of its service this master provides. A new leader first hears from the nodes.
    pub(crate) fn service(&self) -> Service {
        match self.leads() {
            true if self.meta.serves() => Service::Serving,
            true => Service::Recovering,
            false => Service::Suspended,
        }
    }

    /// Since when the coordinator does not say whether this master still leads.
    pub(crate) fn silence(&self) -> Option<Silence> {
        self.term.leadership.silence()
    }

    /// Answers one request and measures how long that took.
    pub(crate) fn handle(&mut self, from: ClientId, request: &Request<'_>) -> Reply {
        let begun = boot_time::now();
        self.handle_at((begun, self.term.leads(begun)), (from, CallPart::default()), request)
    }

    fn handle_at(
        &mut self,
        (begun, leads): (Instant, bool),
        (from, part): (ClientId, CallPart),
        request: &Request<'_>,
    ) -> Reply {
        let now = self.clock.tick(begun);
        let page;
        let request = match request {
            Request::Scan(scan) if scan.limit > SCAN_PAGE_OBJECTS => {
                page = Request::Scan(one_page(scan));
                &page
            }
            request => request,
        };
        if matches!(request, Request::Ping { .. }) {
            let lease_end = self.term.leadership.lease_end();
            self.meta.set_lease_end(lease_end.map(|end| self.clock.tick(end)));
        }
        let mut reply = match leads {
            true => self.meta.handle(now, from, request),
            false => self.meta.handle_suspended(now, from, request),
        };
        match (request, &mut reply) {
            (Request::ListSegments { from: 0, .. }, Reply::Segments(page)) => {
                page.put_obstacle = obstacle::to_puts(self);
            }
            (_, Reply::TaskReported(report)) => report.assigned = report.assigned.told(),
            _ => {}
        }
        self.sealer.handle(request, &mut reply, |id| self.meta.endpoint(id).is_some());
        let took = boot_time::now().saturating_duration_since(begun);
        self.metrics.record(request, &reply, took);
        let what = || (Operation::of(request).name(), RequestOutcome::of(&reply).items as usize);
        self.calls.handled(part, (took, &[]), what);
        log_refusals(part, request, &reply);
        self.reads.record(from, request, &reply);
        reply
    }

    /// The seal with which this master asks a node about a segment.
    pub(crate) fn follow_seal(&self, segment: SegmentId) -> Seal {
        self.sealer.follow_seal(segment)
    }

    /// The id of a new connection.
    pub(crate) fn connect(&mut self) -> ConnectionId {
        self.pings.number()
    }

    /// Answers one request of a connection, a part of this call.
    ///
    /// # Errors
    /// The leadership is over: nothing was done.
    pub(crate) fn handle_over(
        &mut self,
        connection: ConnectionId,
        (from, part): (ClientId, CallPart),
        request: &Request<'_>,
    ) -> Result<Reply, Deposed> {
        let begun = boot_time::now();
        let authority = self.term.authority(begun);
        if authority == Authority::Over
            || authority == Authority::Suspended && self.is_overtaken(request)
        {
            return Err(Deposed);
        }
        let leads = authority == Authority::Leads;
        let reply = self.handle_at((begun, leads), (from, part), request);
        if matches!(reply, Reply::Pong(_)) {
            self.pings.note(from, connection);
        }
        Ok(reply)
    }

    /// Begins a page of a scan with a pattern: see [`Meta::begin_scan`].
    ///
    /// # Errors
    /// As [`handle_over`](Self::handle_over); inside, the code with which the scan is refused.
    pub(crate) fn begin_scan(
        &mut self,
        from: ClientId,
        scan: &Scan<'_>,
    ) -> Result<Result<UnmatchedKeys, ErrorCode>, Deposed> {
        let begun = boot_time::now();
        match self.term.authority(begun) {
            Authority::Over => Err(Deposed),
            Authority::Suspended => Ok(Err(ErrorCode::UnavailableInCurrentStatus)),
            Authority::Leads => {
                Ok(self.meta.begin_scan(self.clock.tick(begun), from, &one_page(scan)))
            }
        }
    }

    /// Ends a page of a scan with the keys that matched: see [`Meta::end_scan`].
    ///
    /// # Errors
    /// As [`handle_over`](Self::handle_over).
    pub(crate) fn end_scan(
        &mut self,
        from: ClientId,
        scan: &Scan<'_>,
        matched: Result<MatchedKeys, ErrorCode>,
    ) -> Result<Reply, Deposed> {
        let begun = boot_time::now();
        let now = self.clock.tick(begun);
        let scan = one_page(scan);
        let mut reply = match (self.term.authority(begun), matched) {
            (Authority::Over, _) => return Err(Deposed),
            (Authority::Suspended, _) => Reply::Refused(ErrorCode::UnavailableInCurrentStatus),
            (Authority::Leads, Err(code)) => Reply::Refused(code),
            (Authority::Leads, Ok(matched)) => self.meta.end_scan(now, from, &scan, matched),
        };
        let is_mounted = |id| self.meta.endpoint(id).is_some();
        self.sealer.handle(&Request::Scan(scan), &mut reply, is_mounted);
        let took = boot_time::now().saturating_duration_since(begun);
        self.metrics.record(&Request::Scan(scan), &reply, took);
        Ok(reply)
    }

    /// Whether the request shows that a node has obeyed a later leader. If so, ends this term.
    fn is_overtaken(&self, request: &Request<'_>) -> bool {
        let Request::MountSegment(mount) = request else { return false };
        let seen = mount.seen_epoch;
        let is_overtaken = seen > self.meta.epoch() && self.meta.is_credible_epoch(seen);
        if is_overtaken {
            self.term.end();
        }
        is_overtaken
    }

    /// The changes that must be durable before a mount is handled; nearly always none.
    pub(crate) fn changes_before(&self, mount: &MountSegment<'_>) -> Vec<Change> {
        let mut changes = Vec::new();
        if !self.term.is_recorded {
            return changes;
        }
        changes.extend(self.meta.epoch_after(mount).map(Change::RaiseEpoch));
        changes.extend(self.meta.effects_before(mount).into_iter().map(change));
        changes
    }

    /// Tells the state machine that these changes are durable.
    pub(crate) fn handle_recorded(&mut self, changes: &[Change]) {
        let now = self.clock.tick(boot_time::now());
        for effect in changes.iter().filter_map(|&change| effect(change)) {
            self.meta.handle_recorded(now, effect);
        }
    }

    /// Takes the changes that the state machine wants to be durable.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        let mut changes = match self.meta.has_effects() {
            true => self.meta.take_effects().into_iter().map(change).collect(),
            false => Vec::new(),
        };
        let marks = self.meta.take_drain_marks();
        if self.term.is_recorded {
            changes.extend(marks.into_iter().map(drain_mark));
        }
        changes
    }

    /// A connection of a client has ended. If its last ping came over it, its node is out of sight until it pings
    /// again.
    pub(crate) fn disconnect(&mut self, connection: ConnectionId, client: ClientId) {
        if self.pings.end(client, connection) {
            self.meta.handle_disconnect(self.clock.tick(boot_time::now()), client);
        }
    }

    /// Notes whether the node of a segment can be connected to. True if that is news.
    pub(crate) fn handle_reach(&mut self, segment: SegmentId, is_reached: bool) -> bool {
        let now = self.clock.tick(boot_time::now());
        self.leads() && self.meta.handle_reach(now, segment, is_reached)
    }

    /// Does the work that is due.
    pub(crate) fn handle_timeout(&mut self) {
        let begun = boot_time::now();
        let now = self.clock.tick(begun);
        self.meta.handle_timeout(now);
        self.drain_log.note(now, &mut self.meta);
        self.troubles.note_lost(now, self.meta.lost_keys());
        self.troubles.log(now);
        let expired = self.meta.take_expired_segments();
        if let Some(cleanup) = &self.cleanup {
            cleanup.forget(&expired);
        }
        let took = boot_time::now().saturating_duration_since(begun);
        self.calls.handled(CallPart::default(), (took, &[]), || ("due_work", 1));
    }

    /// Takes the notices for operators about the state machine's own work, and remembers its troubles and the objects
    /// that are read often.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        let (notices, lost) = (self.meta.take_notices(), self.meta.lost_keys());
        if !notices.is_empty() || self.troubles.are_behind(lost) {
            let now = self.clock.tick(boot_time::now());
            self.troubles.note_lost(now, lost);
            for notice in &notices {
                match notice {
                    Notice::OffloadFailed { segment, code } => {
                        self.troubles.note_failed_copy(now, segment, *code);
                    }
                    Notice::SegmentFailed { name, failure } => {
                        self.troubles.note_failed_segment(now, name, failure);
                    }
                    Notice::Hot { key, replicas, .. } => self.hot_keys.note(now, key, *replicas),
                    _ => {}
                }
            }
        }
        notices
    }

    /// For how long changes of the membership record have not been written, if callers do not wait for them any more.
    pub(crate) fn record_late(&self) -> Duration {
        if self.lateness.is_hopeless() { self.lateness.lasts() } else { Duration::ZERO }
    }

    /// What went wrong in the last hour, in words.
    pub(crate) fn recent_troubles(&self) -> Vec<Problem> {
        self.troubles.recent(self.now())
    }

    /// The objects that were found to be read often in the last hour, each with the milliseconds since then.
    pub(crate) fn recent_hot_keys(&self) -> Vec<(HotKey, u64)> {
        let now = self.now();
        let ago = |it: HotKey| {
            let ago_ms = it.ago_ms(now);
            (it, ago_ms)
        };
        self.hot_keys.recent(now).into_iter().map(ago).collect()
    }

    /// For how long this master has led.
    pub(crate) fn leads_ms(&self) -> u64 {
        self.now().0
    }

    fn now(&self) -> Tick {
        self.clock.tick(boot_time::now())
    }

    /// Takes the clients that have new tasks.
    pub(crate) fn take_clients_with_new_tasks(&mut self) -> BTreeSet<ClientId> {
        self.meta.take_clients_with_new_tasks()
    }

    /// Takes the keys whose tiers have changed.
    pub(crate) fn take_key_events(&mut self) -> Vec<KeyEvent> {
        self.meta.take_key_events()
    }

    /// When the next work is due.
    pub(crate) fn due(&self) -> Option<Tick> {
        let dues = [self.meta.poll_timeout(), self.drain_log.due(), self.troubles.due()];
        dues.into_iter().flatten().min()
    }

    /// See [`Meta::start_drain`].
    pub(crate) fn start_drain(&mut self, order: &DrainOrder) -> Result<DrainId, ErrorCode> {
        self.refuse_if_suspended()?;
        self.meta.start_drain(self.clock.tick(boot_time::now()), order)
    }

    /// See [`Meta::cancel_drain`].
    pub(crate) fn cancel_drain(&mut self, id: DrainId) -> Result<(), ErrorCode> {
        self.refuse_if_suspended()?;
        let now = self.clock.tick(boot_time::now());
        let canceled = self.meta.cancel_drain(now, id);
        self.drain_log.note(now, &mut self.meta);
        canceled
    }

    /// See [`Meta::undrain`].
    pub(crate) fn undrain(&mut self, name: &str) -> Result<(), ErrorCode> {
        self.refuse_if_suspended()?;
        let now = self.clock.tick(boot_time::now());
        let given_back = self.meta.undrain(now, name);
        self.drain_log.note(now, &mut self.meta);
        given_back
    }

    /// See [`Meta::soft_pin`]: one result per key.
    pub(crate) fn soft_pin(
        &mut self,
        keys: &[Cow<'_, str>],
        ttl_ms: u64,
    ) -> Result<Vec<Result<(), ErrorCode>>, ErrorCode> {
        self.refuse_if_suspended()?;
        let now = self.clock.tick(boot_time::now());
        Ok(keys.iter().map(|key| self.meta.soft_pin(now, key, ttl_ms)).collect())
    }

    /// See [`Meta::set_tenant_quota`].
    pub(crate) fn set_tenant_quota(
        &mut self,
        tenant: &Tenant,
        quota: Option<TenantQuota>,
    ) -> Result<(), ErrorCode> {
        self.refuse_if_suspended()?;
        self.meta.set_tenant_quota(tenant, quota)
    }

    /// See [`Meta::look_for_remnants`]. Fails unless the current term is the one that began under `term`.
    pub(crate) fn look_for_remnants(
        &mut self,
        term: Epoch,
        newest: Version,
        from: RemnantCursor,
    ) -> Result<Remnant, ErrorCode> {
        self.refuse_if_suspended()?;
        if self.meta.began_under() != term {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        let now = self.clock.tick(boot_time::now());
        Ok(self.meta.look_for_remnants(now, newest, (from, SCAN_PAGE_OBJECTS as usize)))
    }

    fn refuse_if_suspended(&self) -> Result<(), ErrorCode> {
        if self.leads() { Ok(()) } else { Err(ErrorCode::UnavailableInCurrentStatus) }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// All values of the metrics, at this moment, but the sums over segments.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let snapshot = Snapshot::new(self.meta.counts(), self.metrics.clone());
        let record_late = self.lateness.lasts();
        let reads = *self.reads.sum();
        let (tenants, tenant_memory) =
            (self.meta.tenants(MOST_OTHER_TENANTS), self.meta.memory_bytes());
        let service = self.service();
        let term = self.meta.began_under();
        Snapshot { term, service, record_late, reads, tenants, tenant_memory, ..snapshot }
    }
}

/// Logs for debugging which requests were refused, wholly or in part.
fn log_refusals(part: CallPart, request: &Request<'_>, reply: &Reply) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let RequestOutcome { items, failed } = RequestOutcome::of(reply);
    if failed > 0 {
        let id = part.id().map(tracing::field::display);
        let call = Operation::of(request).name();
        tracing::debug!(request = id, call, items, failed, "a request was refused");
    }
}

/// A scan of which one page covers no more objects than the owner looks at in one turn.
fn one_page<'a>(scan: &Scan<'a>) -> Scan<'a> {
    Scan { limit: scan.limit.min(SCAN_PAGE_OBJECTS), ..*scan }
}
