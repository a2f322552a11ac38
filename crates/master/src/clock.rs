use std::time::{Duration, Instant};

use mooncake_ha::boot_time;
use mooncake_types::Tick;

/// The master's clock, which counts from its start, including the time for which the machine was suspended
/// ([`boot_time`]). The instants that it is given do so too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { start: boot_time::now() }
    }

    /// The tick that `instant` lies in.
    pub(crate) fn tick(self, instant: Instant) -> Tick {
        let since_ms = instant.saturating_duration_since(self.start).as_millis();
        Tick(u64::try_from(since_ms).unwrap_or(u64::MAX))
    }

    /// The first instant of a tick, at most ten years after the start.
    pub(crate) fn instant(self, tick: Tick) -> Instant {
        const FARTHEST_MS: u64 = 10 * 365 * 24 * 3600 * 1000;
        self.start + Duration::from_millis(tick.0.min(FARTHEST_MS))
    }
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
    }
}
