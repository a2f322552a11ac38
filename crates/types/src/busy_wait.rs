use std::time::Duration;

/// Decides how long a thread polls for an event before it blocks, from the durations of its last waits.
///
/// A sleeping processor takes tens of microseconds to wake, longer than a small request takes on the wire. So polling
/// pays only where waits are short. It begins after a few short waits in a row, and stops after one or two long ones.
/// A thread whose answers come slowly or never does not poll, and one long wait in a fast sequence costs at most the
/// limit.
///
/// While other threads want the processor, the thread blocks. The kernel runs a woken thread before running ones, but
/// a polling thread must wait for its turn.
///
/// ```
/// use std::time::Duration;
/// use mooncake_types::BusyWait;
///
/// let mut wait = BusyWait::new(Duration::from_micros(100));
/// assert_eq!(wait.budget(), Duration::ZERO);
/// (0..4).for_each(|_| wait.on_wait(Duration::from_micros(20)));
/// assert_eq!(wait.budget(), Duration::from_micros(100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyWait {
    limit: Duration,
    /// A short wait adds one; a long wait halves it.
    trust: u8,
}

/// A thread polls from this trust on: after this many short waits in a row.
const ENOUGH_TRUST: u8 = 4;

/// Upper bound of the trust. From here, two long waits end the polling.
const MOST_TRUST: u8 = 8;

/// If a thread yields the processor and gets it back after this time or later, another thread wanted it.
const LATE: Duration = Duration::from_micros(50);

/// A thread that lost the processor for a time does not poll for this many times as long. So it loses at most 3 % of
/// its time.
const PRICE: u32 = 32;

/// Longest pause of polling. The other threads may end much earlier.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

impl BusyWait {
    /// The default limit: longer than a round trip between two hosts of one rack, and about as long as a processor
    /// takes to wake.
    pub const DEFAULT_LIMIT: Duration = Duration::from_micros(100);

    /// The longest limit that users can configure, in microseconds. In longer waits the time to wake hardly counts.
    pub const LONGEST_LIMIT_US: u64 = 1000;

    /// The values that users may configure, in words.
    pub const WANTED: &'static str = "a number of microseconds from 0 to 1000";

    /// Parses a limit in microseconds. `None` if the text is not a number, or above the longest limit.
    #[must_use]
    pub fn parse_limit(text: &str) -> Option<Duration> {
        let us = text.parse().ok().filter(|us| *us <= Self::LONGEST_LIMIT_US)?;
        Some(Duration::from_micros(us))
    }

    /// Polls for at most `limit`; never if it is zero. The trust begins at zero.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit, trust: 0 }
    }

    /// How long to poll now. Zero means block at once.
    #[must_use]
    pub fn budget(&self) -> Duration {
        if self.trust >= ENOUGH_TRUST { self.limit } else { Duration::ZERO }
    }

    /// Records a wait of this duration, from its beginning to the answer, with or without sleep. A wait of up to twice
    /// the limit counts as short, because a wait with sleep includes the time to wake.
    pub fn on_wait(&mut self, took: Duration) {
        match took > self.limit.saturating_mul(2) {
            true => self.trust /= 2,
            false => self.trust = (self.trust + 1).min(MOST_TRUST),
        }
    }

    /// How long a thread must not poll after it yielded the processor and got it back after `away`. `None` if no other
    /// thread seems to have wanted the processor.
    #[must_use]
    pub fn pause_after(away: Duration) -> Option<Duration> {
        (away >= LATE).then(|| away.saturating_mul(PRICE).min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(100);
    const SHORT: Duration = Duration::from_micros(150);
    const LONG: Duration = Duration::from_millis(1);

    /// Counts in how many of these waits the thread polls.
    fn looks(wait: &mut BusyWait, waits: impl IntoIterator<Item = Duration>) -> usize {
        let look = |&took: &Duration| {
            let looked = wait.budget() > Duration::ZERO;
            wait.on_wait(took);
            looked
        };
        waits.into_iter().filter(look).count()
    }

    #[test]
    fn it_looks_after_four_short_waits_and_no_more_after_two_long_ones() {
        let mut wait = BusyWait::new(LIMIT);
        assert_eq!(looks(&mut wait, [SHORT; 100]), 96);
        assert_eq!(wait.budget(), LIMIT);
        assert_eq!(looks(&mut wait, [LONG; 100]), 2);
        assert_eq!(looks(&mut wait, [SHORT; 100]), 96);
    }

    #[test]
    fn a_slow_sequence_is_never_looked_at() {
        assert_eq!(looks(&mut BusyWait::new(LIMIT), [LONG; 1000]), 0);
        let pairs = [SHORT, LONG].into_iter().cycle().take(1000);
        assert_eq!(looks(&mut BusyWait::new(LIMIT), pairs), 0);
    }

    #[test]
    fn every_long_look_is_paid_for_by_short_ones() {
        for run in 1..20 {
            let mut wait = BusyWait::new(LIMIT);
            let waits = (0..1000).map(|i| if i % (run + 1) == run { LONG } else { SHORT });
            let mut wasted = 0;
            for took in waits {
                wasted += usize::from(took == LONG && wait.budget() > Duration::ZERO);
                wait.on_wait(took);
            }
            assert!(wasted * 4 <= 1000, "{wasted} of 1000 waits were looked at in vain");
        }
    }

    #[test]
    fn a_crowd_costs_three_percent_of_the_time_at_most() {
        let rows = [
            (0, None),
            (49, None),
            (50, Some(1_600)),
            (4_000, Some(128_000)),
            (60_000_000, Some(200_000)),
        ];
        for (away_us, pause_us) in rows {
            let pause = BusyWait::pause_after(Duration::from_micros(away_us));
            assert_eq!(pause, pause_us.map(Duration::from_micros), "{away_us}");
        }
    }

    #[test]
    fn limits_are_microseconds_up_to_one_millisecond() {
        for (text, us) in
            [("0", Some(0)), ("1000", Some(1000)), ("1001", None), ("-1", None), ("", None)]
        {
            assert_eq!(BusyWait::parse_limit(text), us.map(Duration::from_micros), "{text:?}");
        }
    }

    #[test]
    fn no_limit_is_no_looking() {
        let mut wait = BusyWait::new(Duration::ZERO);
        (0..100).for_each(|_| wait.on_wait(Duration::ZERO));
        assert_eq!(wait.budget(), Duration::ZERO);
    }
}
