//! A client's membership, as a pure machine. It connects, pings, mounts segments, sends their ledgers to a new
//! leader, and drops entries that the leader names. It repeats all of this when the master forgot the client, moved
//! or changed.

mod drops;
mod mounting;
mod step;

use std::sync::Arc;

use mooncake_ops::{CallError, Retry, RetryPolicy};
use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{Chance, Epoch, ErrorCode, Pong, RangeDrop, Reply, Request, SegmentId, Tick};

use drops::Drops;
use mounting::{MountStage, Mounting};
pub use step::{Lent, MembershipStep};

/// Time between two pings, in milliseconds. It is shorter if the master's time limit for clients or for routes
/// requires it.
const PING_INTERVAL_MS: u64 = 1000;

/// Time between two pings of a client that lends segments. The master takes it for dead if others cannot reach it and
/// no ping comes for half a second.
const NODE_PING_INTERVAL_MS: u64 = 250;

/// Number of pings within the time after which the master gives up a client.
const PINGS_PER_TTL: u64 = 3;

/// A client that may not lend connects again after this long, in milliseconds: its token may have got the right.
const DENIED_PAUSE_MS: u64 = 5000;

/// The machine. Call [`Membership::next`], do that step, and pass the outcome to [`Membership::on_connected`],
/// [`Membership::on_reply`] or the function that the step names.
#[derive(Clone, Debug)]
pub struct Membership {
    addresses: usize,
    segments: Vec<Lent>,
    link: MasterLink,
    retry: Retry,
    chance: Chance,
    seen_epoch: Epoch,
    /// The epoch of the leader under which the segments were last mounted.
    mounted_under: Option<Epoch>,
    mounting: Mounting,
    drops: Drops,
    /// Whether entries are lost that the master does not know of.
    has_losses: bool,
    /// Whether the master may be told of them. After a refusal, the next pong says so.
    takes_losses: bool,
    /// Segments that the master must forget, if it has them.
    to_unmount: Vec<(SegmentId, Arc<str>)>,
    /// Segments of others whose nodes could not be reached; the next ping names them.
    unreachable: Vec<SegmentId>,
    last_ping_answered: bool,
    has_tasks: bool,
    routes_end: Option<RoutesEnd>,
    is_unreached: bool,
    /// Since when the master of this connection denies this client the right to lend.
    denied_since: Option<Tick>,
}

