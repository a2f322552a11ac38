use mooncake_types::{ListedSegment, Reply, SegmentPage, limits};

use super::closed::Closed;
use super::table::Segment;
use crate::Meta;

impl Meta {
    /// A page of the segments that are mounted, for masters that stand by. One that comes or goes while they ask for
    /// pages may be missed, or told twice.
    pub(crate) fn list_segments(&self, from: u32, limit: u32) -> Reply {
        let limit = limit.min(limits::MAX_LISTED_SEGMENTS) as usize;
        let is_there = |segment: &Segment| segment.is_mounted() && !segment.is(Closed::Struck);
        let mut rest =
            self.segments.iter().filter(|&(slot, segment)| slot >= from && is_there(segment));
        let listed = |(_, segment): (u32, &Segment)| ListedSegment {
            address: segment.address(),
            len: segment.allocator.capacity(),
        };
        let segments = rest.by_ref().take(limit).map(listed).collect();
        Reply::Segments(SegmentPage { segments, next: rest.next().map(|(slot, _)| slot) })
    }
}
