//! The clock for leases. It counts the time for which the machine is suspended, unlike the system's ordinary
//! monotonic clock: meanwhile other masters may lead, and write.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// One moment by both clocks.
#[derive(Clone, Copy, Debug)]
struct Moment {
    instant: Instant,
    since_boot: Duration,
}

impl Moment {
    /// The instant of a later moment, which counts all the time between, suspended or not.
    fn instant_at(self, since_boot: Duration) -> Instant {
        self.instant + since_boot.saturating_sub(self.since_boot)
    }
}

/// Now, as an instant that also counts the time for which the machine was suspended since the first call. Compare it
/// only with other results of this function, and give system timers a duration instead.
#[must_use]
pub fn now() -> Instant {
    static FIRST: OnceLock<Moment> = OnceLock::new();
    let since_boot = since_boot();
    let first = FIRST.get_or_init(|| Moment { instant: Instant::now(), since_boot });
    first.instant_at(since_boot)
}

fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_which_the_machine_was_suspended_counts() {
        let first = Moment { instant: Instant::now(), since_boot: Duration::from_secs(1000) };
        let hour = Duration::from_secs(3600);
        assert_eq!(first.instant_at(first.since_boot), first.instant);
        assert_eq!(first.instant_at(first.since_boot + hour), first.instant + hour);
        assert_eq!(first.instant_at(Duration::ZERO), first.instant, "it never goes back");
    }

    #[test]
    fn it_goes_as_the_ordinary_clock_does_while_the_machine_is_awake() {
        let before = now();
        let (one, between, other) = (now(), Instant::now(), now());
        assert!(before <= one && one <= other);
        let apart = one.max(between) - one.min(between);
        assert!(apart < Duration::from_secs(5), "{apart:?}");
    }
}
