//! Retired segments: no mount may bring them back under this leader.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use mooncake_types::SegmentId;

/// Most retired segments that are remembered. The oldest are forgotten.
const MOST: usize = 4_096;

/// Segments that no mount may bring back under this leader. A node that lends the memory again lends it empty, and
/// under a new id.
///
/// - A client unmounted a segment that this leader did not know: a mount that was sent earlier may arrive late.
/// - A segment left the pool while a write may have been in flight, or while it had tombstones.
#[derive(Debug, Default)]
pub(crate) struct RetiredSegments {
    ids: HashSet<SegmentId, FixedState>,
    /// In the order in which they retired.
    order: VecDeque<SegmentId>,
}

impl RetiredSegments {
    pub(crate) fn note(&mut self, id: SegmentId) {
        if !self.ids.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, id: SegmentId) -> bool {
        self.ids.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_were_taken_back_are_remembered() {
        let mut retired = RetiredSegments::default();
        for id in 0..=MOST as u128 {
            retired.note(SegmentId(id));
            retired.note(SegmentId(id));
        }
        let known: Vec<u128> =
            (0..=MOST as u128 + 1).filter(|&id| retired.contains(SegmentId(id))).collect();
        assert_eq!(known, (1..=MOST as u128).collect::<Vec<_>>());
    }
}
