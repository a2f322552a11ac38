use mooncake_types::{ListedSegment, Reply, Seal, SegmentPage, limits};

use super::closed::Closed;
use super::segment::Segment;
use crate::Meta;

impl Meta {
    /// A page of the mounted segments, for standbys. A segment that is mounted or unmounted between two pages may be
    /// missing, or come twice.
    pub(crate) fn list_segments(&self, from: u32, limit: u32) -> Reply {
        let limit = limit.min(limits::MAX_LISTED_SEGMENTS) as usize;
        let is_there = |segment: &Segment| segment.is_mounted() && !segment.is(Closed::Struck);
        let mut rest =
            self.segments.iter().filter(|&(slot, segment)| slot >= from && is_there(segment));
        let listed = |(_, segment): (u32, &Segment)| ListedSegment {
            address: segment.address(),
            len: segment.allocator.capacity(),
            seal: Seal::NONE,
        };
        let segments = rest.by_ref().take(limit).map(listed).collect();
        let next = rest.next().map(|(slot, _)| slot);
        // The shell knows more about what stands in the way of puts, and says it.
        Reply::Segments(SegmentPage { segments, next, put_obstacle: String::new() })
    }
}
