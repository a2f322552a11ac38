use std::time::{Duration, Instant};

/// Tells whether bytes still move on a lane, while a call waits on it.
#[derive(Debug)]
pub(crate) struct SilenceWatch {
    since: Instant,
    has_moved: bool,
}

impl SilenceWatch {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), has_moved: true }
    }

    /// Bytes moved, or are about to be asked for.
    pub(super) fn beat(&mut self) {
        self.has_moved = true;
    }

    pub(super) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// Whether nothing has moved for as long as `patience`.
    pub(super) fn is_silent(&mut self, now: Instant, patience: Duration) -> bool {
        if std::mem::take(&mut self.has_moved) {
            self.since = now;
        }
        now.saturating_duration_since(self.since) >= patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_silent_when_nothing_has_moved_for_long_enough() {
        let patience = Duration::from_millis(700);
        let mut pulse = SilenceWatch::new();
        let start = pulse.since;
        let at = |ms| start + Duration::from_millis(ms);
        for (ms, moves, silent) in [
            (1_000, false, false),
            (1_699, false, false),
            (1_700, false, true),
            (1_800, true, false),
            (2_499, false, false),
            (2_500, false, true),
        ] {
            if moves {
                pulse.beat();
            }
            assert_eq!(pulse.is_silent(at(ms), patience), silent, "at {ms} ms");
        }
    }
}
