//! The functions that ask for objects without reading them.

use std::ffi::{c_char, c_int};

use mooncake_binding::batch;
use mooncake_client::ErrorCode;

use crate::array::{Results, check_count, items};
use crate::guard::guarded;
use crate::handle::{self, Handle};
use crate::text;

/// # Safety
/// The terms of `text::key`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_is_exist(store: Handle, key: *const c_char) -> c_int {
    let name = "mooncake_store_is_exist";
    guarded(name, || {
        let client = handle::client(name, store)?;
        // SAFETY: the caller upholds the terms.
        let key = unsafe { text::key(name, key)? };
        let found = client.exist(&[key]).into_iter().next();
        Ok(batch::found(found.unwrap_or(Err(ErrorCode::InternalError))))
    })
}

/// # Safety
/// Each array is null or has `count` items, those of `results_out` writable. The terms of `text::key` for each key,
/// until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_batch_is_exist(
    store: Handle,
    keys: *const *const c_char,
    count: usize,
    results_out: *mut c_int,
) -> c_int {
    let name = "mooncake_store_batch_is_exist";
    guarded(name, || {
        let slot = handle::slot(name, store)?;
        check_count(name, "count", count)?;
        // SAFETY: the caller upholds the terms.
        let (results, keys) =
            unsafe { (Results::at(name, results_out, count)?, items(name, "keys", keys, count)?) };
        if count == 0 {
            return Ok(0);
        }
        let Some(client) = slot.client_for(name) else {
            results.fill_all(ErrorCode::InvalidParams.number());
            return Ok(0);
        };
        // SAFETY: the caller upholds the terms.
        let texts = unsafe { text::keys(name, &keys) };
        let found = batch::run(texts.into_iter(), |keys| client.exist(keys));
        results.fill(found.into_iter().map(batch::found));
        Ok(0)
    })
}

/// # Safety
/// The terms of `text::key`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_get_size(store: Handle, key: *const c_char) -> i64 {
    let name = "mooncake_store_get_size";
    guarded(name, || {
        let client = handle::client(name, store)?;
        // SAFETY: the caller upholds the terms.
        let key = unsafe { text::key(name, key)? };
        Ok(batch::counted(client.size(key)))
    })
}
