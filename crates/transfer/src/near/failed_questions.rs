use std::collections::HashMap;
use std::time::{Duration, Instant};

use mooncake_types::SegmentId;

/// For this long, a question that failed is not asked again.
const DOUBT: Duration = Duration::from_secs(1);

/// Most segments to remember; further ones are asked for each time.
const MAX_SEGMENTS: usize = 1024;

/// Questions to a node that failed a moment ago.
#[derive(Debug, Default)]
pub(super) struct FailedQuestions {
    /// Until when it is not asked for anything.
    node: Option<Instant>,
    /// Until when it is not asked for these.
    segments: HashMap<SegmentId, Instant>,
}

impl FailedQuestions {
    /// Whether the segment should not be asked for now.
    pub(super) fn cover(&self, id: SegmentId, now: Instant) -> bool {
        let until = self.segments.get(&id).copied().max(self.node);
        until.is_some_and(|until| now < until)
    }

    /// Whether the node should not be asked for anything now.
    pub(super) fn cover_node(&self, now: Instant) -> bool {
        self.node.is_some_and(|until| now < until)
    }

    /// The node does not share the segment.
    pub(super) fn doubt_segment(&mut self, id: SegmentId, now: Instant) {
        if self.segments.len() >= MAX_SEGMENTS {
            self.segments.retain(|_, until| now < *until);
        }
        if self.segments.len() < MAX_SEGMENTS {
            self.segments.insert(id, now + DOUBT);
        }
    }

    /// The node gave no proper answer.
    pub(super) fn doubt_node(&mut self, now: Instant) {
        self.node = Some(now + DOUBT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_in_vain_is_asked_for_again_after_a_second() {
        let start = Instant::now();
        let (soon, late) = (start + DOUBT / 2, start + DOUBT);
        let covered =
            |doubts: &FailedQuestions, now| [1, 2].map(|id| doubts.cover(SegmentId(id), now));
        let mut doubts = FailedQuestions::default();
        assert_eq!(covered(&doubts, start), [false, false]);
        doubts.doubt_segment(SegmentId(1), start);
        assert_eq!(covered(&doubts, soon), [true, false]);
        assert_eq!(covered(&doubts, late), [false, false]);
        assert!(!doubts.cover_node(soon));
        doubts.doubt_node(soon);
        assert_eq!([late, soon + DOUBT].map(|now| doubts.cover_node(now)), [true, false]);
        assert_eq!(covered(&doubts, late), [true, true]);
        assert_eq!(covered(&doubts, soon + DOUBT), [false, false]);
    }

    #[test]
    fn no_more_segments_are_remembered_than_may_be() {
        let start = Instant::now();
        let mut doubts = FailedQuestions::default();
        for id in 0..=MAX_SEGMENTS as u128 {
            doubts.doubt_segment(SegmentId(id), start);
        }
        assert_eq!(doubts.segments.len(), MAX_SEGMENTS);
        doubts.doubt_segment(SegmentId(u128::MAX), start + DOUBT);
        assert_eq!(doubts.segments.len(), 1);
    }
}
