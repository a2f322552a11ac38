//! A client's life with the master, as a pure machine: connect, ping, mount, and all of it again when the master
//! forgot, moved or changed.

mod backoff;

use mooncake_types::{Epoch, ErrorCode, MountSegment, Pong, Reply, Request, SegmentId, Tick};

pub use backoff::Backoff;

use crate::chance::Chance;
use crate::ops::CallError;

/// Time between two pings, in milliseconds; shorter if the master's patience with clients is.
const PING_INTERVAL_MS: u64 = 1000;

/// The same for a client that lends segments: the master takes it to be gone if others cannot reach it and no ping
/// comes for half a second.
const NODE_PING_INTERVAL_MS: u64 = 250;

/// Pings that fit into the time after which the master gives a client up.
const PINGS_PER_TTL: u64 = 3;

/// A segment that this client lends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Its incarnation.
    pub id: SegmentId,
    /// The name that callers know it by.
    pub name: String,
    /// Where it is served, `host:port`.
    pub endpoint: String,
    /// Its length in bytes.
    pub len: u64,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed<'a> {
    /// Resolve this address of the master (an index into the list) and connect to it.
    Connect {
        /// Which address.
        address: usize,
    },
    /// Ask the master over the connection that was made last.
    Call(Request<'a>),
    /// Nothing before this moment.
    Wait {
        /// When to ask again.
        until: Tick,
    },
}

