//! A client's life with the master, as a pure machine: connect, ping, mount, tell a new leader what lies in the segments,
//! drop what it says, and all of it again when the master forgot, moved or changed.

mod drops;
mod mounting;
mod step;

use mooncake_ops::{CallError, Retry, RetryPolicy};
use mooncake_types::{Chance, Epoch, ErrorCode, Pong, RangeDrop, Reply, Request, SegmentId, Tick};

use drops::Drops;
use mounting::{MountStage, Mounting};
pub use step::{Lent, MembershipStep};

/// Time between two pings, in milliseconds; shorter if the master's patience with clients is, or its word of routes.
const PING_INTERVAL_MS: u64 = 1000;

/// The same for a client that lends segments: the master takes it to be gone if others cannot reach it and no ping
/// comes for half a second.
const NODE_PING_INTERVAL_MS: u64 = 250;

/// Pings that fit into the time after which the master gives a client up.
const PINGS_PER_TTL: u64 = 3;

/// The machine. Ask it [`Membership::next`], do that step, and hand the outcome to [`Membership::on_connected`] or
/// [`Membership::on_reply`].
#[derive(Clone, Debug)]
pub struct Membership {
    addresses: usize,
    segments: Vec<Lent>,
    link: MasterLink,
    retry: Retry,
    chance: Chance,
    seen_epoch: Epoch,
    /// The leader that the segments were last mounted under.
    mounted_under: Option<Epoch>,
    mounting: Mounting,
    drops: Drops,
    /// Segments that the master may have and is to forget.
    retired: Vec<SegmentId>,
    /// Segments of others whose nodes could not be reached; the next ping names them.
    unreachable: Vec<SegmentId>,
    last_ping_answered: bool,
    has_tasks: bool,
    routes_end: Option<RoutesEnd>,
    is_unreached: bool,
}

