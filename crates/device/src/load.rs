//! Finds the driver: its library, and whether this process may use it.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use mooncake_memory::process_id;
use thiserror::Error;

use crate::driver::Driver;
use crate::error::DriverError;

static FOUND: OnceLock<Driver> = OnceLock::new();

const LIBRARY: &CStr = c"libcuda.so.1";

/// Why a process that asked for the driver has none.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The library cannot be loaded. The dynamic linker gives the reason.
    #[error("this host has no CUDA driver ({0})")]
    NotThere(String),
    /// The driver lacks a function.
    #[error("the CUDA driver is too old: it lacks {0}")]
    TooOld(String),
    /// The driver cannot be initialised.
    #[error("the CUDA driver does not start: {0}")]
    Driver(#[from] DriverError),
}

/// The driver, if this process has loaded and initialised it. If the process does so later, the next call returns it.
///
/// A forked child cannot use what its parent initialised: the driver reports to it that it is not initialised.
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

/// Loads and initialises the driver. Only for programs whose purpose is devices. In all others the application does
/// that.
///
/// # Errors
/// This host has no driver, or an unusable one.
pub fn load_driver() -> Result<(), LoadError> {
    let library = open(0).ok_or_else(|| LoadError::NotThere(why_not_opened()))?;
    let too_old = |missing: &CStr| LoadError::TooOld(missing.to_string_lossy().into_owned());
    Driver::find(&symbols_of(library)).map_err(too_old)?.init()?;
    match driver() {
        Some(_) => Ok(()),
        None => Err(LoadError::NotThere("it was initialised by the parent of this process".into())),
    }
}

/// Opens the library with these flags of `dlopen`.
fn open(flags: libc::c_int) -> Option<*mut c_void> {
    // SAFETY: the name is a constant that ends with a zero. Loading may run initialisers of the system's CUDA driver,
    // which is trusted.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | flags) };
    (!library.is_null()).then_some(library)
}

fn why_not_opened() -> String {
    // SAFETY: the call has no preconditions. The text belongs to this thread until its next call of the linker.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the linker does not say why".to_owned();
    }
    // SAFETY: `text` is not null, and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The symbols of a library, which is never closed.
fn symbols_of(library: *mut c_void) -> impl Fn(&CStr) -> *mut c_void {
    // SAFETY: `dlopen` returned the handle, which is never closed; the name ends with a zero.
    move |name| unsafe { libc::dlsym(library, name.as_ptr()) }
}

/// Uses this driver instead of one that the process may load.
#[cfg(feature = "testing")]
pub(crate) fn take_driver(find: &dyn Fn(&CStr) -> *mut c_void) {
    let driver = Driver::find(find).expect("it has all functions");
    driver.init().expect("the driver starts");
    assert!(FOUND.set(driver).is_ok(), "the process has a driver already");
}
