//! Reserves space for files and memory before it is used.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::{Errno, retry_on_intr};

/// Reserves or frees space of a file, as the flags say. Repeats the call if a signal interrupts it.
pub(crate) fn change_room(
    file: impl AsFd,
    flags: FallocateFlags,
    offset: u64,
    len: u64,
) -> Result<(), Errno> {
    retry_on_intr(|| fallocate(&file, flags, offset, len))
}

/// Reserves disk space for the first `len` bytes of a file, if its filesystem supports that.
///
/// # Errors
/// The error of `fallocate`, for example that there is no space.
pub fn allocate_file(file: BorrowedFd<'_>, len: u64) -> io::Result<()> {
    match change_room(file, FallocateFlags::empty(), 0, len) {
        // The filesystem then allocates space as bytes are written.
        Err(Errno::OPNOTSUPP) => Ok(ftruncate(file, len)?),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use crate::Region;

    extern "C" fn do_nothing(_signal: libc::c_int) {}

    /// On a signal the kernel undoes its work so far, and fails with `EINTR`.
    #[test]
    fn a_signal_keeps_no_memory_from_being_provided() {
        // SAFETY: an all-zero `sigaction` is valid, and a handler that does nothing is safe at any moment.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = do_nothing as *const () as libc::sighandler_t;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
        }
        // SAFETY: identifies this thread; no memory is involved.
        let provider = unsafe { libc::pthread_self() };
        let (region, is_done) = (Region::anonymous(64 << 20).unwrap(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..40 {
                    if is_done.load(Ordering::Relaxed) {
                        return;
                    }
                    // SAFETY: the provider thread waits for this one before it ends, and has a handler for the signal.
                    unsafe { libc::pthread_kill(provider, libc::SIGUSR2) };
                    std::thread::sleep(Duration::from_micros(500));
                }
            });
            region.populate(0, 64 << 20).expect("signals are no failure");
            is_done.store(true, Ordering::Relaxed);
        });
    }
}
