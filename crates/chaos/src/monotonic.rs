use rustix::time::{ClockId, clock_gettime};

/// One second, in the unit of all times in this crate.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// The monotonic clock in nanoseconds, which all processes of this machine share.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * SECOND_NS + now.tv_nsec.cast_unsigned()
}
