//! For tests: a library that replaces the system's.

use std::ffi::{CStr, c_void};
use std::path::Path;
use std::time::Duration;

use crate::load::take_library;
use crate::{Mount, MountError};

/// Uses this library, given by its symbols, instead of the system's. The first library that a process uses stays.
///
/// # Panics
/// If a symbol is missing.
pub fn use_library(find: fn(&CStr) -> *mut c_void) {
    take_library(&find);
}

/// As [`Mount::find`], with this timeout for requests.
///
/// # Errors
/// As [`Mount::find`].
pub fn find_with(path: &Path, patience: Duration) -> Result<Option<Mount>, MountError> {
    Mount::find_with(path, patience)
}
