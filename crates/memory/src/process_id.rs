//! The number of this process, without a call of the system each time that somebody asks.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Zero until somebody asks.
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// As [`std::process::id`]. A child that was made by `fork` gets its own; one that was made past the C library, and goes on in this
/// program, its parent's.
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

/// On the only thread of a child.
extern "C" fn forget() {
    KNOWN.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_its_own() {
        assert_eq!(process_id(), std::process::id());
        // SAFETY: the child only looks, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_own = process_id() == std::process::id();
            // SAFETY: ends this process, without anything that the parent has prepared for its own end.
            unsafe { libc::_exit(i32::from(!is_own)) };
        }
        let mut status = -1;
        // SAFETY: writes one number.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(process_id(), std::process::id());
    }
}
