//! A bound on the bytes that are copied per second.

use mooncake_types::Tick;

/// A budget that grows by `per_second` bytes each second, up to one second's worth. A copy may exceed the budget, and
/// leaves a debt. No other copy begins before the debt is paid off.
#[derive(Debug)]
pub(crate) struct Allowance {
    per_second: u64,
    saved: i64,
    at: Tick,
}

impl Allowance {
    pub(crate) fn new(per_second: u64, now: Tick) -> Self {
        Self { per_second, saved: bytes(per_second), at: now }
    }

    /// The moment from which bytes may be spent. `None` if the rate is zero.
    pub(super) fn ready_at(&self) -> Option<Tick> {
        if self.per_second == 0 {
            return None;
        }
        let lacking = u128::from(self.saved.min(0).unsigned_abs());
        // The budget is ready one byte above the debt.
        let ms = match self.saved > 0 {
            true => 0,
            false => ((lacking + 1) * 1_000).div_ceil(u128::from(self.per_second)),
        };
        Some(self.at.after_ms(u64::try_from(ms).unwrap_or(u64::MAX)))
    }

    /// Whether bytes may be spent now.
    pub(super) fn is_ready(&mut self, now: Tick) -> bool {
        let ms = u128::from(now.since_ms(self.at));
        let earned = ms * u128::from(self.per_second) / 1_000;
        // Times too short to earn a byte add up.
        if earned > 0 {
            let earned = bytes(u64::try_from(earned).unwrap_or(u64::MAX));
            self.saved = self.saved.saturating_add(earned).min(bytes(self.per_second));
            self.at = now;
        }
        self.per_second > 0 && self.saved > 0
    }

    pub(super) fn spend(&mut self, len: u64) {
        self.saved = self.saved.saturating_sub(bytes(len));
    }
}

fn bytes(len: u64) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_spent_than_the_rate_allows() {
        for (per_second, len) in [(1_000, 1), (1_000, 999), (1 << 20, 4 << 20), (3, 1_000), (7, 7)]
        {
            let mut allowance = Allowance::new(per_second, Tick(5));
            let (mut spent, mut now) = (0u64, Tick(5));
            for _ in 0..100 {
                now = now.max(allowance.ready_at().expect("it is not zero"));
                assert!(allowance.is_ready(now), "{per_second}, {len} at {now:?}");
                allowance.spend(len);
                spent += len;
                let most = u128::from(now.since_ms(Tick(5)) + 1_000) * u128::from(per_second);
                assert!(u128::from(spent - len) * 1_000 <= most, "{spent} until {now:?}");
            }
            let least = u128::from(now.since_ms(Tick(5))) * u128::from(per_second) / 1_000;
            assert!(u128::from(spent) >= least, "{spent} until {now:?}");
        }
    }

    #[test]
    fn no_more_than_a_second_is_saved_up() {
        let mut allowance = Allowance::new(100, Tick(0));
        assert!(allowance.is_ready(Tick(1_000_000)));
        allowance.spend(100);
        assert!(!allowance.is_ready(Tick(1_000_000)));
        assert_eq!(allowance.ready_at(), Some(Tick(1_000_010)));
    }

    #[test]
    fn extremes_are_harmless() {
        let mut none = Allowance::new(0, Tick(0));
        assert_eq!((none.is_ready(Tick(u64::MAX)), none.ready_at()), (false, None));
        let mut most = Allowance::new(u64::MAX, Tick(0));
        assert!(most.is_ready(Tick(u64::MAX)));
        most.spend(u64::MAX);
        most.spend(u64::MAX);
        let due = most.ready_at().expect("it is not zero");
        assert!(due >= Tick(0));
        let mut slow = Allowance::new(1, Tick(0));
        slow.spend(u64::MAX);
        assert!(slow.ready_at().expect("it is not zero") > Tick(1 << 62));
    }
}
