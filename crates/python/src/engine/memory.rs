//! Memory that Python code names by address. The only unsafe code about engines.

#![allow(unsafe_code, reason = "Python code names memory by address")]

use mooncake_client::{Place, PlacedSlice, RawSlice};
use mooncake_engine::{RegisterError, place_of};

/// The `len` bytes at `address`, to be registered.
///
/// # Errors
/// If no address space has them, or not all of them lie in one place.
pub(super) fn memory_at(address: u64, len: u64) -> Result<PlacedSlice, RegisterError> {
    let no_range = || RegisterError::Empty { start: address, len };
    let start = usize::try_from(address).map_err(|_| no_range())?;
    let size = usize::try_from(len).map_err(|_| no_range())?;
    start.checked_add(size).ok_or_else(no_range)?;
    let place = place_of(start, size).map_err(|error| {
        tracing::error!(%error, "memory of a GPU cannot be registered");
        RegisterError::NotMapped { start: address, len }
    })?;
    // SAFETY: the Python caller promises that the range stays mapped until `unregister_memory` has returned zero or the
    // engine is gone, as the documentation of `register_memory` says; registering refuses what is not mapped, and
    // nothing looks at the bytes before that. Nothing in Rust refers to the memory. What the driver calls memory of a
    // device is that.
    Ok(unsafe {
        match place {
            Place::Host => RawSlice::new(std::ptr::with_exposed_provenance_mut(start), size).into(),
            Place::Device(ordinal) => PlacedSlice::of_device(ordinal, start, size),
        }
    })
}
