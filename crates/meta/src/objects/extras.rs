//! The replicas that nobody asked for.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Most objects with replicas that nobody asked for.
const MOST_EXTRAS: usize = 1 << 16;

/// The replicas that nobody asked for, as bits, by object.
#[derive(Debug, Default)]
pub(crate) struct Extras(pub(super) HashMap<u32, u32, FixedState>);

impl Extras {
    /// Whether there may be more of them.
    pub(crate) fn has_room(&self) -> bool {
        self.0.len() < MOST_EXTRAS
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
