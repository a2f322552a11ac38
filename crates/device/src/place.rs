use std::io;

use mooncake_memory::Place;

use crate::driver::Driver;
use crate::load::driver;

/// How far to skip if the driver does not tell an allocation's length. Pieces of virtual memory are at least this
/// long.
const UNKNOWN_RANGE_BYTES: u64 = 2 << 20;

/// Whether the `len` bytes at `start` are host memory or a device's. Memory that the processor can use is host memory,
/// even if the driver manages it or has locked its pages.
///
/// # Errors
/// The driver's error, or that a part of the range is not allocated in the device where it starts.
pub fn place_of(start: usize, len: usize) -> io::Result<Place> {
    let Some(driver) = driver() else { return Ok(Place::Host) };
    let start = start as u64;
    let first = match driver.pointer(start) {
        // Without a context there is no device memory.
        Err(error) if error.is_uninitialized() => return Ok(Place::Host),
        result => result.map_err(io::Error::other)?,
    };
    let Some(ordinal) = first.device else { return Ok(Place::Host) };
    let too_long = || io::Error::other("the range runs past the end of the address space");
    let end = start.checked_add(len as u64).ok_or_else(too_long)?;
    check_range(driver, ordinal, start..end)?;
    Ok(Place::Device(ordinal))
}

/// Checks that a range is entirely allocated in one device. It may span several allocations, as virtual memory does.
pub(crate) fn check_range(
    driver: &Driver,
    ordinal: u32,
    range: std::ops::Range<u64>,
) -> io::Result<()> {
    each_allocation(driver, ordinal, range, |_| ())
}

/// As [`check_range`], and calls `visit` with an address in each of the allocations.
pub(crate) fn each_allocation(
    driver: &Driver,
    ordinal: u32,
    range: std::ops::Range<u64>,
    mut visit: impl FnMut(u64),
) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let pointer = driver.pointer(at).map_err(io::Error::other)?;
        if pointer.device != Some(ordinal) {
            let from = at - range.start;
            return Err(io::Error::other(format!(
                "from byte {from} on it is not allocated in device {ordinal}"
            )));
        }
        visit(at);
        at = end_of(pointer.range, at);
    }
    Ok(())
}

/// The address to ask about after `at`, whose allocation has this start and length.
fn end_of((start, len): (u64, u64), at: u64) -> u64 {
    let end = start.checked_add(len).filter(|&end| start <= at && end > at);
    end.unwrap_or_else(|| at.saturating_add(UNKNOWN_RANGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_question_is_about_the_next_allocation() {
        let unknown = 100 + UNKNOWN_RANGE_BYTES;
        for (range, expected) in
            [((100, 50), 150), ((0, 101), 101), ((0, 100), unknown), ((0, 0), unknown)]
        {
            assert_eq!(end_of(range, 100), expected, "{range:?}");
        }
        assert_eq!(end_of((200, u64::MAX), u64::MAX - 1), u64::MAX);
    }

    #[test]
    fn without_a_driver_all_memory_is_the_host_s() {
        assert_eq!(place_of(0x1000, usize::MAX).unwrap(), Place::Host);
    }
}
