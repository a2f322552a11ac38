use rustix::time::{ClockId, clock_gettime};

/// Time since boot, including time asleep, in nanoseconds. All processes of the machine share this clock.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
