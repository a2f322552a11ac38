//! Finds the library of 3FS.

use std::ffi::CStr;
use std::sync::OnceLock;

use thiserror::Error;

use crate::symbols::Functions;

static FOUND: OnceLock<Functions> = OnceLock::new();

const LIBRARY: &CStr = c"libhf3fs_api_shared.so";

/// Why the library of 3FS cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The library cannot be loaded. The dynamic linker gives the reason.
    #[error("the library of 3FS cannot be loaded ({0})")]
    NotThere(String),
    /// The library lacks a function.
    #[error("the library of 3FS lacks the function {0}")]
    Lacks(String),
}

/// The functions of the library. Loads it at the first call; it is never unloaded.
pub(crate) fn functions() -> Result<&'static Functions, LoadError> {
    match FOUND.get() {
        Some(found) => Ok(found),
        None => load(LIBRARY).map(|functions| FOUND.get_or_init(|| functions)),
    }
}

fn load(name: &CStr) -> Result<Functions, LoadError> {
    // SAFETY: the name ends with a zero. Loading may run initialisers of the system's 3FS library, which is trusted.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return Err(LoadError::NotThere(why_not_loaded()));
    }
    // SAFETY: `dlopen` returned the handle, which is never closed; the name ends with a zero.
    let find = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: the library of this name is 3FS's, whose functions of these names have the expected signatures.
    unsafe { Functions::find(&find) }.map_err(lacks)
}

fn lacks(symbol: &CStr) -> LoadError {
    LoadError::Lacks(symbol.to_string_lossy().into_owned())
}

fn why_not_loaded() -> String {
    // SAFETY: the call has no preconditions. The text belongs to this thread until its next call of the linker.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the linker does not say why".to_owned();
    }
    // SAFETY: `text` is not null, and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Uses this library instead of the system's.
#[cfg(feature = "testing")]
pub(crate) fn take_library(find: &dyn Fn(&CStr) -> *mut std::ffi::c_void) {
    // SAFETY: the tests pass functions with the signatures of the library's.
    let functions = unsafe { Functions::find(find) }.expect("it has all functions");
    // Tests of one process all pass the same library, so the first one stays.
    let _ = FOUND.set(functions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_or_lacks_a_function_is_named() {
        match load(c"libno-such-library.so") {
            Err(LoadError::NotThere(why)) => {
                assert!(why.contains("libno-such-library.so"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        let first = LoadError::Lacks("hf3fs_extract_mount_point".to_owned());
        assert_eq!(load(c"libc.so.6").expect_err("it has other functions"), first);
        let some_function = std::ptr::without_provenance_mut(16);
        for lacking in Functions::SYMBOLS {
            let find = |name: &CStr| {
                if name == *lacking { std::ptr::null_mut() } else { some_function }
            };
            // SAFETY: none of the functions is ever called.
            let missing = unsafe { Functions::find(&find) }.expect_err("one is missing");
            assert_eq!(missing, *lacking);
        }
    }
}
