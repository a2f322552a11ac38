//! The shadows of a new leader: copies of ledgers that it collected as a standby.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::SegmentId;

use super::shadow::Shadow;

/// The shadows of all segments, and those that are being taken up.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    pub(super) known: BTreeMap<SegmentId, Shadow>,
    /// Segments that have reported their last changes. The leader takes up their shadows, page by page.
    pub(super) replayed: BTreeSet<SegmentId>,
}

impl Shadows {
    /// Whether a shadow waits to be taken up.
    pub(crate) fn has_work(&self) -> bool {
        !self.replayed.is_empty()
    }

    pub(super) const fn replayed(&self) -> &BTreeSet<SegmentId> {
        &self.replayed
    }

    /// Forgets a shadow. The segment must then report its whole inventory.
    pub(crate) fn forget(&mut self, id: SegmentId) {
        self.known.remove(&id);
        self.replayed.remove(&id);
    }

    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }
}
