use std::time::Duration;

use mooncake_memory::monotonic_ns;

/// The clock of leases. It goes on while the host is suspended.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseClock {
    /// Nanoseconds for which a test pretends that its host was suspended.
    #[cfg(test)]
    pub(crate) suspended_ns: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl LeaseClock {
    /// Time since the host was started.
    pub(super) fn now(&self) -> Duration {
        let now = Duration::from_nanos(monotonic_ns());
        #[cfg(test)]
        let suspended = self.suspended_ns.load(std::sync::atomic::Ordering::Relaxed);
        #[cfg(test)]
        let now = now + Duration::from_nanos(suspended);
        now
    }
}
