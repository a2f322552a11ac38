use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mooncake_types::{Epoch, Tick};

/// The master's monotonic clock; its zero is the start of the master.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// The tick that `instant` lies in.
    pub(crate) fn tick(self, instant: Instant) -> Tick {
        Tick(
            u64::try_from(instant.saturating_duration_since(self.start).as_millis())
                .unwrap_or(u64::MAX),
        )
    }

    /// The first instant of a tick, or the farthest that a timer takes.
    pub(crate) fn instant(self, tick: Tick) -> Instant {
        const FARTHEST_MS: u64 = 10 * 365 * 24 * 3600 * 1000;
        self.start + Duration::from_millis(tick.0.min(FARTHEST_MS))
    }
}

/// The epoch of a master that starts now: the wall clock in milliseconds, which is higher than that of any
/// predecessor unless the clock was set back. A node that has obeyed a higher one raises it when it joins.
pub(crate) fn epoch_of_this_start() -> Epoch {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Epoch(u64::try_from(since.as_millis()).unwrap_or(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_instants_agree() {
        let clock = Clock::start();
        for ms in [0, 1, 999, 86_400_000] {
            assert_eq!(clock.tick(clock.instant(Tick(ms))), Tick(ms));
        }
        assert!(clock.instant(Tick(u64::MAX)) > clock.instant(Tick(0)));
        assert!(epoch_of_this_start() > Epoch(1_600_000_000_000));
    }
}
