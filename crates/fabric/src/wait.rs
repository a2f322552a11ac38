//! Waits for descriptors that belong to the library, and for other threads.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::thread;
use std::time::Duration;

/// A descriptor that is readable after another thread has rung.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        // SAFETY: the call has no preconditions.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a descriptor that nobody else has.
        Ok(Bell(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn ring(&self) {
        let one = 1_u64;
        // SAFETY: eight bytes of this thread. Before the counter could overflow it is readable anyway.
        unsafe { libc::write(self.descriptor(), (&raw const one).cast(), 8) };
    }

    pub(crate) fn silence(&self) {
        self.has_rung();
    }

    /// Whether another thread has rung since the last call.
    pub(crate) fn has_rung(&self) -> bool {
        let mut count = 0_u64;
        // SAFETY: eight bytes of this thread. If nobody has rung, there is nothing to read.
        let read = unsafe { libc::read(self.descriptor(), (&raw mut count).cast(), 8) };
        read == 8
    }
}

/// Waits until one of the descriptors is readable, or for this time. A descriptor may have been closed meanwhile, and
/// its number may belong to another file: then the wait ends too early or too late, by no more than this time. Returns
/// whether one is readable.
pub(crate) fn wait_for_any(descriptors: &[RawFd], time: Duration) -> bool {
    if descriptors.is_empty() {
        thread::sleep(time);
        return false;
    }
    let watch = |&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut watched: Vec<_> = descriptors.iter().map(watch).collect();
    let limit = libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: the array and the time live during the call, and no signals are masked.
    let readable = unsafe {
        libc::ppoll(
            watched.as_mut_ptr(),
            watched.len() as libc::nfds_t,
            &raw const limit,
            std::ptr::null(),
        )
    };
    readable > 0
}
