use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static CALLS: AtomicU64 = AtomicU64::new(0);

/// Notes one system call.
pub(crate) fn count_call() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// System calls noted so far, of all threads.
pub(crate) fn calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// Processor time of all threads so far, those of the kernel that work for them among them.
pub(crate) fn of_process() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of the calling thread so far.
pub(crate) fn of_thread() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to a place of our own.
    let result = unsafe { libc::clock_gettime(which, &raw mut time) };
    assert_eq!(result, 0, "clocks of processes and threads are always there");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
