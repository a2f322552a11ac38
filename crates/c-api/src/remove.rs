//! The functions that remove objects.

use std::ffi::{c_char, c_int};

use mooncake_binding::batch;
use mooncake_client::ErrorCode;

use crate::guard::guarded;
use crate::handle::{self, Handle};
use crate::text::{self, text};

/// # Safety
/// The terms of `text::key`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_remove(
    store: Handle,
    key: *const c_char,
    force: c_int,
) -> c_int {
    let name = "mooncake_store_remove";
    guarded(name, || {
        let client = handle::client(name, store)?;
        // SAFETY: the caller upholds the terms.
        let key = unsafe { text::key(name, key)? };
        let removed = client.remove(&[key], force != 0).into_iter().next();
        Ok(batch::done(removed.unwrap_or(Err(ErrorCode::InternalError))))
    })
}

/// # Safety
/// The terms of `text`, until the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_remove_by_regex(
    store: Handle,
    pattern: *const c_char,
    force: c_int,
) -> i64 {
    let name = "mooncake_store_remove_by_regex";
    guarded(name, || {
        let client = handle::client(name, store)?;
        // SAFETY: the caller upholds the terms.
        let pattern = unsafe { text(name, "pattern", pattern)? };
        Ok(batch::counted(client.remove_by_regex(pattern, force != 0)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn mooncake_store_remove_all(store: Handle, force: c_int) -> i64 {
    let name = "mooncake_store_remove_all";
    guarded(name, || Ok(batch::counted(handle::client(name, store)?.remove_all(force != 0))))
}
