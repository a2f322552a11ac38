use std::time::Duration;

/// How long to look for what is awaited before sleeping for it, given how the waits before it went.
///
/// A processor that went to sleep takes tens of microseconds to wake, which is longer than a small request takes on the
/// wire. Looking pays where waits are short, and only there: this looks after a few short waits in a row, and stops
/// after one or two that were long. So a wait that is never answered costs nothing, one that is answered at a slow pace
/// costs nothing, and a pause in a fast sequence costs at most the limit. Where others want the processor it sleeps: who
/// sleeps is woken ahead of those who run, who looks stands behind them.
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
    /// Short waits that lately outnumbered the long ones.
    trust: u8,
}

/// Short waits in a row after which it looks.
const ENOUGH_TRUST: u8 = 4;

/// More short waits than this count no further, so that two long ones end it.
const MOST_TRUST: u8 = 8;

/// A processor that was given away and comes back later than this was wanted by somebody else.
const LATE: Duration = Duration::from_micros(50);

/// Nobody looks for this many times as long as a crowd cost, so that crowds cost 3 % of the time at most.
const PRICE: u32 = 32;

/// But never for longer than this: the crowd may be gone long before.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

impl BusyWait {
    /// What is looked for at most unless somebody says otherwise: above a round trip between two hosts of one rack, and
    /// about what waking takes.
    pub const DEFAULT_LIMIT: Duration = Duration::from_micros(100);

    /// The longest limit that users can ask for: beyond it, waking is no longer what a wait is made of.
    pub const LONGEST_LIMIT_US: u64 = 1000;

    /// What users may ask for, in words.
    pub const WANTED: &'static str = "a number of microseconds from 0 to 1000";

    /// The limit that a user asks for, in microseconds.
    #[must_use]
    pub fn parse_limit(text: &str) -> Option<Duration> {
        let us = text.parse().ok().filter(|us| *us <= Self::LONGEST_LIMIT_US)?;
        Some(Duration::from_micros(us))
    }

    /// Looks for `limit` at most; never if that is zero. It trusts nothing yet.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit, trust: 0 }
    }

    /// How long to look now; zero: sleep at once.
    #[must_use]
    pub fn budget(&self) -> Duration {
        if self.trust >= ENOUGH_TRUST { self.limit } else { Duration::ZERO }
    }

    /// A wait took this long, from its beginning to the answer, with or without sleep. Up to twice the limit is short:
    /// a sleep has its waking in it.
    pub fn on_wait(&mut self, took: Duration) {
        match took > self.limit.saturating_mul(2) {
            true => self.trust /= 2,
            false => self.trust = (self.trust + 1).min(MOST_TRUST),
        }
    }

    /// How long not to look after the processor was given away between two looks and came back only after `away`; nothing if
    /// nobody else seems to have wanted it.
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

    /// The number of waits that are looked at, of waits of these lengths.
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
