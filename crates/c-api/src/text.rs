//! Strings of C.

use std::ffi::{CStr, c_char};

use mooncake_binding::log;
use mooncake_client::ErrorCode;

use crate::guard::refuse;

/// The text of a required argument.
///
/// # Errors
/// `InvalidParams` if it is null or no UTF-8.
///
/// # Safety
/// `text` is null, or points to a string that ends with a zero byte, and that stays unchanged as long as the result is
/// used.
pub(crate) unsafe fn text<'a>(
    operation: &str,
    name: &str,
    text: *const c_char,
) -> Result<&'a str, ErrorCode> {
    if text.is_null() {
        return Err(refuse(operation, name, "is null"));
    }
    // SAFETY: the text is not null; the caller upholds the rest.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| refuse(operation, name, "is not UTF-8"))
}

/// The text of an argument that has a default, which null stands for.
///
/// # Errors
/// `InvalidParams` if it is no UTF-8.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn text_or<'a>(
    operation: &str,
    name: &str,
    given: *const c_char,
    default: &'a str,
) -> Result<&'a str, ErrorCode> {
    match given.is_null() {
        true => Ok(default),
        // SAFETY: the caller upholds the terms.
        false => unsafe { text(operation, name, given) },
    }
}

/// A key.
///
/// # Errors
/// `InvalidParams` if it is null, `InvalidKey` if it is no UTF-8.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn key<'a>(operation: &str, key: *const c_char) -> Result<&'a str, ErrorCode> {
    if key.is_null() {
        return Err(refuse(operation, "key", "is null"));
    }
    // SAFETY: the key is not null; the caller upholds the rest.
    let bytes = unsafe { CStr::from_ptr(key) };
    bytes.to_str().map_err(|_| {
        log::error(operation, "key text", format_args!("key is not UTF-8"));
        ErrorCode::InvalidKey
    })
}

/// The keys of a batch, each as [`key`].
///
/// # Safety
/// As for [`key`], for each key.
pub(crate) unsafe fn keys<'a>(
    operation: &str,
    keys: &[*const c_char],
) -> Vec<Result<&'a str, ErrorCode>> {
    // SAFETY: the caller upholds the terms.
    keys.iter().map(|&it| unsafe { key(operation, it) }).collect()
}

/// The keys, with nothing in the places of those that are none.
pub(crate) fn shown<'a>(keys: &[Result<&'a str, ErrorCode>]) -> Vec<&'a str> {
    keys.iter().map(|key| key.unwrap_or_default()).collect()
}
