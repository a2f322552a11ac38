/// A small seeded generator (SplitMix64) for choices that need to be spread, not secret.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// A generator whose whole sequence `start` determines.
    #[must_use]
    pub const fn new(start: u64) -> Self {
        Self { state: start }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A position in a list of `len` elements; `len` must not be zero.
    pub fn place(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number below `bound`; `bound` must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product is uniform, with a bias below bound / 2^64.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_starts_give_equal_sequences_and_bounds_hold() {
        let (mut one, mut two) = (Chance::new(7), Chance::new(7));
        let mut met = [0u32; 5];
        for _ in 0..1000 {
            let drawn = one.below(5);
            assert_eq!(drawn, two.below(5));
            met[drawn as usize] += 1;
        }
        assert!(met.iter().all(|&count| count > 120), "{met:?}");
    }
}
