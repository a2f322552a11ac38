//! Calls of libibverbs, their results, and the objects that they create.

use std::ffi::{CStr, c_int};
use std::io;
use std::ptr::NonNull;

use mooncake_memory::process_id;

use super::load::VerbsLibrary;
use crate::call::CallError;

/// Calls a function of the library: `-1`, null and the like stand for failure, which `errno` explains, or an error that
/// a test wants. An unsafe operation, as the call is.
macro_rules! verb {
    ($library:expr, $call:literal, $failed:expr => $function:ident($($argument:expr),* $(,)?)) => {
        match $crate::call::wanted_failure($call) {
            Some(number) => {
                *libc::__errno_location() = number;
                $failed(number)
            }
            None => ($library.functions.$function)($($argument),*),
        }
    };
}
pub(crate) use verb;

/// The error of a call, by a number of the system.
pub(crate) fn call_error(call: &'static str, number: c_int) -> CallError {
    let text = io::Error::from_raw_os_error(number).to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    CallError { call, number, text }
}

/// The error of a call that has just failed.
pub(crate) fn last_error(call: &'static str) -> CallError {
    call_error(call, io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// Converts a status: zero, or a number of the system.
pub(crate) fn check(call: &'static str, status: c_int) -> Result<(), CallError> {
    match status {
        0 => Ok(()),
        -1 => Err(last_error(call)),
        number => Err(call_error(call, number.saturating_abs())),
    }
}

/// The error of a request that has ended with this status.
pub(crate) fn status_error(library: &VerbsLibrary, status: u32) -> CallError {
    // SAFETY: any number may be passed, and the text is a constant of the library.
    let text = unsafe { (library.functions.wc_status_str)(status) };
    let text = match text.is_null() {
        true => "unknown".to_owned(),
        // SAFETY: `text` is not null, and ends with a zero.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    };
    let number = i32::try_from(status).unwrap_or(i32::MAX);
    CallError { call: "ibv_poll_cq", number, text }
}

/// An object that this process created, and nobody else destroys.
pub(crate) struct Owned<T> {
    object: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T) -> c_int,
    process: u32,
}

// SAFETY: the library lets any thread use its objects.
unsafe impl<T> Send for Owned<T> {}
// SAFETY: as for Send.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// Takes what a call created; null if it failed.
    ///
    /// # Safety
    /// `object` is null, or `destroy` may be called for it once.
    pub(crate) unsafe fn new(
        call: &'static str,
        object: *mut T,
        destroy: unsafe extern "C" fn(*mut T) -> c_int,
    ) -> Result<Owned<T>, CallError> {
        let object = NonNull::new(object).ok_or_else(|| last_error(call))?;
        #[cfg(feature = "testing")]
        crate::testing::opened();
        Ok(Owned { object, destroy, process: process_id() })
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // A forked child must not destroy what its parent uses.
        if self.process != process_id() {
            return;
        }
        // SAFETY: the object lives, and only this drop destroys it.
        let status = unsafe { (self.destroy)(self.object.as_ptr()) };
        #[cfg(feature = "testing")]
        crate::testing::closed(status);
        if let Err(error) = check("ibv_destroy", status) {
            tracing::warn!(%error, kind = std::any::type_name::<T>(), "an object stays");
        }
    }
}
