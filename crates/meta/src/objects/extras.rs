//! Extra replicas: those that no put asked for.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Most objects that have extra replicas.
const MOST_EXTRAS: usize = 1 << 16;

/// The extra replicas of each object, as bits.
#[derive(Debug, Default)]
pub(crate) struct Extras(pub(super) HashMap<u32, u32, FixedState>);

impl Extras {
    /// Whether a further object may get an extra replica.
    pub(crate) fn has_room(&self) -> bool {
        self.0.len() < MOST_EXTRAS
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
