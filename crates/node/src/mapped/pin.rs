use std::sync::Arc;

use mooncake_transfer::{Interrupt, Pin};
use mooncake_types::{ErrorCode, RangeRead};

use super::segment::Segment;
use crate::machine::PinKey;

/// Keeps a range of a segment unchanged, and the segment's memory mapped, until it is dropped.
struct Pinned {
    segment: Arc<Segment>,
    key: PinKey,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.segment.unpin(self.key);
    }
}

/// Keeps a range of a segment unchanged; see [`mooncake_transfer::SegmentHost::pin`].
pub(crate) fn pin(
    segment: Arc<Segment>,
    range: &RangeRead,
    interrupt: Arc<dyn Interrupt>,
) -> Result<Pin, ErrorCode> {
    let (key, region) = segment.begin_pin(range, interrupt)?;
    Ok(Pin { region, keeper: Box::new(Pinned { segment, key }) })
}
