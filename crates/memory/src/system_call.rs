use std::io;

use rustix::io::{Errno, retry_on_intr};

/// Calls a C function that returns a count, or a negative number on failure. Repeats it if a signal interrupts it.
pub(crate) fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    let mut once = || {
        usize::try_from(call()).map_err(|_| {
            let error = io::Error::last_os_error();
            Errno::from_io_error(&error).unwrap_or(Errno::IO)
        })
    };
    Ok(retry_on_intr(&mut once)?)
}
