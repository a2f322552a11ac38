use std::hash::{BuildHasher, RandomState};

/// The seed that a failed test has printed; it repeats the test.
const VARIABLE: &str = "MOONCAKE_SEED";

/// Prints and returns a new seed, or the one from the environment.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var(VARIABLE).map_or_else(
        |_| RandomState::new().hash_one(VARIABLE),
        |value| value.parse().unwrap_or_else(|e| panic!("{VARIABLE}={value}: {e}")),
    );
    println!("{VARIABLE}={seed}");
    seed
}

/// SplitMix64.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A length from `low` to `high`; all powers of two are equally likely.
    pub(crate) fn len(&mut self, low: u64, high: u64) -> u64 {
        let power = u64::from(low.ilog2()) + self.below(u64::from(high.ilog2() - low.ilog2()) + 1);
        ((1 << power) + self.below(1 << power)).clamp(low, high)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}
