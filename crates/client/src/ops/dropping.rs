use std::sync::Arc;

use mooncake_types::{ErrorCode, RangeDrop, RemainingRange, Remains, Request, Tick, limits};

use super::{Discard, MoveError, Step};

/// How long after a failed attempt the next one comes, in milliseconds.
const RETRY_MS: u64 = 100;

/// Longest wait for a lease to end, in milliseconds: as long as a request may take by default.
const LONGEST_WAIT_MS: u64 = 30_000;

/// Has nodes drop what the master said was left of objects that went, and tells the master.
///
/// What a node does not confirm is tried again until nobody can have a route to it any more: from then on it is as good
/// as dropped.
#[derive(Debug)]
pub(super) struct Dropping {
    left: Vec<Discard>,
    /// What the master is to be told of once all is dropped.
    dropped: Vec<RangeDrop>,
    /// From when on nobody has a route.
    until: Tick,
    give_up_at: Tick,
    retry_at: Tick,
    is_tried: bool,
    verdict: Result<(), ErrorCode>,
}

/// What to have dropped, where; what makes no sense is left out.
pub(super) fn discards(remains: &Remains) -> Vec<Discard> {
    let discard = |range: &RemainingRange| {
        let segment = remains.segments.get(range.segment as usize)?;
        let (offset, version) = (range.offset, range.version);
        let range = RangeDrop { segment: segment.id, offset, version };
        Some(Discard { endpoint: Arc::clone(&segment.endpoint), range })
    };
    remains.ranges.iter().filter_map(discard).collect()
}

impl Dropping {
    /// Begins with a reply that came at `now`.
    pub(super) fn new(remains: &Remains, now: Tick) -> Self {
        let left = discards(remains);
        let dropped = match remains.lease_ms {
            0 => Vec::new(),
            _ => left.iter().map(|discard| discard.range).collect(),
        };
        // Clocks run at slightly different rates, and this one counts whole milliseconds.
        let wait_ms = match remains.lease_ms {
            0 => 0,
            lease_ms => lease_ms.saturating_add(lease_ms / 64 + 2),
        };
        Self {
            left,
            dropped,
            until: now.after_ms(wait_ms),
            give_up_at: now.after_ms(LONGEST_WAIT_MS),
            retry_at: now,
            is_tried: false,
            verdict: Ok(()),
        }
    }

    /// What to do now; nothing once it is over.
    pub(super) fn next<'a>(&mut self, now: Tick) -> Option<Step<'a>> {
        if self.left.is_empty() {
            return self.tell();
        }
        if self.is_tried {
            if now >= self.until {
                return None;
            }
            if now >= self.give_up_at {
                self.verdict = Err(ErrorCode::RpcTimeout);
                return None;
            }
            if self.retry_at == Tick::ZERO {
                self.retry_at = now.after_ms(RETRY_MS);
            }
            if now < self.retry_at {
                return Some(Step::Wait(self.retry_at.min(self.until)));
            }
        }
        self.is_tried = true;
        self.retry_at = Tick::ZERO;
        Some(Step::Drop(self.left.clone()))
    }

    fn tell<'a>(&mut self) -> Option<Step<'a>> {
        let rest = self.dropped.len().saturating_sub(limits::MAX_FETCHED_DROPS as usize);
        let dropped = self.dropped.split_off(rest);
        (!dropped.is_empty()).then_some(Step::Call(Request::Dropped { dropped }))
    }

    /// The outcome of [`Step::Drop`].
    pub(super) fn on_dropped(&mut self, results: &[Result<(), MoveError>]) {
        assert_eq!(results.len(), self.left.len(), "one result per range");
        let mut results = results.iter();
        self.left.retain(|_| results.next().is_some_and(Result::is_err));
    }

    /// The master was told, or not: then it waits for the end of the lease.
    pub(super) fn on_told(&mut self, is_answered: bool) {
        if !is_answered {
            self.dropped.clear();
        }
    }

    /// Whether nobody can find any of it; known when it is over.
    ///
    /// # Errors
    /// [`ErrorCode::RpcTimeout`] if the lease takes too long to be waited for.
    pub(super) fn verdict(&self) -> Result<(), ErrorCode> {
        self.verdict
    }
}
