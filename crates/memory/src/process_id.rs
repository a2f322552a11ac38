//! The pid of this process, cached, since a system call for each use is expensive.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The cached pid; zero before the first use.
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// As [`std::process::id`]. A child of the C library's `fork` gets its own pid. A child that bypassed the C library
/// gets its parent's pid.
#[must_use]
pub fn process_id() -> u32 {
    match KNOWN.load(Ordering::Relaxed) {
        0 => look(),
        known => known,
    }
}

#[cold]
fn look() -> u32 {
    static HOOK: Once = Once::new();
    // SAFETY: the hook is a function of this program, which is never unloaded before the process ends.
    HOOK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forget));
    });
    let own = std::process::id();
    KNOWN.store(own, Ordering::Relaxed);
    own
}

/// Runs on the only thread of a forked child.
extern "C" fn forget() {
    KNOWN.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_its_own() {
        assert_eq!(process_id(), std::process::id());
        // SAFETY: the child only compares its pid, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_own = process_id() == std::process::id();
            // SAFETY: ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!is_own)) };
        }
        let mut status = -1;
        // SAFETY: `waitpid` writes one number, into `status`.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(process_id(), std::process::id());
    }
}
