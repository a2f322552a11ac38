//! Random numbers from a seed.

use std::f64::consts::TAU;

/// SplitMix64, with the distributions that traffic needs.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to 1, without 1.
    pub(super) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `count`. All are equally likely.
    pub(super) fn below(&mut self, count: u64) -> u64 {
        (self.share() * count as f64) as u64
    }

    /// The time to the next of independent events that are `mean` apart on average.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.share()).ln()
    }

    /// A log-normal number: `median` is the median, and `sigma` the deviation of the logarithms.
    pub(super) fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        median * (sigma * radius * (TAU * self.share()).cos()).exp()
    }

    /// How often something is repeated that continues with the same chance each time. At least once, and `mean` times
    /// on average.
    pub(super) fn geometric(&mut self, mean: f64) -> u32 {
        1 + self.exponential(1.0 / (mean / (mean - 1.0)).ln()) as u32
    }
}

/// Ranks from 0 on. The probability of a rank is proportional to `(rank + 1)` to the power of `-skew`.
pub(super) struct Zipf {
    /// For each rank, the sum of its weight and those of all ranks before it.
    sums: Vec<f64>,
}

impl Zipf {
    pub(super) fn new(count: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let weight = |rank: usize| ((rank + 1) as f64).powf(-skew);
        let sums = (0..count).map(|rank| {
            sum += weight(rank);
            sum
        });
        Self { sums: sums.collect() }
    }

    pub(super) fn pick(&self, dice: &mut Dice) -> u64 {
        let wanted = dice.share() * self.sums.last().copied().unwrap_or(0.0);
        self.sums.partition_point(|&sum| sum <= wanted) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(mut draw: impl FnMut(&mut Dice) -> f64) -> f64 {
        let mut dice = Dice::new(7);
        (0..100_000).map(|_| draw(&mut dice)).sum::<f64>() / 100_000.0
    }

    #[test]
    fn draws_have_the_means_of_their_distributions() {
        let close = |found: f64, wanted: f64| {
            assert!((found / wanted - 1.0).abs() < 0.03, "{found} {wanted}");
        };
        close(mean(|dice| dice.exponential(30.0)), 30.0);
        close(mean(|dice| dice.log_normal(100.0, 0.5)), 100.0 * 0.125f64.exp());
        close(mean(|dice| f64::from(dice.geometric(4.0))), 4.0);
        close(mean(|dice| dice.below(11) as f64), 5.0);
        // Rank 0 has the weight 1, of 1 + 1/2 + 1/3 + 1/4 = 25/12 in all.
        let zipf = Zipf::new(4, 1.0);
        close(mean(|dice| f64::from(u8::from(zipf.pick(dice) == 0))), 12.0 / 25.0);
    }
}