/// Until when reads may begin with routes of a leader, as far as it has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutesEnd {
    /// The leader's.
    pub epoch: Epoch,
    /// From this moment on they must not.
    pub at: Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MasterLink {
    Apart { address: usize, try_at: Tick },
    Joined { address: usize, ping_at: Tick, asked: Option<MasterRequest> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MasterRequest {
    Ping { at: Tick },
    Mount,
    Report,
    Unmount,
    Drops,
}

impl Membership {
    /// A client that lends nothing yet and has as many addresses of the master to try, at least one.
    #[must_use]
    pub fn new(addresses: usize, chance: Chance) -> Self {
        assert!(addresses > 0, "a master has an address");
        Self {
            addresses,
            segments: Vec::new(),
            link: MasterLink::Apart { address: 0, try_at: Tick::ZERO },
            retry: Retry::new(RetryPolicy::CONNECT),
            chance,
            seen_epoch: Epoch(0),
            mounted_under: None,
            mounting: Mounting::default(),
            drops: Drops::default(),
            retired: Vec::new(),
            unreachable: Vec::new(),
            last_ping_answered: false,
            has_tasks: false,
            routes_end: None,
            is_unreached: false,
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

    /// Lends this segment no longer: it is neither named in pings nor mounted again. Between two steps only.
    pub fn take_back(&mut self, id: SegmentId) {
        let Some(at) = self.segments.iter().position(|segment| segment.id == id) else { return };
        self.segments.remove(at);
        self.mounting.on_taken_back(at);
    }

    /// Has the master unmount a segment that it may have mounted, as soon as it can be reached.
    pub fn disown(&mut self, id: SegmentId) {
        self.retired.push(id);
    }

    /// Has the master told, by a ping at once, that the nodes of these segments could not be reached.
    pub fn report(&mut self, segments: Vec<SegmentId>) {
        if !segments.is_empty() {
            self.unreachable = segments;
        }
    }

    /// Takes note of a leader's epoch that was met elsewhere.
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

    /// Whether the master said last that this client cannot be reached where it says that it serves.
    #[must_use]
    pub const fn is_unreached(&self) -> bool {
        self.is_unreached
    }

    /// Where this client says that it serves, if it lends anything.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.segments.first().map(|segment| &*segment.endpoint)
    }

    /// Whether the master has said, since this was last asked, that tasks wait for this client.
    pub fn take_has_tasks(&mut self) -> bool {
        std::mem::take(&mut self.has_tasks)
    }

    /// What the master has said of routes since this was last asked.
    pub fn take_routes_end(&mut self) -> Option<RoutesEnd> {
        self.routes_end.take()
    }

    /// Whether the master answered and has all segments, or refused them for good.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.last_ping_answered && self.mounting.segment() >= self.segments.len()
    }

    /// The segment that the master refused when it was last mounted, and why.
    #[must_use]
    pub fn mount_refusal(&self) -> Option<(&Lent, ErrorCode)> {
        self.mounting.refusal().map(|(segment, code)| (&self.segments[segment], code))
    }

    /// What to do now.
    pub fn next(&mut self, now: Tick) -> MembershipStep<'_> {
        match self.link {
            MasterLink::Apart { try_at, .. } if now < try_at => {
                MembershipStep::Wait { until: try_at }
            }
            MasterLink::Apart { address, .. } => MembershipStep::Connect { address },
            MasterLink::Joined { ping_at, .. } => {
                // The ping comes first: its answer tells whether there is anything to mount. It goes on coming while
                // something is told that takes long.
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

    /// What there is to do between two pings.
    fn work(&mut self, ping_at: Tick) -> MembershipStep<'_> {
        let obeys = self.mounted_under >= Some(self.seen_epoch);
        if let Some(stage) = self.mounting.stage(self.segments.len(), obeys) {
            return self.mount(stage);
        }
        if let Some(&id) = self.retired.last() {
            self.set_asked(MasterRequest::Unmount);
            return MembershipStep::Call(Request::UnmountSegment { id, grace_ms: 0 });
        }
        if !obeys {
            self.drops.clear();
        }
        if let Some(request) = self.drops.fetch() {
            self.set_asked(MasterRequest::Drops);
            return MembershipStep::Call(request);
        }
        match self.drops.listed() {
            [] => MembershipStep::Wait { until: ping_at },
            listed => MembershipStep::Drop(listed),
        }
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

    /// The outcome of [`MembershipStep::Connect`]: the epoch that the master named, or nothing.
    pub fn on_connected(&mut self, now: Tick, epoch: Option<Epoch>) {
        let MasterLink::Apart { address, .. } = self.link else {
            unreachable!("only a client that is apart connects")
        };
        let Some(epoch) = epoch else { return self.on_connection_lost(now, address) };
        self.see_epoch(epoch);
        self.link = MasterLink::Joined { address, ping_at: now, asked: None };
    }

    /// The outcome of [`MembershipStep::Call`] and [`MembershipStep::Mount`].
    pub fn on_reply(&mut self, now: Tick, reply: Result<Reply, CallError>) {
        let MasterLink::Joined { address, asked: Some(asked), .. } = self.link else {
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
                // After the next pong it is tried again.
                self.mounting.on_refused(code);
                self.set_idle();
            }
            (MasterRequest::Drops, Ok(Reply::Drops(listed))) => {
                self.drops.on_listed(listed);
                self.set_idle();
            }
            (MasterRequest::Unmount, Ok(Reply::Done(_))) => {
                // Whatever the answer, the master does not have it any more.
                self.retired.pop();
                self.set_idle();
            }
            // No answer, a refusal or nonsense: this master is not one to stay with.
            _ => self.on_connection_lost(now, address),
        }
    }

    /// The outcome of [`MembershipStep::Report`] and [`MembershipStep::ReportChanges`]: the reply, and where the next page begins if there is one.
    pub fn on_reported(&mut self, now: Tick, next: Option<u64>, reply: Result<Reply, CallError>) {
        match reply {
            Ok(Reply::Done(Ok(()))) => {
                self.mounting.on_reported(next);
                self.set_idle();
            }
            reply => self.on_reply(now, reply),
        }
    }

    /// Nobody knows any more what changed since then: the leader is told all that lies there instead.
    pub fn on_changes_forgotten(&mut self) {
        self.mounting.on_changes_forgotten();
        self.set_idle();
    }

    /// The outcome of [`MembershipStep::StartEmpty`]: what the segment is called now, or nothing if there is no name for it.
    pub fn on_started_empty(&mut self, now: Tick, id: Option<SegmentId>) {
        let MasterLink::Joined { address, .. } = self.link else {
            unreachable!("only a master says so")
        };
        let Some(id) = id else { return self.on_connection_lost(now, address) };
        self.segments[self.mounting.segment()].id = id;
        self.mounting.on_started_empty();
    }

    /// The outcome of [`MembershipStep::Drop`]: what the node has dropped.
    pub fn on_dropped(&mut self, dropped: Vec<RangeDrop>) {
        self.drops.on_dropped(dropped);
    }

    fn on_pong(&mut self, asked_at: Tick, address: usize, pong: &Pong) {
        self.retry.reset(asked_at);
        self.last_ping_answered = true;
        self.has_tasks = pong.has_tasks;
        self.is_unreached = pong.is_unreached;
        self.drops.on_pong(pong.has_drops);
        let at = asked_at.after_ms(pong.routes_ms);
        self.routes_end = Some(RoutesEnd { epoch: pong.epoch, at });
        // Each answer prolongs the routes that are known: one that is lost does no harm.
        let prolongs_ms = (pong.routes_ms / 2).clamp(NODE_PING_INTERVAL_MS, PING_INTERVAL_MS);
        let longest_ms = if self.segments.is_empty() { prolongs_ms } else { NODE_PING_INTERVAL_MS };
        let interval_ms = (pong.client_ttl_ms / PINGS_PER_TTL).clamp(10, longest_ms);
        let ping_at = asked_at.after_ms(interval_ms);
        self.link = MasterLink::Joined { address, ping_at, asked: None };
        // A leader that is behind what the nodes have seen learns it from the mount, and must catch up.
        let is_behind = pong.epoch < self.seen_epoch;
        self.see_epoch(pong.epoch);
        // A leader that refused a segment may know it from before, and not ask for it.
        let lacks_one = pong.need_remount || self.mounting.refusal().is_some();
        // While some are still to be mounted it is no news that the master lacks them.
        let lacks_one = lacks_one && self.mounting.segment() >= self.segments.len();
        if lacks_one || is_behind || self.mounted_under != Some(pong.epoch) {
            self.mounting.begin();
            self.mounted_under = Some(pong.epoch);
        }
        self.mounting.on_pong();
    }

    /// The connection is gone or was never made: the next address at once, after a whole round a wait.
    fn on_connection_lost(&mut self, now: Tick, address: usize) {
        self.last_ping_answered = false;
        self.mounting.on_connection_lost();
        self.drops.clear();
        let next = (address + 1) % self.addresses;
        let try_at = if next == 0 { self.next_round(now) } else { now };
        self.link = MasterLink::Apart { address: next, try_at };
    }

    /// When the addresses are tried again. Chance shortens the pause by up to a half, so that many clients of one master do
    /// not come back in step.
    fn next_round(&mut self, now: Tick) -> Tick {
        let longest_ms = self.retry.pause_from(now).since_ms(now);
        now.after_ms(longest_ms / 2 + self.chance.below(longest_ms / 2 + 1))
    }

    fn set_asked(&mut self, what: MasterRequest) {
        if let MasterLink::Joined { asked, .. } = &mut self.link {
            *asked = Some(what);
        }
    }

    fn set_idle(&mut self) {
        if let MasterLink::Joined { asked, .. } = &mut self.link {
            *asked = None;
        }
    }
}
