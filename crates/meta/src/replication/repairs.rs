//! The state of repair.

use mooncake_types::Tick;

use super::allowance::Allowance;
use crate::counters::Copies;

/// Most repair copies under way at a time.
pub(super) const MOST_UNDER_WAY: usize = 64;
/// The rest after a walk: the first length, and the longest. Each walk that repaired nothing doubles the rest, up to
/// the longest.
pub(super) const FIRST_REST_MS: u64 = 500;
pub(super) const LONGEST_REST_MS: u64 = 60_000;

/// The state of repair: see [`repair`](super::repair).
#[derive(Debug)]
pub(crate) struct Repair {
    /// Number of objects that lack replicas.
    pub(super) short: usize,
    pub(super) allowance: Allowance,
    /// The record that the walk checks next.
    pub(super) next: u32,
    /// Number of copies that had succeeded when the walk began.
    pub(super) made_before: u64,
    pub(super) rest_until: Tick,
    pub(super) rest_ms: u64,
    pub(super) wave: Option<Wave>,
}

/// A period of repairs: from the first copy until repair has nothing to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wave {
    pub(super) begun: Tick,
    /// The counters at the beginning of the wave.
    pub(super) before: Copies,
}

impl Repair {
    pub(crate) fn new(bytes_per_second: u64, now: Tick) -> Self {
        Self {
            short: 0,
            allowance: Allowance::new(bytes_per_second, now),
            next: 0,
            made_before: 0,
            rest_until: Tick::ZERO,
            rest_ms: FIRST_REST_MS,
            wave: None,
        }
    }

    /// Counts an object that lacks replicas from now on, or one that lacks none any more.
    pub(crate) fn count(&mut self, is_short: bool) {
        self.short = self.short.strict_add_signed(if is_short { 1 } else { -1 });
    }

    pub(crate) fn short(&self) -> usize {
        self.short
    }

    /// There is more to repair, or more room: the next walk begins at once.
    pub(crate) fn wake(&mut self) {
        (self.rest_until, self.rest_ms) = (Tick::ZERO, FIRST_REST_MS);
    }

    /// The earliest moment at which repair has work, with this number of copies under way.
    pub(super) fn due(&self, under_way: usize) -> Option<Tick> {
        if self.short == 0 || under_way >= MOST_UNDER_WAY {
            return None;
        }
        self.allowance.ready_at().map(|ready| ready.max(self.rest_until))
    }
}