/// Until when reads may begin with routes of a leader, by its last pong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutesEnd {
    /// The epoch of the leader.
    pub epoch: Epoch,
    /// From this time on reads must not begin.
    pub at: Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MasterLink {
    Disconnected { address: usize, try_at: Tick },
    Connected { address: usize, ping_at: Tick, asked: Option<MasterRequest> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MasterRequest {
    Ping { at: Tick },
    Mount,
    Report,
    Unmount,
    Drops,
    Losses,
}

impl Membership {
    /// A client that lends nothing yet. It tries `addresses` addresses of the master, at least one.
    #[must_use]
    pub fn new(addresses: usize, chance: Chance) -> Self {
        assert!(addresses > 0, "a master has an address");
        Self {
            addresses,
            segments: Vec::new(),
            link: MasterLink::Disconnected { address: 0, try_at: Tick::ZERO },
            retry: Retry::new(RetryPolicy::CONNECT),
            chance,
            seen_epoch: Epoch(0),
            mounted_under: None,
            mounting: Mounting::default(),
            drops: Drops::default(),
            has_losses: false,
            takes_losses: false,
            to_unmount: Vec::new(),
            unreachable: Vec::new(),
            last_ping_answered: false,
            has_tasks: false,
            routes_end: None,
            is_unreached: false,
            denied_since: None,
        }
    }

    /// Lends these segments from now on.
    pub fn lend(&mut self, segments: Vec<Lent>) {
        self.segments = segments;
        self.mounted_under = None;
        self.mounting.begin();
    }

    /// Lends one more segment, which the master has mounted already.
    pub fn lend_also(&mut self, segment: Lent) {
        self.segments.push(segment);
        self.mounting.on_mounted_elsewhere(self.segments.len() - 1);
    }

    /// Lends this segment no longer: neither pings nor mounts name it again. Call it between two steps only.
    pub fn take_back(&mut self, id: SegmentId) {
        let Some(at) = self.segments.iter().position(|segment| segment.id == id) else { return };
        self.segments.remove(at);
        self.mounting.on_taken_back(at);
    }

    /// Has the master unmount a segment, if it has it, as soon as the master can be reached. `failure` says why the
    /// segment failed; it is empty if it did not.
    pub fn unmount(&mut self, id: SegmentId, failure: impl Into<Arc<str>>) {
        self.to_unmount.push((id, failure.into()));
    }

    /// Has the next ping report that the nodes of these segments could not be reached. That ping is due at once.
    pub fn report(&mut self, segments: Vec<SegmentId>) {
        if !segments.is_empty() {
            self.unreachable = segments;
        }
    }

    /// Takes note of the epoch of a leader that another part of this process has met.
    pub fn see_epoch(&mut self, epoch: Epoch) {
        self.seen_epoch = self.seen_epoch.max(epoch);
    }

    /// The highest epoch seen so far.
    #[must_use]
    pub const fn seen_epoch(&self) -> Epoch {
        self.seen_epoch
    }

    /// Whether the last ping was answered.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        self.last_ping_answered
    }

    /// Whether the master's last pong said that others cannot reach this client at its endpoint.
    #[must_use]
    pub const fn is_unreached(&self) -> bool {
        self.is_unreached
    }

    /// The endpoint at which this client serves, if it lends anything.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.segments.first().map(|segment| &*segment.endpoint)
    }

    /// Whether a pong has said, since the last call, that tasks wait for this client.
    pub fn take_has_tasks(&mut self) -> bool {
        std::mem::take(&mut self.has_tasks)
    }

    /// The end of routes by the last pong since the last call, if there was one.
    pub fn take_routes_end(&mut self) -> Option<RoutesEnd> {
        self.routes_end.take()
    }

    /// Whether the master answers, and has mounted all segments or refused them for good.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.last_ping_answered && self.mounting.segment() >= self.segments.len()
    }

    /// The segment that the master refused last, and why.
    #[must_use]
    pub fn mount_refusal(&self) -> Option<(&Lent, ErrorCode)> {
        self.mounting.refusal().map(|(segment, code)| (&self.segments[segment], code))
    }

    /// The step to take now.
    pub fn next(&mut self, now: Tick) -> MembershipStep<'_> {
        match self.link {
            MasterLink::Disconnected { try_at, .. } if now < try_at => {
                MembershipStep::Wait { until: try_at }
            }
            MasterLink::Disconnected { address, .. } => MembershipStep::Connect { address },
            MasterLink::Connected { ping_at, .. } => {
                // Ping first: the pong tells whether there is anything to mount. Pings also go on during long
                // reports.
                let is_due = now >= ping_at || !self.unreachable.is_empty();
                match self.last_ping_answered && !is_due {
                    true => self.work(ping_at),
                    false => self.ping(now),
                }
            }
        }
    }

    fn ping(&mut self, now: Tick) -> MembershipStep<'_> {
        self.set_asked(MasterRequest::Ping { at: now });
        let segments = self.segments.iter().map(|segment| segment.id).collect();
        let unreachable = std::mem::take(&mut self.unreachable);
        MembershipStep::Call(Request::Ping { segments, unreachable, reads: None })
    }

    /// The step to take between two pings.
    fn work(&mut self, ping_at: Tick) -> MembershipStep<'_> {
        let obeys = self.mounted_under >= Some(self.seen_epoch);
        if let Some(stage) = self.mounting.stage(self.segments.len(), obeys) {
            // A leader that lists the ledger without what was lost would believe what that had replaced elsewhere.
            let tells_first = self.has_losses && obeys && !is_broken(Rule::LossesAreToldFirst);
            return match tells_first {
                true if self.takes_losses => self.report_losses(),
                true => MembershipStep::Wait { until: ping_at },
                false => self.mount(stage),
            };
        }
        if !self.to_unmount.is_empty() {
            self.set_asked(MasterRequest::Unmount);
            let (id, failure) = &self.to_unmount[self.to_unmount.len() - 1];
            return MembershipStep::Call(Request::UnmountSegment { id: *id, grace_ms: 0, failure });
        }
        if !obeys {
            self.drops.clear();
        }
        if let Some(request) = self.drops.fetch() {
            self.set_asked(MasterRequest::Drops);
            return MembershipStep::Call(request);
        }
        if self.has_losses && self.takes_losses && obeys {
            return self.report_losses();
        }
        match self.drops.listed() {
            [] => MembershipStep::Wait { until: ping_at },
            listed => MembershipStep::Drop(listed),
        }
    }

    fn report_losses(&mut self) -> MembershipStep<'_> {
        self.set_asked(MasterRequest::Losses);
        MembershipStep::ReportLosses
    }

    fn mount(&mut self, stage: MountStage) -> MembershipStep<'_> {
        match stage {
            MountStage::Mount => self.set_asked(MasterRequest::Mount),
            MountStage::Report { .. } | MountStage::ReportChanges { .. } => {
                self.set_asked(MasterRequest::Report);
            }
            MountStage::StartEmpty => {}
        }
        let segment = &self.segments[self.mounting.segment()];
        match stage {
            MountStage::Mount => MembershipStep::Mount { segment, seen_epoch: self.seen_epoch },
            MountStage::Report { page, from } => {
                MembershipStep::Report { segment: segment.id, run: segment.run, page, from }
            }
            MountStage::ReportChanges { page, since } => {
                MembershipStep::ReportChanges { segment: segment.id, page, since }
            }
            MountStage::StartEmpty => MembershipStep::StartEmpty { segment: segment.id },
        }
    }

    /// Takes the outcome of [`MembershipStep::Connect`]: the epoch that the master named, or `None` without a
    /// connection.
    pub fn on_connected(&mut self, now: Tick, epoch: Option<Epoch>) {
        let MasterLink::Disconnected { address, .. } = self.link else {
            unreachable!("only a client that is apart connects")
        };
        let Some(epoch) = epoch else { return self.on_connection_lost(now, address) };
        self.see_epoch(epoch);
        self.link = MasterLink::Connected { address, ping_at: now, asked: None };
    }

    /// Takes the reply to [`MembershipStep::Call`] or [`MembershipStep::Mount`].
    pub fn on_reply(&mut self, now: Tick, reply: Result<Reply, CallError>) {
        let MasterLink::Connected { address, asked: Some(asked), .. } = self.link else {
            unreachable!("a reply belongs to a call")
        };
        match (asked, reply) {
            (MasterRequest::Ping { at }, Ok(Reply::Pong(pong))) => self.on_pong(at, address, &pong),
            (MasterRequest::Mount, Ok(Reply::Mounted(outcome))) => {
                let obeys = self.mounted_under >= Some(self.seen_epoch);
                self.mounting.on_outcome(outcome, obeys);
                self.set_idle();
            }
            (MasterRequest::Mount | MasterRequest::Report, Ok(Reply::Done(Err(code)))) => {
                // It is tried again after the next pong.
                self.mounting.on_refused(code);
                self.set_idle();
            }
            // Who it is was settled when it connected, and its rights may be others by now.
            (
                MasterRequest::Mount | MasterRequest::Report,
                Ok(Reply::Refused(code @ ErrorCode::PermissionDenied)),
            ) => {
                self.mounting.on_refused(code);
                let since = *self.denied_since.get_or_insert(now);
                match now.since_ms(since) < DENIED_PAUSE_MS {
                    true => self.set_idle(),
                    false => self.on_connection_lost(now, address),
                }
            }
            (MasterRequest::Drops, Ok(Reply::Drops(listed))) => {
                self.drops.on_listed(listed);
                self.set_idle();
            }
            (MasterRequest::Losses, Ok(Reply::Done(told))) => {
                self.has_losses = false;
                self.takes_losses = told.is_ok();
                self.set_idle();
            }
            (MasterRequest::Unmount, Ok(Reply::Done(_))) => {
                // Whatever the reply says, the master does not have the segment any more.
                self.to_unmount.pop();
                self.set_idle();
            }
            // No reply, a refusal or an unexpected reply: try the next master.
            _ => self.on_connection_lost(now, address),
        }
    }

    /// Takes the outcome of [`MembershipStep::Report`] or [`MembershipStep::ReportChanges`]: the reply, and where the
    /// next page begins if there is one.
    pub fn on_reported(&mut self, now: Tick, next: Option<u64>, reply: Result<Reply, CallError>) {
        match reply {
            Ok(Reply::Done(Ok(()))) => {
                self.mounting.on_reported(next);
                self.set_idle();
            }
            reply => self.on_reply(now, reply),
        }
    }

    /// The ledger has forgotten some of the changes. The leader gets the whole inventory instead.
    pub fn on_changes_forgotten(&mut self) {
        self.mounting.on_changes_forgotten();
        self.set_idle();
    }

    /// Takes the outcome of [`MembershipStep::StartEmpty`]: the new id of the segment, or `None` if no id could be
    /// made.
    pub fn on_started_empty(&mut self, now: Tick, id: Option<SegmentId>) {
        let MasterLink::Connected { address, .. } = self.link else {
            unreachable!("only a master says so")
        };
        let Some(id) = id else { return self.on_connection_lost(now, address) };
        self.segments[self.mounting.segment()].id = id;
        self.mounting.on_started_empty();
    }

    /// Notes whether entries of the client's segments are lost that the master does not know of.
    pub const fn see_losses(&mut self, has_losses: bool) {
        self.has_losses = has_losses;
    }

    /// Takes the outcome of [`MembershipStep::Drop`]: the entries that the node has dropped.
    pub fn on_dropped(&mut self, dropped: Vec<RangeDrop>) {
        self.drops.on_dropped(dropped);
    }

    fn on_pong(&mut self, asked_at: Tick, address: usize, pong: &Pong) {
        self.retry.reset(asked_at);
        self.last_ping_answered = true;
        self.has_tasks = pong.has_tasks;
        self.is_unreached = pong.is_unreached;
        self.drops.on_pong(pong.has_drops);
        self.takes_losses = true;
        let at = asked_at.after_ms(pong.routes_ms);
        self.routes_end = Some(RoutesEnd { epoch: pong.epoch, at });
        // Each pong prolongs the known routes. The interval is short enough that one lost pong does no harm.
        let prolongs_ms = (pong.routes_ms / 2).clamp(NODE_PING_INTERVAL_MS, PING_INTERVAL_MS);
        let longest_ms = if self.segments.is_empty() { prolongs_ms } else { NODE_PING_INTERVAL_MS };
        let interval_ms = (pong.client_ttl_ms / PINGS_PER_TTL).clamp(10, longest_ms);
        let ping_at = asked_at.after_ms(interval_ms);
        self.link = MasterLink::Connected { address, ping_at, asked: None };
        // A leader whose epoch is older than one that nodes have seen learns it from the mount, and must catch up.
        let is_behind = pong.epoch < self.seen_epoch;
        self.see_epoch(pong.epoch);
        // A leader that refused a segment may know it from an earlier mount, and then does not ask for it.
        let lacks_one = pong.need_remount || self.mounting.refusal().is_some();
        // While some segments are still to be mounted, the master is expected to lack them.
        let lacks_one = lacks_one && self.mounting.segment() >= self.segments.len();
        if lacks_one || is_behind || self.mounted_under != Some(pong.epoch) {
            self.mounting.begin();
            self.mounted_under = Some(pong.epoch);
        }
        self.mounting.on_pong();
    }

    /// The connection ended or could not be made. The next address is tried at once, after a whole round of them
    /// after a pause.
    fn on_connection_lost(&mut self, now: Tick, address: usize) {
        self.last_ping_answered = false;
        self.denied_since = None;
        self.mounting.on_connection_lost();
        self.drops.clear();
        let next = (address + 1) % self.addresses;
        let try_at = if next == 0 { self.next_round(now) } else { now };
        self.link = MasterLink::Disconnected { address: next, try_at };
    }

    /// When to try the addresses again. A random part, up to a half, is cut from the pause, so that many clients of
    /// one master do not return at the same time.
    fn next_round(&mut self, now: Tick) -> Tick {
        let longest_ms = self.retry.pause_from(now).since_ms(now);
        now.after_ms(longest_ms / 2 + self.chance.below(longest_ms / 2 + 1))
    }

    fn set_asked(&mut self, what: MasterRequest) {
        if let MasterLink::Connected { asked, .. } = &mut self.link {
            *asked = Some(what);
        }
    }

    fn set_idle(&mut self) {
        if let MasterLink::Connected { asked, .. } = &mut self.link {
            *asked = None;
        }
    }
}
