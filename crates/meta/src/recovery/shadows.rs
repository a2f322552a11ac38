//! The shadows that a new leader has of segments, from the time when it stood by.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::SegmentId;

use super::shadow::Shadow;

/// What is known from before this master led.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    pub(super) known: BTreeMap<SegmentId, Shadow>,
    /// Segments whose last changes were reported: the leader takes up their shadows, page by page.
    pub(super) replayed: BTreeSet<SegmentId>,
}

impl Shadows {
    /// Whether there is something to take up.
    pub(crate) fn has_work(&self) -> bool {
        !self.replayed.is_empty()
    }

    pub(super) const fn replayed(&self) -> &BTreeSet<SegmentId> {
        &self.replayed
    }

    /// Forgets a shadow: the segment must report its whole inventory.
    pub(crate) fn forget(&mut self, id: SegmentId) {
        self.known.remove(&id);
        self.replayed.remove(&id);
    }

    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }
}
