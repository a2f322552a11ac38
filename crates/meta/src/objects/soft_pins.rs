//! The soft pins of the few objects that have one.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::Tick;

/// Each by its object.
#[derive(Debug, Default)]
pub(crate) struct SoftPins {
    pub(super) known: HashMap<u32, Deadline, FixedState>,
    pub(super) in_force: usize,
}

impl SoftPins {
    /// How many are in force.
    pub(crate) fn in_force(&self) -> usize {
        self.in_force
    }

    /// How long an object was to be pinned, in milliseconds, and whether its pin slides.
    pub(crate) fn asked(&self, object: u32) -> Option<(u64, bool)> {
        self.known.get(&object).map(|pin| (pin.ttl_ms, pin.sliding))
    }
}

/// A soft pin that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    /// Every access begins it anew.
    pub(super) sliding: bool,
    pub(super) ttl_ms: u64,
    pub(super) until: Tick,
    /// When its timer is set for. There is one while the pin is in force: not before the object is readable, and not
    /// once the deadline has passed.
    pub(super) timer: Option<Tick>,
}

impl Deadline {
    pub(super) fn in_force(&self) -> bool {
        self.timer.is_some()
    }
}
