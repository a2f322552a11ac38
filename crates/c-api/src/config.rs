//! `mooncake_replicate_config_t`.

use std::ffi::{c_char, c_int};

use mooncake_binding::ReplicateSettings;
use mooncake_client::ErrorCode;

use crate::array::{check_count, items};
use crate::text::text;

/// The fields of `mooncake_replicate_config_t`, in its order.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ReplicateConfig {
    replica_num: usize,
    with_soft_pin: c_int,
    with_hard_pin: c_int,
    preferred_segments: *const *const c_char,
    preferred_segments_count: usize,
}

/// The settings of a configuration; the default ones for null.
///
/// # Errors
/// `InvalidParams` for a list of segments with a null in it or at its place, or that is too long.
///
/// # Safety
/// `config` is null or points to a readable configuration. Its list of segments is null or has as many items as it
/// says, and each is null or a string that ends with a zero byte.
pub(crate) unsafe fn settings(
    operation: &str,
    config: *const ReplicateConfig,
) -> Result<ReplicateSettings, ErrorCode> {
    let defaults = ReplicateSettings::default();
    if config.is_null() {
        return Ok(defaults);
    }
    // SAFETY: it is not null, and the caller says that it is readable.
    let config = unsafe { config.read_unaligned() };
    let (listed, count) = (config.preferred_segments, config.preferred_segments_count);
    check_count(operation, "preferred_segments_count", count)?;
    // SAFETY: the caller says that the list has so many items.
    let names = unsafe { items(operation, "preferred_segments", listed, count)? };
    let names = names.into_iter().map(|name| {
        // SAFETY: the caller says that each item is null or a string. It is copied here.
        unsafe { text(operation, "a preferred segment", name) }.map(str::to_owned)
    });
    Ok(ReplicateSettings {
        // In C, a configuration that sets only some fields has zeros in the others.
        replica_num: (config.replica_num as u64).max(1),
        with_soft_pin: config.with_soft_pin != 0,
        with_hard_pin: config.with_hard_pin != 0,
        preferred_segments: names.collect::<Result<_, _>>()?,
        ..defaults
    })
}
