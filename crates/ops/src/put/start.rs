use std::sync::Arc;

use mooncake_types::{
    ErrorCode, Grant, PutItem, PutMode, PutRevoke, PutStart, ReplicateConfig, Reply, Request,
    SegmentAddress, Tick,
};

use super::granted::Granted;

use crate::op::{CallError, Op, Step, unexpected};
use crate::retry::RetryPolicy;

/// The master's answer for an object that it makes room for.
const MAKING_ROOM: ErrorCode = ErrorCode::UnavailableInCurrentStatus;

/// How long items wait in a pool that is full, until leases end or others remove something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoomPatience {
    ms: u64,
    /// The first question for room.
    since: Option<Tick>,
}

impl RoomPatience {
    pub(super) const fn of_ms(ms: u64) -> Self {
        Self { ms, since: None }
    }

    /// The same, for other items.
    pub(super) fn afresh(self) -> Self {
        Self::of_ms(self.ms)
    }

    /// Whether items that were asked for at `now` may wait any longer.
    fn lasts(&mut self, now: Tick) -> bool {
        now.since_ms(*self.since.get_or_insert(now)) < self.ms
    }
}

/// The first stage of a put: asks the master for ranges, in one request.
#[derive(Debug)]
pub struct Start<'a> {
    items: &'a [PutItem<'a>],
    /// The items that are asked for.
    positions: Vec<usize>,
    /// Set if items wait for room. The request is sent after it; its end is set at the first step.
    pause: Option<RoomPause>,
    patience: RoomPatience,
    request: Option<PutStart<'a>>,
    started: Started<'a>,
}

/// The pause before items that wait for room are asked for again.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoomPause {
    /// Earlier pauses in a row after which nothing was granted.
    before: u32,
    /// Whether the master makes room.
    room_comes: bool,
    until: Option<Tick>,
}

impl RoomPause {
    /// The moment at which it ends.
    fn end(&mut self, now: Tick) -> Tick {
        let policy = if self.room_comes { RetryPolicy::ROOM } else { RetryPolicy::FULL_POOL };
        *self.until.get_or_insert_with(|| policy.pause_after(self.before, now))
    }
}

/// The outcome of a [`Start`].
#[derive(Debug, Default)]
pub struct Started<'a> {
    pub(super) asked_at: Tick,
    pub(super) granted: Vec<GrantedPut<'a>>,
    /// Refused items by position, each with the reason.
    pub(super) refused: Vec<(usize, ErrorCode)>,
    /// Positions of items to ask for again after the pause, because there will be room for them, or there may be.
    pub(super) waiting: Vec<usize>,
    pub(super) pause: Option<RoomPause>,
    /// Malformed grants of refused items, to be given back.
    pub(super) senseless: Vec<PutRevoke<'a>>,
}

/// One put that was granted.
#[derive(Clone, Debug)]
pub(crate) struct GrantedPut<'a> {
    /// Its place in the caller's batch.
    pub(super) position: usize,
    pub(super) key: &'a str,
    pub(super) granted: Granted,
}

impl<'a> GrantedPut<'a> {
    pub(crate) const fn new(position: usize, key: &'a str, granted: Granted) -> Self {
        Self { position, key, granted }
    }
}

impl<'a> Start<'a> {
    /// Asks for the items at these positions.
    pub(super) fn new(
        items: &'a [PutItem<'a>],
        positions: Vec<usize>,
        config: &ReplicateConfig<'a>,
        mode: PutMode,
    ) -> Self {
        let puts = positions.iter().map(|&position| items[position]).collect();
        let request = Some(PutStart { puts, config: config.clone(), mode });
        let (patience, started) = (RoomPatience::default(), Started::default());
        Self { items, positions, pause: None, patience, request, started }
    }

    /// The same, for items that wait while the pool is full.
    pub(super) fn patient(self, patience: RoomPatience) -> Self {
        Self { patience, ..self }
    }

    /// The same, after a pause.
    pub(super) fn after(self, pause: Option<RoomPause>) -> Self {
        Self { pause, ..self }
    }

    /// The patience that is left.
    pub(super) const fn patience(&self) -> RoomPatience {
        self.patience
    }

    /// Whether items wait for room.
    pub(super) fn waits(&self) -> bool {
        self.pause.is_some()
    }

    fn accept(&mut self, grants: Vec<Result<Grant, ErrorCode>>, segments: Vec<SegmentAddress>) {
        let segments: Arc<[SegmentAddress]> = segments.into();
        let is_patient = self.patience.lasts(self.started.asked_at);
        let mut room_comes = false;
        self.started.granted.reserve(grants.len());
        for (&position, grant) in self.positions.iter().zip(grants) {
            let PutItem { key, len, .. } = self.items[position];
            let granted = grant.and_then(|grant| {
                let version = grant.version;
                Granted::new(grant, version, len, &segments).ok_or_else(|| {
                    self.started.senseless.push(PutRevoke::new(key, version));
                    ErrorCode::InternalError
                })
            });
            match granted {
                Ok(granted) => self.started.granted.push(GrantedPut { position, key, granted }),
                Err(MAKING_ROOM) => {
                    room_comes = true;
                    self.started.waiting.push(position);
                }
                Err(ErrorCode::NoAvailableHandle) if is_patient => {
                    self.started.waiting.push(position);
                }
                Err(code) => self.started.refused.push((position, code)),
            }
        }
        if !self.started.waiting.is_empty() {
            let last = self.pause.filter(|_| self.started.granted.is_empty());
            let before = last.map_or(0, |pause| pause.before.saturating_add(1));
            self.started.pause = Some(RoomPause { before, room_comes, until: None });
        }
    }

    fn refuse(&mut self, code: ErrorCode) {
        self.started.refused = self.positions.iter().map(|&position| (position, code)).collect();
    }
}

impl<'a> Op<'a> for Start<'a> {
    type Output = Started<'a>;

    fn next(&mut self, now: Tick) -> Step<'a> {
        let until = self.pause.as_mut().map(|pause| pause.end(now));
        if let Some(until) = until.filter(|&until| now < until && self.request.is_some()) {
            return Step::Wait(until);
        }
        let Some(request) = self.request.take() else { return Step::Done };
        self.started.asked_at = now;
        Step::Call(Request::PutStart(request))
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        match reply {
            Ok(Reply::Granted { results, segments }) if results.len() == self.positions.len() => {
                self.accept(results, segments);
            }
            Ok(other) => self.refuse(unexpected(&other)),
            // The deadline passed while the master made room.
            Err(CallError::TimedOut { .. }) if self.waits() => {
                self.refuse(ErrorCode::NoAvailableHandle);
            }
            Err(error) => self.refuse(error.code()),
        }
    }

    fn finish(self) -> Started<'a> {
        self.started
    }
}
