//! Memory that Python code names by address. This module has all unsafe code of `engine`.

#![allow(unsafe_code, reason = "Python code names memory by address")]

use mooncake_client::{Place, PlacedSlice, RawSlice};
use mooncake_engine::{RegisterError, place_of};

/// The `len` bytes at `address`, for a registration.
///
/// # Errors
/// If the range does not fit the address space, or is not all in host memory or all on one device.
pub(super) fn memory_at(address: u64, len: u64) -> Result<PlacedSlice<'static>, RegisterError> {
    let no_range = || RegisterError::Empty { start: address, len };
    let start = usize::try_from(address).map_err(|_| no_range())?;
    let size = usize::try_from(len).map_err(|_| no_range())?;
    start.checked_add(size).ok_or_else(no_range)?;
    let place = place_of(start, size).map_err(|error| {
        tracing::error!(%error, "memory of a GPU cannot be registered");
        RegisterError::NotMapped { start: address, len }
    })?;
    // SAFETY: the Python caller promises that the range stays mapped until `unregister_memory` has returned zero or
    // the engine is gone: the documentation of `register_memory` says so. `register_all` refuses ranges that are not
    // mapped, before any code touches the bytes. No Rust reference to the memory exists. The driver has said on which
    // device the memory lies.
    Ok(unsafe {
        match place {
            Place::Host => RawSlice::new(std::ptr::with_exposed_provenance_mut(start), size).into(),
            Place::Device(ordinal) => PlacedSlice::of_device(ordinal, start, size),
        }
    })
}
