//! Which memory a caller may name by address.

use std::fmt;

use mooncake_client::{ErrorCode, KnownMemory, describe_pointer};
use mooncake_memory::PlacedRange;

use crate::log;
use crate::pool_client::PoolClient;

/// The `len` bytes at `address`, and where they lie. The caller of the binding promises that they stay mapped.
///
/// # Errors
/// `InvalidParams` in three cases:
///
/// - the range is empty;
/// - a part of it is registered as memory of a device, and another part is not;
/// - it starts outside of all registered buffers and not in host memory.
pub fn placed(client: &PoolClient, address: u64, len: u64) -> Result<PlacedRange, ErrorCode> {
    let (address, len) = range_of(address, len)?;
    let place = known_memory(client, address, len)?.place;
    Ok(PlacedRange { place, address, len })
}

/// The ranges that together hold one object, in order. Empty ranges are left out.
///
/// # Errors
/// As [`placed`]; also `InvalidParams` if the lists differ in length, or if the sum of the lengths overflows.
pub fn placed_list(
    client: &PoolClient,
    addresses: &[u64],
    lens: &[u64],
) -> Result<Vec<PlacedRange>, ErrorCode> {
    if addresses.len() != lens.len() {
        let text = format_args!("{} addresses, but {} sizes", addresses.len(), lens.len());
        log::warn("memory", "lengths", text);
        return Err(ErrorCode::InvalidParams);
    }
    if lens.iter().try_fold(0, |sum: u64, &len| sum.checked_add(len)).is_none() {
        log::warn("memory", "sum", format_args!("the sizes are more than 2**64 - 1 together"));
        return Err(ErrorCode::InvalidParams);
    }
    let mut ranges = Vec::with_capacity(addresses.len());
    // Most pieces lie in the same registered buffer as the piece before, so its lookup is kept.
    let mut known: Option<KnownMemory> = None;
    for (&address, &len) in addresses.iter().zip(lens).filter(|&(_, &len)| len > 0) {
        let (address, len) = range_of(address, len)?;
        let around = match known.filter(|known| known.holds(address, len)) {
            Some(known) => known,
            None => known_memory(client, address, len)?,
        };
        known = Some(around);
        ranges.push(PlacedRange { place: around.place, address, len });
    }
    Ok(ranges)
}

/// The range in this machine's word size.
fn range_of(address: u64, len: u64) -> Result<(usize, usize), ErrorCode> {
    let invalid = |_| ErrorCode::InvalidParams;
    Ok((usize::try_from(address).map_err(invalid)?, usize::try_from(len).map_err(invalid)?))
}

fn known_memory(client: &PoolClient, address: usize, len: usize) -> Result<KnownMemory, ErrorCode> {
    client.check_registered(address, len).inspect_err(|_| {
        // Evaluated only if the limiter admits the line.
        let what = fmt::from_fn(|f| f.write_str(&describe_pointer(address)));
        let text = format_args!(
            "{len} bytes at {address:#x} are none, run past registered memory of a GPU, or are neither registered nor host memory \
             ({what})"
        );
        log::warn("memory", "registered", text);
    })
}
