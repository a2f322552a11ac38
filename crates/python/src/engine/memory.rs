//! Memory that Python code names by address. The only unsafe code about engines.

#![allow(unsafe_code, reason = "Python code names memory by address")]

use mooncake_client::RawSlice;

/// The `len` bytes at `address`, to be registered; `None` if no address space has them.
pub(super) fn memory_at(address: u64, len: u64) -> Option<RawSlice> {
    let (start, size) = (usize::try_from(address).ok()?, usize::try_from(len).ok()?);
    start.checked_add(size)?;
    // SAFETY: the Python caller promises that the range stays mapped until `unregister_memory` has returned zero or the
    // engine is gone, as the documentation of `register_memory` says; registering refuses what is not mapped, and
    // nothing looks at the bytes before that. Nothing in Rust refers to the memory.
    Some(unsafe { RawSlice::new(std::ptr::with_exposed_provenance_mut(start), size) })
}
