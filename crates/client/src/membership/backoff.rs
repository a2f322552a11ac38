use crate::chance::Chance;

/// The first wait between two attempts, in milliseconds.
const FIRST_DELAY_MS: u64 = 50;

/// The longest wait between two attempts, in milliseconds: a master that is back is found soon, and an attempt where nobody
/// listens costs next to nothing.
const LONGEST_DELAY_MS: u64 = 200;

/// Waits that double from 50 ms to 200 ms, each shortened by chance by up to a half, so that many clients of one
/// master do not come back in step.
#[derive(Clone, Debug)]
pub struct Backoff {
    next_ms: u64,
    chance: Chance,
}

impl Backoff {
    /// Waits from the shortest on.
    #[must_use]
    pub const fn new(chance: Chance) -> Self {
        Self { next_ms: FIRST_DELAY_MS, chance }
    }

    /// How long to wait now, in milliseconds.
    pub fn delay_ms(&mut self) -> u64 {
        let longest = self.next_ms;
        self.next_ms = (longest * 2).min(LONGEST_DELAY_MS);
        longest / 2 + self.chance.below(longest / 2 + 1)
    }

    /// Something worked: the next wait is short again.
    pub fn reset(&mut self) {
        self.next_ms = FIRST_DELAY_MS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_fifth_of_a_second_and_start_over() {
        let mut backoff = Backoff::new(Chance::new(3));
        for longest in [50, 100, 200, 200, 200] {
            let delay = backoff.delay_ms();
            assert!((longest / 2..=longest).contains(&delay), "{delay} of {longest}");
        }
        backoff.reset();
        assert!(backoff.delay_ms() <= 50);
    }
}
