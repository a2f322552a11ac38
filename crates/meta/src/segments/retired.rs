use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use mooncake_types::SegmentId;

/// Most segments that are remembered; the oldest are forgotten.
const MOST: usize = 4_096;

/// Segments that no mount may bring back under this leader: those that their clients took back before this leader had them,
/// of which a mount that was sent before may come late; and those that were given up while something might yet be written
/// there. Their nodes call them otherwise, and come back with nothing in them.
#[derive(Debug, Default)]
pub(crate) struct Disowned {
    ids: HashSet<SegmentId, FixedState>,
    /// In the order in which they were taken back.
    order: VecDeque<SegmentId>,
}

impl Disowned {
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
        let mut disowned = Disowned::default();
        for id in 0..=MOST as u128 {
            disowned.note(SegmentId(id));
            disowned.note(SegmentId(id));
        }
        let known: Vec<u128> =
            (0..=MOST as u128 + 1).filter(|&id| disowned.contains(SegmentId(id))).collect();
        assert_eq!(known, (1..=MOST as u128).collect::<Vec<_>>());
    }
}
