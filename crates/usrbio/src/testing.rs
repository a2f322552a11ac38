//! For tests: a library in place of the system's.

use std::ffi::{CStr, c_void};
use std::path::Path;
use std::time::Duration;

use crate::load::take_library;
use crate::{Mount, MountError};

/// Takes this library, given by its symbols, in place of the one that the system has. The first that a process takes stays.
///
/// # Panics
/// If a symbol is missing.
pub fn use_library(find: fn(&CStr) -> *mut c_void) {
    take_library(&find);
}

/// As [`Mount::find`], with requests that may take so long.
///
/// # Errors
/// As there.
pub fn find_with(path: &Path, patience: Duration) -> Result<Option<Mount>, MountError> {
    Mount::find_with(path, patience)
}
