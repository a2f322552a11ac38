use std::fmt;

/// A moment in milliseconds on a monotonic clock whose zero is the start of the process that owns it.
///
/// Ticks of two processes are never compared; what crosses the wire is a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The first moment.
    pub const ZERO: Tick = Tick(0);

    /// The moment `ms` milliseconds later; it stops at the end of time instead of wrapping.
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
