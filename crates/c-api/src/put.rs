//! The functions that put objects. A key that exists keeps its value.

use std::ffi::{c_char, c_int, c_void};

use mooncake_binding::{PoolClient, ReplicateSettings, Verb, Write};
use mooncake_client::ErrorCode;

use crate::array::{Results, check_count, items};
use crate::config::{ReplicateConfig, settings};
use crate::guard::guarded;
use crate::handle::{self, Handle};
use crate::slices::{CallerMemory, Slice};
use crate::text;

fn write<'a>(
    operation: &'a str,
    client: &'a PoolClient,
    settings: &'a ReplicateSettings,
) -> Write<'a> {
    Write { operation, verb: Verb::Put, client, settings }
}

/// # Safety
/// The terms of `text::key`, of `config::settings` and of `CallerMemory::at`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_put(
    store: Handle,
    key: *const c_char,
    value: *const c_void,
    size: usize,
    config: *const ReplicateConfig,
) -> c_int {
    let name = "mooncake_store_put";
    guarded(name, || {
        let copying = handle::slot(name, store)?.copying_client(name);
        let client = copying.ok_or(ErrorCode::InvalidParams)?;
        // SAFETY: the caller upholds the terms.
        unsafe { put_range(name, &client, key, (value, size), config) }
    })
}

/// # Safety
/// The terms of `text::key`, of `config::settings` and of `CallerMemory::at`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_put_from(
    store: Handle,
    key: *const c_char,
    buffer: *mut c_void,
    size: usize,
    config: *const ReplicateConfig,
) -> c_int {
    let name = "mooncake_store_put_from";
    guarded(name, || {
        let client = handle::client(name, store)?;
        // SAFETY: the caller upholds the terms.
        unsafe { put_range(name, &client, key, (buffer, size), config) }
    })
}

/// # Safety
/// The terms of `text::key`, of `config::settings` and of `CallerMemory::at`.
unsafe fn put_range(
    name: &str,
    client: &PoolClient,
    key: *const c_char,
    (buffer, size): (*const c_void, usize),
    config: *const ReplicateConfig,
) -> Result<c_int, ErrorCode> {
    // SAFETY: the caller upholds the terms.
    unsafe {
        let key = text::key(name, key)?;
        let settings = settings(name, config)?;
        let src = CallerMemory { operation: name, key }.at(client, buffer, size)?;
        Ok(write(name, client, &settings).one(key, src))
    }
}

/// # Safety
/// The terms of `text::key`, of `config::settings` and of `CallerMemory::of_slices`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_put_slices(
    store: Handle,
    key: *const c_char,
    slices: *const Slice,
    count: usize,
    config: *const ReplicateConfig,
) -> c_int {
    let name = "mooncake_store_put_slices";
    guarded(name, || {
        let client = handle::client(name, store)?;
        // SAFETY: the caller upholds the terms.
        unsafe {
            let key = text::key(name, key)?;
            let settings = settings(name, config)?;
            let src = CallerMemory { operation: name, key }.of_slices(&client, slices, count)?;
            Ok(write(name, &client, &settings).one(key, src))
        }
    })
}

/// # Safety
/// Each array is null or has `count` items, those of `results_out` writable. The terms of `text::key` and
/// `CallerMemory::at` for each item, and those of `config::settings`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_batch_put_from(
    store: Handle,
    keys: *const *const c_char,
    buffers: *const *mut c_void,
    sizes: *const usize,
    count: usize,
    config: *const ReplicateConfig,
    results_out: *mut c_int,
) -> c_int {
    let name = "mooncake_store_batch_put_from";
    guarded(name, || {
        let slot = handle::slot(name, store)?;
        check_count(name, "count", count)?;
        // SAFETY: the caller upholds the terms.
        let (results, keys, buffers, sizes, settings) = unsafe {
            (
                Results::at(name, results_out, count)?,
                items(name, "keys", keys, count)?,
                items(name, "buffers", buffers, count)?,
                items(name, "sizes", sizes, count)?,
                settings(name, config)?,
            )
        };
        let Some(client) = slot.client_for(name) else {
            results.fill_all(ErrorCode::InvalidParams.number());
            return Ok(0);
        };
        // SAFETY: the caller upholds the terms.
        let texts = unsafe { text::keys(name, &keys) };
        let slices =
            texts.iter().zip(buffers.iter().zip(&sizes)).map(|(&key, (&buffer, &size))| {
                // SAFETY: the caller upholds the terms.
                unsafe { CallerMemory { operation: name, key: key? }.at(&client, buffer, size) }
            });
        results.fill(write(name, &client, &settings).many(&text::shown(&texts), slices));
        Ok(0)
    })
}
