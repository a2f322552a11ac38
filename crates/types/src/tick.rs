use std::fmt;

/// A moment in milliseconds on a monotonic clock. Zero is the start of the process that owns the clock.
///
/// Ticks of two processes are never compared; the wire carries durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The first moment.
    pub const ZERO: Tick = Tick(0);

    /// The moment `ms` milliseconds later. At the largest tick it saturates instead of wrapping.
    #[must_use]
    pub const fn after_ms(self, ms: u64) -> Tick {
        Tick(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to here, zero if `earlier` is later.
    #[must_use]
    pub const fn since_ms(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}
