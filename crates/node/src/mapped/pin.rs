use std::sync::Arc;

use mooncake_transfer::{Interrupt, Pin};
use mooncake_types::{ErrorCode, RangeRead};

use super::segment::Segment;
use crate::machine::pins::PinKey;

/// A range of a segment that stays as it is until this is dropped. The segment's memory lasts as long.
struct Pinned {
    segment: Arc<Segment>,
    key: PinKey,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.segment.unpin(self.key);
    }
}

/// Keeps a range of a segment as it is; see [`mooncake_transfer::SegmentHost::pin`].
pub(crate) fn pin(
    segment: Arc<Segment>,
    range: &RangeRead,
    interrupt: Arc<dyn Interrupt>,
) -> Result<Pin, ErrorCode> {
    let (key, region) = segment.begin_pin(range, interrupt)?;
    Ok(Pin { region, keeper: Box::new(Pinned { segment, key }) })
}
