//! Results of the library's calls.

use std::ffi::{CStr, c_int};

use thiserror::Error;

use crate::load::Library;

/// A call of the library failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}'s {call} failed: {text} (error {number})", library_of(call))]
pub struct CallError {
    /// The function.
    pub call: &'static str,
    /// Its error: a number of the system, or one of the library's own: above 256 of libfabric, the status of a completion
    /// of libibverbs.
    pub number: i32,
    /// The library's words for it.
    pub text: String,
}

/// The library that has a function.
fn library_of(call: &str) -> &'static str {
    if call.starts_with("ibv_") { "libibverbs" } else { "libfabric" }
}

impl CallError {
    pub(crate) fn new(library: &Library, call: &'static str, number: i32) -> CallError {
        CallError { call, number, text: error_text(library, number) }
    }
}

/// The library's words for an error.
pub(crate) fn error_text(library: &Library, number: c_int) -> String {
    // SAFETY: any number may be passed, and the text is a constant of the library.
    let text = unsafe { (library.functions.strerror)(number) };
    if text.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: `text` is not null, and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Converts the status of a call: zero or more is its result, less is an error.
pub(crate) fn check(
    library: &Library,
    call: &'static str,
    status: impl Into<i64>,
) -> Result<usize, CallError> {
    let status = status.into();
    if let Ok(result) = usize::try_from(status) {
        return Ok(result);
    }
    let number = i32::try_from(-status).unwrap_or(i32::MAX);
    Err(CallError::new(library, call, number))
}

/// Calls the function that a table of an object has in this place. The status is `-FI_ENOSYS` if there is none, and an
/// error that a test wants if there is such a test. An unsafe operation: the table belongs to a live object, and the
/// arguments are what libfabric's manual demands.
macro_rules! op {
    ($call:literal: $table:expr => $op:ident($($argument:expr),* $(,)?)) => {
        match $crate::call::wanted_failure($call) {
            Some(number) => (-number) as _,
            None => match (*$table).$op {
                Some(op) => op($($argument),*),
                None => (-$crate::abi::FI_ENOSYS) as _,
            },
        }
    };
}
pub(crate) use op;

/// The error that a test wants of this call.
#[cfg(feature = "testing")]
pub(crate) fn wanted_failure(call: &'static str) -> Option<i32> {
    crate::testing::wanted_failure(call)
}

/// As above, where there are no tests.
#[cfg(not(feature = "testing"))]
pub(crate) fn wanted_failure(_call: &'static str) -> Option<i32> {
    None
}

/// Whether a test wants memory of initiators to be registered, as NICs do.
#[cfg(feature = "testing")]
pub(crate) fn wants_local_registration() -> bool {
    crate::testing::wants_local_registration()
}

/// As above, where there are no tests.
#[cfg(not(feature = "testing"))]
pub(crate) fn wants_local_registration() -> bool {
    false
}
