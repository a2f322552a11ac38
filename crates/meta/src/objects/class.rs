//! The class of an object: what eviction knows of the object's own history.

/// Number of classes.
pub(crate) const CLASSES: usize = (MOST_USES as usize + 1) * 2;

/// Most uses that classes tell apart; further uses do not count.
const MOST_USES: u8 = 3;

const USES: u8 = 0b11;
const LAST: u8 = 0b100;
const RARITY_SHIFT: u32 = 3;
const MOST_RARITY: u32 = 31;

/// One of the two queues of each segment under a policy of [second chances](crate::eviction).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    First,
    Second,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// How often an object has been used, whether it was the last of its batch, and its rarity; in one byte. The rarity
/// decides whether its key is in the sample.
///
/// The last block of a prompt is seldom used again: if it is not full, the next prompt has another block in its
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(u8);

impl Class {
    /// The class of an object whose key has this hash, after `uses` uses.
    pub(crate) fn new(hash: u64, uses: u8, last: bool) -> Self {
        let rarity = (mix_hash(hash) >> 16).trailing_zeros().min(MOST_RARITY) as u8;
        Self((rarity << RARITY_SHIFT) | (u8::from(last) * LAST) | uses.min(MOST_USES))
    }

    /// The class after one more use.
    pub(crate) fn used(self) -> Self {
        Self(self.0 + u8::from(self.uses() < MOST_USES))
    }

    /// A class under a policy of [second chances](crate::eviction). The side says in which queue the object is. The
    /// bits of the rarity count its uses instead.
    pub(crate) fn on_side(side: Side, visits: u8) -> Self {
        let second = if side == Side::Second { LAST } else { 0 };
        Self((visits.min(MOST_USES) << RARITY_SHIFT) | second)
    }

    pub(crate) fn side(self) -> Side {
        if self.0 & LAST == 0 { Side::First } else { Side::Second }
    }

    /// Uses that still give the object another chance, at most [`MOST_USES`].
    pub(crate) fn visits(self) -> u8 {
        self.0 >> RARITY_SHIFT
    }

    /// The class after one more use, on the same side.
    pub(crate) fn visited(self) -> Self {
        Self::on_side(self.side(), self.visits() + 1)
    }

    /// Uses, at most [`MOST_USES`].
    pub(crate) fn uses(self) -> u8 {
        self.0 & USES
    }

    /// A number below [`CLASSES`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.0 & (LAST | USES))
    }

    /// One key in 2^`rarity` has at least this rarity.
    pub(crate) fn rarity(self) -> u32 {
        u32::from(self.0 >> RARITY_SHIFT)
    }
}

/// Mixes a hash, so that choices by the result are independent of the choices that the index makes by the hash.
pub(crate) fn mix_hash(hash: u64) -> u64 {
    hash.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The time of a use, counted in uses of any object. Five bytes last for a trillion uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp([u8; 5]);

impl Stamp {
    pub(crate) fn at(uses: u64) -> Self {
        let [a, b, c, d, e, ..] = uses.to_le_bytes();
        Self([a, b, c, d, e])
    }

    /// Uses from this time to a later one.
    pub(crate) fn age(self, now: u64) -> u64 {
        let [a, b, c, d, e] = self.0;
        let at = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
        now.wrapping_sub(at) & (u64::MAX >> 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_counts_uses_and_keeps_the_rest() {
        for (last, first_index) in [(false, 0), (true, 4)] {
            let mut class = Class::new(0x1234_5678_9ABC_DEF0, 0, last);
            let rarity = class.rarity();
            for index in [0, 1, 2, 3, 3] {
                assert_eq!((class.index(), class.rarity()), (first_index + index, rarity));
                class = class.used();
            }
        }
        assert_eq!(Class::new(7, 200, false).uses(), MOST_USES);
    }

    #[test]
    fn half_of_the_keys_are_of_each_further_rarity() {
        let mut counts = [0u32; 8];
        for hash in 0..1u64 << 16 {
            let hash = hash.wrapping_mul(0xD134_2543_DE82_EF95);
            if let Some(count) = counts.get_mut(Class::new(hash, 0, false).rarity() as usize) {
                *count += 1;
            }
        }
        for (rarity, &count) in counts.iter().enumerate() {
            let expected = 1 << (15 - rarity);
            assert!(count.abs_diff(expected) < expected / 4 + 32, "{counts:?}");
        }
    }

    #[test]
    fn ages_are_right_across_the_end_of_the_count() {
        let last = (1u64 << 40) - 1;
        for (at, now, age) in [(0, 0, 0), (5, 12, 7), (last, last + 3, 3), (last - 1, last, 1)] {
            assert_eq!(Stamp::at(at).age(now), age, "{at} {now}");
        }
    }
}
