use mooncake_types::{ErrorCode, RangeRead};

use crate::{ReadTicket, SegmentHost};

/// Positions of the ranges that lie on disks. The oldest versions come first, which is nearly their order on the
/// disk.
pub(crate) fn disk_order<'a>(
    host: &dyn SegmentHost,
    ranges: impl Iterator<Item = (usize, &'a RangeRead)>,
) -> Vec<usize> {
    let on_disk = ranges.filter(|(_, range)| host.reads_from_disk(range.segment));
    let mut order: Vec<_> = on_disk.map(|(at, range)| (range.version, at)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

/// Finds the bytes of a range, or reads them from the disk.
pub(crate) fn begin_read(
    host: &dyn SegmentHost,
    range: &RangeRead,
) -> Result<ReadTicket, ErrorCode> {
    let ticket = host.begin_read(range)?;
    match ticket.memory.len() as u64 == range.len {
        true => Ok(ticket),
        false => Err(ErrorCode::InternalError),
    }
}
