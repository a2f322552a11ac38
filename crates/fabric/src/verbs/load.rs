//! Finds libibverbs, once for each process.

use std::ffi::{CStr, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::error::VerbsError;
use super::symbols::{Functions, RegDmabufMr};
use crate::load::open_library;

const LIBRARY: &str = "libibverbs.so.1";

static FOUND: OnceLock<VerbsLibrary> = OnceLock::new();

/// Held by the thread that loads.
static LOADING: Mutex<()> = Mutex::new(());

/// A loaded library, which is never unloaded.
pub(crate) struct VerbsLibrary {
    name: String,
    pub(crate) functions: Functions,
    pub(crate) reg_dmabuf_mr: Option<RegDmabufMr>,
}

/// The library of this name or path, or `libibverbs.so.1`. Loads it at the first call.
pub(crate) fn library(path: Option<&str>) -> Result<&'static VerbsLibrary, VerbsError> {
    let name = path.unwrap_or(LIBRARY);
    let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if FOUND.get().is_none() {
        let loaded = load(name)?;
        // SAFETY: the call has no preconditions. Where the kernel copies registered pages at a fork, it does nothing;
        // elsewhere a child lacks them, and this process keeps them. It fails if another part of the process has
        // registered memory before, and then that part has chosen.
        unsafe { (loaded.functions.fork_init)() };
        let _ = FOUND.set(loaded);
    }
    let found = FOUND.get().expect("it was just set, if not before");
    match found.name == name || found.name == IN_PLACE {
        true => Ok(found),
        false => Err(VerbsError::OtherInUse { used: found.name.clone(), wanted: name.to_owned() }),
    }
}

/// The name of a library that a test gave by its symbols.
const IN_PLACE: &str = "";

pub(crate) fn load(name: &str) -> Result<VerbsLibrary, VerbsError> {
    let find = open_library(name).map_err(|reason| VerbsError::NotThere { reason })?;
    of_symbols(name, &find)
}

fn of_symbols(name: &str, find: &dyn Fn(&CStr) -> *mut c_void) -> Result<VerbsLibrary, VerbsError> {
    // SAFETY: libibverbs' functions of these names have the expected signatures.
    let functions = unsafe { Functions::find(find) }.map_err(|function| VerbsError::Lacks {
        library: name.to_owned(),
        function: function.to_string_lossy().into_owned(),
    })?;
    let dmabuf = find(c"ibv_reg_dmabuf_mr");
    let reg_dmabuf_mr = (!dmabuf.is_null()).then(|| {
        // SAFETY: as above.
        unsafe { std::mem::transmute::<*mut c_void, RegDmabufMr>(dmabuf) }
    });
    Ok(VerbsLibrary { name: name.to_owned(), functions, reg_dmabuf_mr })
}

/// Uses this library, whatever is asked for. Tests of one process all pass the same.
#[cfg(feature = "testing")]
pub(crate) fn take_library(find: &dyn Fn(&CStr) -> *mut c_void) {
    let _ = FOUND.set(of_symbols(IN_PLACE, find).expect("it has all functions"));
}
