//! Registration of a descriptor with the library.

use std::ffi::c_int;
use std::io;

use crate::symbols::Functions;

/// A descriptor that requests may name until this is dropped. The owner keeps the descriptor open for as long.
#[derive(Debug)]
pub(crate) struct Registration {
    functions: &'static Functions,
    descriptor: c_int,
}

impl Registration {
    pub(crate) fn new(functions: &'static Functions, descriptor: c_int) -> io::Result<Self> {
        // SAFETY: the call takes only numbers.
        match unsafe { (functions.reg_fd)(descriptor, 0) } {
            error if error > 0 => Err(io::Error::from_raw_os_error(error)),
            _ => Ok(Self { functions, descriptor }),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: the call takes only a number.
        unsafe { (self.functions.dereg_fd)(self.descriptor) }
    }
}