/// The machine. Ask it [`Membership::next`], do the deed, and hand the outcome to [`Membership::on_connected`] or
/// [`Membership::on_reply`].
#[derive(Clone, Debug)]
pub struct Membership {
    addresses: usize,
    segments: Vec<Lent>,
    bond: Bond,
    backoff: Backoff,
    seen_epoch: Epoch,
    /// The leader that the segments were last mounted under.
    mounted_under: Option<Epoch>,
    /// The segment to be mounted next; past the last one when there is none.
    next_mount: usize,
    mount_refusal: Option<(usize, ErrorCode)>,
    /// Segments that the master may have and is to forget.
    disowned: Vec<SegmentId>,
    /// Segments of others whose nodes could not be reached; the next ping names them.
    unreachable: Vec<SegmentId>,
    last_ping_answered: bool,
    has_tasks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bond {
    Apart { address: usize, try_at: Tick },
    Joined { address: usize, ping_at: Tick, asked: Option<Asked> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Ping { at: Tick },
    Mount { segment: usize },
    Unmount,
}

impl Membership {
    /// A client that lends nothing yet and has as many addresses of the master to try, at least one.
    #[must_use]
    pub fn new(addresses: usize, chance: Chance) -> Self {
        assert!(addresses > 0, "a master has an address");
        Self {
            addresses,
            segments: Vec::new(),
            bond: Bond::Apart { address: 0, try_at: Tick::ZERO },
            backoff: Backoff::new(chance),
            seen_epoch: Epoch(0),
            mounted_under: None,
            next_mount: 0,
            mount_refusal: None,
            disowned: Vec::new(),
            unreachable: Vec::new(),
            last_ping_answered: false,
            has_tasks: false,
        }
    }

    /// Lends these segments from now on.
    pub fn lend(&mut self, segments: Vec<Lent>) {
        self.segments = segments;
        self.mounted_under = None;
        self.next_mount = 0;
    }

    /// Lends one more segment, which the master has mounted already.
    pub fn lend_also(&mut self, segment: Lent) {
        let is_settled = self.next_mount >= self.segments.len();
        self.segments.push(segment);
        if is_settled {
            self.next_mount = self.segments.len();
        }
    }

    /// Lends this segment no longer: it is neither named in pings nor mounted again. Between two deeds only.
    pub fn take_back(&mut self, id: SegmentId) {
        let Some(at) = self.segments.iter().position(|segment| segment.id == id) else { return };
        self.segments.remove(at);
        if at < self.next_mount {
            self.next_mount -= 1;
        }
        self.mount_refusal = match self.mount_refusal {
            Some((refused, _)) if refused == at => None,
            Some((refused, code)) if refused > at => Some((refused - 1, code)),
            refusal => refusal,
        };
    }

    /// Has the master unmount a segment that it may have mounted, as soon as it can be reached.
    pub fn disown(&mut self, id: SegmentId) {
        self.disowned.push(id);
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

    /// Whether the master has said, since this was last asked, that tasks wait for this client.
    pub fn take_has_tasks(&mut self) -> bool {
        std::mem::take(&mut self.has_tasks)
    }

    /// Whether the master answered and has all segments, or refused them.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.last_ping_answered && self.next_mount >= self.segments.len()
    }

    /// The segment that the master refused when it was last mounted, and why.
    #[must_use]
    pub fn mount_refusal(&self) -> Option<(&Lent, ErrorCode)> {
        self.mount_refusal.map(|(segment, code)| (&self.segments[segment], code))
    }

    /// What to do now.
    pub fn next(&mut self, now: Tick) -> Deed<'_> {
        match self.bond {
            Bond::Apart { try_at, .. } if now < try_at => Deed::Wait { until: try_at },
            Bond::Apart { address, .. } => Deed::Connect { address },
            Bond::Joined { ping_at, .. } => {
                // The ping comes first: its answer tells whether there is anything to mount.
                if self.last_ping_answered && self.next_mount < self.segments.len() {
                    self.set_asked(Asked::Mount { segment: self.next_mount });
                    return Deed::Call(self.mount());
                }
                if let (true, Some(&id)) = (self.last_ping_answered, self.disowned.last()) {
                    self.set_asked(Asked::Unmount);
                    return Deed::Call(Request::UnmountSegment { id, grace_ms: 0 });
                }
                if now < ping_at && self.unreachable.is_empty() {
                    return Deed::Wait { until: ping_at };
                }
                self.set_asked(Asked::Ping { at: now });
                let segments = self.segments.iter().map(|segment| segment.id).collect();
                let unreachable = std::mem::take(&mut self.unreachable);
                Deed::Call(Request::Ping { segments, unreachable })
            }
        }
    }

    /// The outcome of [`Deed::Connect`]: the epoch that the master named, or nothing.
    pub fn on_connected(&mut self, now: Tick, epoch: Option<Epoch>) {
        let Bond::Apart { address, .. } = self.bond else {
            unreachable!("only a client that is apart connects")
        };
        let Some(epoch) = epoch else { return self.part(now, address) };
        self.see_epoch(epoch);
        self.bond = Bond::Joined { address, ping_at: now, asked: None };
    }

    /// The outcome of [`Deed::Call`].
    pub fn on_reply(&mut self, now: Tick, reply: Result<Reply, CallError>) {
        let Bond::Joined { address, asked: Some(asked), .. } = self.bond else {
            unreachable!("a reply belongs to a call")
        };
        match (asked, reply) {
            (Asked::Ping { at }, Ok(Reply::Pong(pong))) => self.on_pong(at, address, &pong),
            (Asked::Mount { segment }, Ok(Reply::Mounted(_))) => self.on_mounted(segment, Ok(())),
            (Asked::Mount { segment }, Ok(Reply::Done(Err(code)))) => {
                self.on_mounted(segment, Err(code));
            }
            (Asked::Unmount, Ok(Reply::Done(_))) => {
                // Whatever the answer, the master does not have it any more.
                self.disowned.pop();
                self.set_idle();
            }
            // No answer, a refusal or nonsense: this master is not one to stay with.
            _ => {
                self.last_ping_answered = false;
                self.part(now, address);
            }
        }
    }

    fn on_pong(&mut self, asked_at: Tick, address: usize, pong: &Pong) {
        self.backoff.reset();
        self.last_ping_answered = true;
        self.has_tasks = pong.has_tasks;
        let longest_ms =
            if self.segments.is_empty() { PING_INTERVAL_MS } else { NODE_PING_INTERVAL_MS };
        let interval_ms = (pong.client_ttl_ms / PINGS_PER_TTL).clamp(10, longest_ms);
        let ping_at = asked_at.after_ms(interval_ms);
        self.bond = Bond::Joined { address, ping_at, asked: None };
        // A leader that is behind what the nodes have seen learns it from the mount, and must catch up.
        let is_behind = pong.epoch < self.seen_epoch;
        self.see_epoch(pong.epoch);
        if pong.need_remount || is_behind || self.mounted_under != Some(pong.epoch) {
            self.next_mount = 0;
            self.mount_refusal = None;
            self.mounted_under = Some(pong.epoch);
        }
    }

    fn on_mounted(&mut self, segment: usize, result: Result<(), ErrorCode>) {
        if let Err(code) = result {
            // The next pong asks for the segment again.
            self.mount_refusal = Some((segment, code));
        }
        self.next_mount = segment + 1;
        self.set_idle();
    }

    /// The connection is gone or was never made: the next address at once, after a whole round a wait.
    fn part(&mut self, now: Tick, address: usize) {
        let next = (address + 1) % self.addresses;
        let delay_ms = if next == 0 { self.backoff.delay_ms() } else { 0 };
        self.bond = Bond::Apart { address: next, try_at: now.after_ms(delay_ms) };
    }

    fn set_asked(&mut self, what: Asked) {
        if let Bond::Joined { asked, .. } = &mut self.bond {
            *asked = Some(what);
        }
    }

    fn set_idle(&mut self) {
        if let Bond::Joined { asked, .. } = &mut self.bond {
            *asked = None;
        }
    }

    fn mount(&self) -> Request<'_> {
        let segment = &self.segments[self.next_mount];
        Request::MountSegment(MountSegment {
            id: segment.id,
            name: &segment.name,
            endpoint: &segment.endpoint,
            len: segment.len,
            seen_epoch: self.seen_epoch,
            is_empty: true,
        })
    }
}
