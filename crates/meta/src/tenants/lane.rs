//! Lanes: the queues of one tenant on one segment.

use crate::objects::{PINNED_PLACES, Queue, Side};
use crate::slab::NONE;

/// The lane of all objects where tenants have none of their own.
pub(crate) const NO_LANE: u32 = 0;

/// The ranges of one tenant on one segment that eviction may take.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) queues: [Queue; PINNED_PLACES.end],
    /// The side on which eviction looks next, under a policy of [second chances](crate::eviction).
    pub(crate) hand: Side,
}

impl Default for Lane {
    fn default() -> Self {
        Self { queues: [Queue::default(); PINNED_PLACES.end], hand: Side::First }
    }
}

impl Lane {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.head() == NONE)
    }
}

pub(super) fn lane_of_account(account: u32) -> u32 {
    account + 1
}

/// The account to which a lane belongs.
pub(super) fn account_of_lane(lane: u32) -> Option<u32> {
    lane.checked_sub(1)
}
