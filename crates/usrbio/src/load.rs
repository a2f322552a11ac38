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
    /// The system's linker gives the reason.
    #[error("the library of 3FS cannot be loaded ({0})")]
    NotThere(String),
    /// A function is missing.
    #[error("the library of 3FS lacks the function {0}")]
    Lacks(String),
}

/// The functions of the library, which is loaded if it was not yet. It stays for as long as the process.
pub(crate) fn functions() -> Result<&'static Functions, LoadError> {
    match FOUND.get() {
        Some(found) => Ok(found),
        None => load(LIBRARY).map(|functions| FOUND.get_or_init(|| functions)),
    }
}

fn load(name: &CStr) -> Result<Functions, LoadError> {
    // SAFETY: the name ends with a zero. The code that may run is that of the system's library.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return Err(LoadError::NotThere(why_not_loaded()));
    }
    // SAFETY: the handle is valid, and the name ends with a zero.
    let find = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: the library of this name has 3FS's functions under their names.
    unsafe { Functions::find(&find) }.map_err(lacks)
}

fn lacks(symbol: &CStr) -> LoadError {
    LoadError::Lacks(symbol.to_string_lossy().into_owned())
}

fn why_not_loaded() -> String {
    // SAFETY: has no conditions; the text is this thread's until its next call of the linker.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the linker does not say why".to_owned();
    }
    // SAFETY: not null, and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Takes this library in place of the system's.
#[cfg(feature = "testing")]
pub(crate) fn take_library(find: &dyn Fn(&CStr) -> *mut std::ffi::c_void) {
    // SAFETY: the tests give functions with the signatures of the library's.
    let functions = unsafe { Functions::find(find) }.expect("it has all functions");
    // Tests of one process give the same.
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
            // SAFETY: none of the functions is called.
            let missing = unsafe { Functions::find(&find) }.expect_err("one is missing");
            assert_eq!(missing, *lacking);
        }
    }
}
