use std::time::Instant;

use mooncake_types::Tick;

/// The process's monotonic clock, as ticks from the moment the clock was made. Only shells read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { zero: Instant::now() }
    }

    pub(crate) fn now(&self) -> Tick {
        let elapsed_ms = self.zero.elapsed().as_millis();
        Tick(u64::try_from(elapsed_ms).unwrap_or(u64::MAX))
    }
}
