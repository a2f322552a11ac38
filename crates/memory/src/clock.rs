use rustix::time::{ClockId, clock_gettime};

/// The time since this machine was started, in nanoseconds, with all that it slept: the same for all processes.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
