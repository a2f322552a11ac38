//! Segments whose nodes this client could not reach, until a ping reports them.

use std::time::{Duration, Instant};

use mooncake_types::SegmentId;

/// A segment is reported no more often than this.
const INTERVAL: Duration = Duration::from_millis(100);

/// Most segments that wait to be reported, and most that were reported within the interval. Further ones are not
/// reported.
const MAX_SEGMENTS: usize = 1024;

/// See the module. A segment that is not reported now is reported after the next transfer that fails.
#[derive(Debug, Default)]
pub(crate) struct UnreachableSegments {
    due: Vec<SegmentId>,
    recent: Vec<(SegmentId, Instant)>,
}

impl UnreachableSegments {
    /// Notes that the node of a segment could not be reached. True if a ping must report it.
    pub(crate) fn add(&mut self, segment: SegmentId, now: Instant) -> bool {
        self.recent.retain(|&(_, at)| now.saturating_duration_since(at) < INTERVAL);
        let is_known = self.recent.iter().any(|&(known, _)| known == segment);
        let is_new = !is_known && self.recent.len() < MAX_SEGMENTS && self.due.len() < MAX_SEGMENTS;
        if is_new {
            self.recent.push((segment, now));
            self.due.push(segment);
        }
        is_new
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// The segments to report now.
    pub(crate) fn take(&mut self) -> Vec<SegmentId> {
        std::mem::take(&mut self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_reported_once_in_a_tenth_of_a_second() {
        let (mut reports, start) = (UnreachableSegments::default(), Instant::now());
        for (segment, ms, is_new) in
            [(1, 0, true), (1, 10, false), (2, 20, true), (1, 99, false), (1, 100, true)]
        {
            let now = start + Duration::from_millis(ms);
            assert_eq!(reports.add(SegmentId(segment), now), is_new, "{segment} at {ms} ms");
        }
        assert_eq!(reports.take(), [1, 2, 1].map(SegmentId));
        assert!(reports.is_empty());
    }

    #[test]
    fn no_more_are_kept_than_the_limit() {
        let (mut reports, now) = (UnreachableSegments::default(), Instant::now());
        let taken = (0..2 * MAX_SEGMENTS as u128).filter(|&id| reports.add(SegmentId(id), now));
        assert_eq!(taken.count(), MAX_SEGMENTS);
    }
}
