use std::time::Instant;

use mooncake_ha::boot_time;
use mooncake_types::Tick;

/// The process's clock, as ticks from the moment at which it was made. It also counts time for which the machine was
/// suspended, so that leases end meanwhile. Only shells read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { zero: boot_time::now() }
    }

    pub(crate) fn now(&self) -> Tick {
        let elapsed_ms = boot_time::now().saturating_duration_since(self.zero).as_millis();
        Tick(u64::try_from(elapsed_ms).unwrap_or(u64::MAX))
    }
}
