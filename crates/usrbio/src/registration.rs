//! What the library knows of a descriptor.

use std::ffi::c_int;
use std::io;

use crate::symbols::Functions;

/// A descriptor that requests may name, until this is dropped. It must be open for as long.
#[derive(Debug)]
pub(crate) struct Registration {
    functions: &'static Functions,
    descriptor: c_int,
}

impl Registration {
    pub(crate) fn new(functions: &'static Functions, descriptor: c_int) -> io::Result<Self> {
        // SAFETY: takes numbers alone.
        match unsafe { (functions.reg_fd)(descriptor, 0) } {
            error if error > 0 => Err(io::Error::from_raw_os_error(error)),
            _ => Ok(Self { functions, descriptor }),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: takes a number alone.
        unsafe { (self.functions.dereg_fd)(self.descriptor) }
    }
}
