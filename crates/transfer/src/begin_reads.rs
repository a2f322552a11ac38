use mooncake_memory::with_waiting_helpers;
use mooncake_types::{ErrorCode, RangeRead};

use crate::{ReadTicket, SegmentHost};

/// Begins reads, and returns their tickets in order. Ranges on disks begin at the same time, and the value of
/// `beside_disk` lives until all have begun.
pub(crate) fn begin_reads<T>(
    host: &dyn SegmentHost,
    ranges: &[RangeRead],
    beside_disk: impl FnOnce() -> T,
) -> Vec<Result<ReadTicket, ErrorCode>> {
    let on_disk = disk_order(host, ranges.iter().enumerate());
    let _beside = (!on_disk.is_empty()).then(beside_disk);
    if on_disk.len() < 2 {
        return ranges.iter().map(|range| begin(host, range)).collect();
    }
    let read = with_waiting_helpers(&on_disk, |&at| begin(host, &ranges[at]));
    let mut tickets: Vec<Option<_>> = ranges.iter().map(|_| None).collect();
    on_disk.into_iter().zip(read).for_each(|(at, ticket)| tickets[at] = Some(ticket));
    let all = ranges.iter().zip(tickets);
    all.map(|(range, ticket)| ticket.unwrap_or_else(|| begin(host, range))).collect()
}

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

fn begin(host: &dyn SegmentHost, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
    let ticket = host.begin_read(range)?;
    match ticket.memory.len() as u64 == range.len {
        true => Ok(ticket),
        false => Err(ErrorCode::InternalError),
    }
}
