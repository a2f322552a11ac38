//! Finds the driver of the process: the library, and whether this process may call it.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use mooncake_memory::process_id;
use thiserror::Error;

use crate::driver::Driver;
use crate::error::DriverError;

static FOUND: OnceLock<Driver> = OnceLock::new();

const LIBRARY: &CStr = c"libcuda.so.1";

/// Why a process has no driver although it asked for one.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The system's linker gives the reason.
    #[error("this host has no CUDA driver ({0})")]
    NotThere(String),
    /// A function is missing.
    #[error("the CUDA driver is too old: it lacks {0}")]
    TooOld(String),
    /// It refuses to start.
    #[error("the CUDA driver does not start: {0}")]
    Driver(#[from] DriverError),
}

/// The driver, if this process has loaded and initialised it. A process that does so later is noticed at the next call.
///
/// A child cannot use what its parent initialised: to the child the driver says that it is not initialised.
pub(crate) fn driver() -> Option<&'static Driver> {
    let found = match FOUND.get() {
        Some(driver) => driver,
        None => look()?,
    };
    (found.process() == process_id()).then_some(found)
}

fn look() -> Option<&'static Driver> {
    match Driver::find(&symbols_of(open(libc::RTLD_NOLOAD)?)) {
        Ok(driver) => driver.is_initialized().then(|| FOUND.get_or_init(|| driver)),
        Err(missing) => {
            tracing::warn!(?missing, "the CUDA driver is too old: memory of devices is not served");
            None
        }
    }
}

/// Loads and initialises the driver. Only for programs that are about devices: all others leave that to their process.
///
/// # Errors
/// This host has no driver, or one that cannot be used.
pub fn load_driver() -> Result<(), LoadError> {
    let library = open(0).ok_or_else(|| LoadError::NotThere(why_not_opened()))?;
    let too_old = |missing: &CStr| LoadError::TooOld(missing.to_string_lossy().into_owned());
    Driver::find(&symbols_of(library)).map_err(too_old)?.init()?;
    match driver() {
        Some(_) => Ok(()),
        None => Err(LoadError::NotThere("it was initialised by the parent of this process".into())),
    }
}

/// The library, with these flags for the linker.
fn open(flags: libc::c_int) -> Option<*mut c_void> {
    // SAFETY: a constant name that ends with a zero. The code that may run is that of the system's driver.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | flags) };
    (!library.is_null()).then_some(library)
}

fn why_not_opened() -> String {
    // SAFETY: has no conditions; the text is this thread's until its next call of the linker.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the linker does not say why".to_owned();
    }
    // SAFETY: not null, and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The symbols of a library that is never closed: it stays for as long as the process.
fn symbols_of(library: *mut c_void) -> impl Fn(&CStr) -> *mut c_void {
    // SAFETY: the handle is valid, and the name ends with a zero.
    move |name| unsafe { libc::dlsym(library, name.as_ptr()) }
}

/// Takes this driver in place of one that the process may load.
#[cfg(feature = "testing")]
pub(crate) fn take_driver(find: &dyn Fn(&CStr) -> *mut c_void) {
    let driver = Driver::find(find).expect("it has all functions");
    driver.init().expect("the driver starts");
    assert!(FOUND.set(driver).is_ok(), "the process has a driver already");
}
