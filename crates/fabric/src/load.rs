//! Finds the library, once for each process.

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{fmt, ptr};

use thiserror::Error;

use crate::symbols::Functions;

/// The library's own name, which its versions 1.x and 2.x share.
const LIBRARY: &str = "libfabric.so.1";

/// The oldest version that is used.
pub const OLDEST: Version = Version { major: 1, minor: 14 };

static FOUND: OnceLock<Library> = OnceLock::new();

/// Held by the thread that loads.
static LOADING: Mutex<()> = Mutex::new(());

/// A version of libfabric's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Before the point.
    pub major: u32,
    /// Behind the point.
    pub minor: u32,
}

impl Version {
    fn of_number(number: u32) -> Version {
        Version { major: number >> 16, minor: number & 0xffff }
    }

    pub(crate) fn number(self) -> u32 {
        self.major << 16 | self.minor
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Why libfabric cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The library cannot be loaded.
    #[error(
        "libfabric cannot be loaded ({reason}); install it (Debian: libfabric1), or name it in MC_LIBFABRIC_PATH"
    )]
    NotThere {
        /// The dynamic linker's words.
        reason: String,
    },
    /// The library lacks a function.
    #[error("{library} lacks the function {function}: it is not libfabric, or too old")]
    Lacks {
        /// The library's name.
        library: String,
        /// The missing function.
        function: String,
    },
    /// The library is older than [`OLDEST`].
    #[error("{library} is libfabric {found}, which is too old: {OLDEST} or later is needed")]
    TooOld {
        /// The library's name.
        library: String,
        /// Its version.
        found: Version,
    },
    /// This process uses another library already.
    #[error("this process uses {used} already, not {wanted}")]
    OtherInUse {
        /// The library in use.
        used: String,
        /// The library that was asked for.
        wanted: String,
    },
}

/// A loaded library, which is never unloaded.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) name: String,
    pub(crate) version: Version,
    pub(crate) functions: Functions,
}

/// The library of this name or path, or `libfabric.so.1`. Loads it at the first call.
pub(crate) fn library(path: Option<&str>) -> Result<&'static Library, LoadError> {
    let name = path.unwrap_or(LIBRARY);
    let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if FOUND.get().is_none() {
        let loaded = load(name)?;
        FOUND.set(loaded).expect("only the thread that holds the lock sets it");
    }
    let found = FOUND.get().expect("it was just set, if not before");
    if found.name != name {
        let (used, wanted) = (found.name.clone(), name.to_owned());
        return Err(LoadError::OtherInUse { used, wanted });
    }
    Ok(found)
}

/// Loads a library, which is never unloaded. What is returned finds its symbols. The error is the linker's.
pub(crate) fn open_library(name: &str) -> Result<impl Fn(&CStr) -> *mut c_void, String> {
    let c_name = CString::new(name).map_err(|_| format!("{name:?} contains a zero"))?;
    // SAFETY: the name ends with a zero. Loading may run initialisers of the library that the operator named, which is
    // trusted.
    let handle = keeping_handlers(|| unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW) });
    if handle.is_null() {
        return Err(why_not_loaded());
    }
    // SAFETY: `dlopen` returned the handle, which is never closed; the name ends with a zero.
    Ok(move |symbol: &CStr| unsafe { libc::dlsym(handle, symbol.as_ptr()) })
}

pub(crate) fn load(name: &str) -> Result<Library, LoadError> {
    let find = open_library(name).map_err(|reason| LoadError::NotThere { reason })?;
    // SAFETY: libfabric's functions of these names have the expected signatures. Versions of a symbol differ in what
    // they append to structures, not in signatures.
    let functions = unsafe { Functions::find(&find) }.map_err(|function| LoadError::Lacks {
        library: name.to_owned(),
        function: function.to_string_lossy().into_owned(),
    })?;
    // SAFETY: the call has no preconditions.
    let version = Version::of_number(unsafe { (functions.version)() });
    if version < OLDEST {
        return Err(LoadError::TooOld { library: name.to_owned(), found: version });
    }
    Ok(Library { name: name.to_owned(), version, functions })
}

/// Calls `load`, and then sets the handlers of all signals to what they were before. Debian's libfabric loads the libraries
/// of PSM, which take over a dozen signals to write a file when the process ends by one of them.
fn keeping_handlers<T>(load: impl FnOnce() -> T) -> T {
    /// The last signal before those of real time.
    const LAST: c_int = 31;
    let handlers: Vec<_> = (1..=LAST)
        .filter_map(|signal| {
            let mut handler = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY: without a new handler, the call only stores the present one.
            let status = unsafe { libc::sigaction(signal, ptr::null(), handler.as_mut_ptr()) };
            // SAFETY: the call has stored it.
            (status == 0).then(|| (signal, unsafe { handler.assume_init() }))
        })
        .collect();
    let loaded = load();
    for (signal, handler) in handlers {
        // SAFETY: the handler is the one that was there before. Signals that cannot have one are refused.
        unsafe { libc::sigaction(signal, &raw const handler, ptr::null_mut()) };
    }
    loaded
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
