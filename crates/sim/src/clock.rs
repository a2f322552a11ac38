use mooncake_types::Tick;

/// The clock of one process: it begins when the process does, and runs a little too fast or too slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started_us: u64,
    /// How many microseconds too many the clock counts in a second; negative if it is slow.
    surplus: i64,
}

const SECOND: i128 = 1_000_000;

impl Clock {
    pub(crate) const fn new(started_us: u64, surplus: i64) -> Self {
        Self { started_us, surplus }
    }

    /// The tick that the clock shows at this moment of virtual time.
    pub(crate) fn tick(&self, now_us: u64) -> Tick {
        let passed = i128::from(now_us.saturating_sub(self.started_us));
        let shown_us = passed + passed * i128::from(self.surplus) / SECOND;
        Tick(u64::try_from(shown_us / 1_000).unwrap_or(0))
    }

    /// A moment at which the clock has already reached this tick.
    pub(crate) fn moment(&self, tick: Tick) -> u64 {
        // This bounds the tick to the next hundred years, so that the product fits.
        let shown_us = i128::from(tick.0.min(1 << 42)) * 1_000;
        let passed = shown_us * SECOND / (SECOND + i128::from(self.surplus)) + 2;
        self.started_us + u64::try_from(passed).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_of_a_tick_shows_it() {
        for surplus in [-5_000, -1, 0, 7, 5_000] {
            let clock = Clock::new(1_234_567, surplus);
            for tick in [0, 1, 17, 999, 1_000_000_007] {
                let shown = clock.tick(clock.moment(Tick(tick)));
                assert!((tick..=tick + 1).contains(&shown.0), "{tick} {surplus}: {shown}");
            }
        }
    }
}
