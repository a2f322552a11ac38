//! The soft pins of the few objects that have one.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::Tick;

/// Soft pins by object.
#[derive(Debug, Default)]
pub(crate) struct SoftPins {
    pub(super) known: HashMap<u32, Deadline, FixedState>,
    pub(super) in_force: usize,
}

impl SoftPins {
    /// How many soft pins are in force.
    pub(crate) fn in_force(&self) -> usize {
        self.in_force
    }

    /// When the soft pin of an object ends, at the earliest, if it is in force.
    pub(crate) fn end(&self, object: u32) -> Option<Tick> {
        self.known.get(&object).filter(|pin| pin.in_force()).map(|pin| pin.until)
    }

    /// The length of an object's soft pin in milliseconds, and whether the pin slides.
    pub(crate) fn asked(&self, object: u32) -> Option<(u64, bool)> {
        let pin = self.known.get(&object).filter(|pin| pin.ttl_ms > 0);
        pin.map(|pin| (pin.ttl_ms, pin.sliding))
    }
}

/// The soft pin of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    /// Whether every access starts it anew.
    pub(super) sliding: bool,
    pub(super) ttl_ms: u64,
    pub(super) until: Tick,
    /// When its timer fires, while the pin is in force. It comes into force when the object becomes readable, and
    /// ends at its deadline or with a later lease.
    pub(super) timer: Option<Tick>,
}

impl Deadline {
    pub(super) fn in_force(&self) -> bool {
        self.timer.is_some()
    }
}
