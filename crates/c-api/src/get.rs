//! The functions that read objects.

use std::ffi::{c_char, c_int, c_void};

use mooncake_binding::get_many;
use mooncake_client::ErrorCode;

use crate::array::{Results, check_count, items};
use crate::guard::guarded;
use crate::handle::{self, Handle};
use crate::slices::{CallerMemory, Slice};
use crate::text;

/// # Safety
/// The terms of `text::key` and of `CallerMemory::at`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_get_into(
    store: Handle,
    key: *const c_char,
    buffer: *mut c_void,
    size: usize,
) -> i64 {
    let name = "mooncake_store_get_into";
    guarded(name, || {
        let client = handle::client(name, store)?;
        // SAFETY: the caller upholds the terms.
        let (key, dst) = unsafe {
            let key = text::key(name, key)?;
            (key, CallerMemory { operation: name, key }.at(&client, buffer, size)?)
        };
        only(get_many(&client, &[key], std::iter::once(Ok(dst))))
    })
}

/// # Safety
/// The terms of `text::key` and of `CallerMemory::of_slices`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_get_slices(
    store: Handle,
    key: *const c_char,
    slices: *const Slice,
    count: usize,
) -> i64 {
    let name = "mooncake_store_get_slices";
    guarded(name, || {
        let client = handle::client(name, store)?;
        // SAFETY: the caller upholds the terms.
        let (key, dst) = unsafe {
            let key = text::key(name, key)?;
            (key, CallerMemory { operation: name, key }.of_slices(&client, slices, count)?)
        };
        only(get_many(&client, &[key], std::iter::once(Ok(dst))))
    })
}

fn only(results: Vec<i64>) -> Result<i64, ErrorCode> {
    results.into_iter().next().ok_or(ErrorCode::InternalError)
}

/// # Safety
/// Each array is null or has `count` items, those of `results_out` writable. The terms of `text::key` and
/// `CallerMemory::at` for each item, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_batch_get_into(
    store: Handle,
    keys: *const *const c_char,
    buffers: *const *mut c_void,
    sizes: *const usize,
    count: usize,
    results_out: *mut i64,
) -> c_int {
    let name = "mooncake_store_batch_get_into";
    guarded(name, || {
        let slot = handle::slot(name, store)?;
        check_count(name, "count", count)?;
        // SAFETY: the caller upholds the terms.
        let (results, keys, buffers, sizes) = unsafe {
            (
                Results::at(name, results_out, count)?,
                items(name, "keys", keys, count)?,
                items(name, "buffers", buffers, count)?,
                items(name, "sizes", sizes, count)?,
            )
        };
        let Some(client) = slot.client_for(name) else {
            results.fill_all(ErrorCode::InvalidParams.number().into());
            return Ok(0);
        };
        // SAFETY: the caller upholds the terms.
        let texts = unsafe { text::keys(name, &keys) };
        let targets =
            texts.iter().zip(buffers.iter().zip(&sizes)).map(|(&key, (&buffer, &size))| {
                // SAFETY: the caller upholds the terms.
                unsafe { CallerMemory { operation: name, key: key? }.at(&client, buffer, size) }
            });
        results.fill(get_many(&client, &text::shown(&texts), targets));
        Ok(0)
    })
}
