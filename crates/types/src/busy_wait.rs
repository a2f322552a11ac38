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
    /// Waits without a look that are still to come after a crowd.
    barred: u16,
    /// As many there will be after the next crowd.
    next_bar: u16,
    /// Good looks since a crowd, or since `next_bar` was lowered.
    calm: u16,
}

/// Short waits in a row after which it looks.
const ENOUGH_TRUST: u8 = 4;

/// More short waits than this count no further, so that two long ones end it.
const MOST_TRUST: u8 = 8;

/// Waits without a look after a crowd: the fewest, and the most, where one crowd follows another.
const BARS: std::ops::RangeInclusive<u16> = 64..=8192;

/// Good looks that halve the bar again.
const CALM: u16 = 1024;

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
        Self { limit, trust: 0, barred: 0, next_bar: *BARS.start(), calm: 0 }
    }

    /// How long to look now; zero: sleep at once.
    #[must_use]
    pub fn budget(&self) -> Duration {
        let looks = self.barred == 0 && self.trust >= ENOUGH_TRUST;
        if looks { self.limit } else { Duration::ZERO }
    }

    /// A wait took this long, from its beginning to the answer, with or without sleep. Up to twice the limit is short:
    /// a sleep has its waking in it.
    pub fn on_wait(&mut self, took: Duration) {
        if self.barred > 0 {
            self.barred -= 1;
            return;
        }
        if took > self.limit.saturating_mul(2) {
            self.trust /= 2;
            return;
        }
        self.trust = (self.trust + 1).min(MOST_TRUST);
        self.calm += 1;
        if self.calm == CALM {
            (self.calm, self.next_bar) = (0, (self.next_bar / 2).max(*BARS.start()));
        }
    }

    /// The processor was given away between two looks and came back late: others want it. The more often that happens,
    /// the longer it does not look.
    pub fn on_crowd(&mut self) {
        (self.trust, self.calm, self.barred) = (0, 0, self.next_bar);
        self.next_bar = (self.next_bar * 2).min(*BARS.end());
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
    fn a_crowd_ends_it_for_longer_each_time() {
        let mut wait = BusyWait::new(LIMIT);
        assert_eq!(looks(&mut wait, [SHORT; 8]), 4);
        for barred in [64, 128, 256, 512, 1024, 2048, 4096, 8192, 8192] {
            wait.on_crowd();
            assert_eq!(looks(&mut wait, vec![SHORT; barred + 4]), 0, "{barred}");
            assert_eq!(looks(&mut wait, [SHORT; 4]), 4, "{barred}");
        }
    }

    #[test]
    fn crowds_are_forgotten_while_there_is_none() {
        let mut wait = BusyWait::new(LIMIT);
        (0..20).for_each(|_| wait.on_crowd());
        assert_eq!(looks(&mut wait, vec![SHORT; 8192 + 8 * 1024]), 8 * 1024 - 4);
        wait.on_crowd();
        assert_eq!(looks(&mut wait, [SHORT; 100]), 32);
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
