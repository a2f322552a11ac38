use std::io;

/// From here on the calling thread runs only where no other thread wants to: for work that is welcome and not urgent.
///
/// # Errors
/// What the system says; the thread then goes on as before.
pub fn run_only_when_idle() -> io::Result<()> {
    // SAFETY: all zeros is a valid parameter, the only one that this policy takes.
    let parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the parameter lives through the call; 0 names the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_gives_way_and_no_other_does() {
        let policy = || {
            // SAFETY: a question about the calling thread.
            unsafe { libc::sched_getscheduler(0) }
        };
        let before = policy();
        let idle = std::thread::spawn(move || run_only_when_idle().map(|()| policy()).ok()).join();
        assert_eq!(idle.ok(), Some(Some(libc::SCHED_IDLE)));
        assert_eq!(policy(), before);
    }
}
