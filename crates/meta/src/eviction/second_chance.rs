//! Policies that leave an object in its place when it is used, and look at its uses only when it would be evicted
//! next.
//!
//! Each segment then has two queues, one for each [`Side`], in the order in which ranges joined them. It also has a
//! hand, which looks at the oldest range of one of them. That range is evicted, or gets another chance at the end of
//! a queue. A leased range always gets one.

use std::fmt::Debug;

use crate::objects::Side;

/// See the [module](self). Every decision takes the same time, however many objects there are.
pub(crate) trait SecondChance: Debug + Sync {
    /// The side that a new object joins. `hand` is the side of the segment's hand. `is_back` says whether the object
    /// was evicted recently.
    fn side_of_new(&self, is_back: bool, hand: Side) -> Side;

    /// The side whose oldest range the hand looks at next. `ranges` has the ranges on each side, `before` is the side
    /// until now.
    fn hand(&self, ranges: [u32; 2], before: Side) -> Side;

    /// The side that the oldest range of a side joins, and how many uses count there; none: it is evicted.
    fn chance(&self, side: Side, uses: u8, is_leased: bool) -> Option<(Side, u8)>;

    /// Whether the uses of an object that is evicted from this side are remembered.
    fn remembers(&self, side: Side) -> bool;
}

/// S3-FIFO: new objects pass a small queue. Only objects that are used twice there, or come back after an eviction,
/// get to the main queue. A range that was used in the main queue goes to its end again.
#[derive(Debug)]
pub(super) struct S3Fifo;

const SMALL: Side = Side::First;
const MAIN: Side = Side::Second;
/// The small queue has one range in this many.
const SMALL_PART: u64 = 10;
/// Uses in the small queue that lead to the main queue.
const ENOUGH_USES: u8 = 2;

impl SecondChance for S3Fifo {
    fn side_of_new(&self, is_back: bool, _: Side) -> Side {
        if is_back { MAIN } else { SMALL }
    }

    fn hand(&self, [small, main]: [u32; 2], _: Side) -> Side {
        let (small, main) = (u64::from(small), u64::from(main));
        let is_small_full = small * SMALL_PART >= small + main;
        if is_small_full || main == 0 { SMALL } else { MAIN }
    }

    fn chance(&self, side: Side, uses: u8, is_leased: bool) -> Option<(Side, u8)> {
        match side {
            SMALL if uses >= ENOUGH_USES || is_leased => Some((MAIN, 0)),
            MAIN if uses > 0 || is_leased => Some((MAIN, uses.saturating_sub(1))),
            _ => None,
        }
    }

    fn remembers(&self, side: Side) -> bool {
        side == SMALL
    }
}

/// SIEVE: one queue, along which a hand moves from the oldest range to the newest. It evicts ranges that were not
/// used since it passed them last. Ranges ahead of the hand are on its side, as are new ones. Ranges that it has
/// passed are on the other side.
#[derive(Debug)]
pub(super) struct Sieve;

impl SecondChance for Sieve {
    fn side_of_new(&self, _: bool, hand: Side) -> Side {
        hand
    }

    fn hand(&self, ranges: [u32; 2], before: Side) -> Side {
        let left = ranges[if before == Side::First { 0 } else { 1 }];
        if left == 0 { before.other() } else { before }
    }

    fn chance(&self, side: Side, uses: u8, is_leased: bool) -> Option<(Side, u8)> {
        (uses > 0 || is_leased).then_some((side.other(), 0))
    }

    fn remembers(&self, _: Side) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s3_fifo_keeps_a_tenth_for_the_new() {
        for (ranges, hand) in [
            ([0, 0], SMALL),
            ([9, 91], MAIN),
            ([10, 90], SMALL),
            ([5, 0], SMALL),
            ([0, 5], MAIN),
            ([u32::MAX, u32::MAX], SMALL),
        ] {
            assert_eq!(S3Fifo.hand(ranges, MAIN), hand, "{ranges:?}");
        }
    }

    #[test]
    fn who_gets_another_chance() {
        for (side, uses, is_leased, s3_fifo, sieve) in [
            (SMALL, 0, false, None, None),
            (SMALL, 1, false, None, Some((MAIN, 0))),
            (SMALL, 2, false, Some((MAIN, 0)), Some((MAIN, 0))),
            (SMALL, 0, true, Some((MAIN, 0)), Some((MAIN, 0))),
            (MAIN, 0, false, None, None),
            (MAIN, 3, false, Some((MAIN, 2)), Some((SMALL, 0))),
            (MAIN, 0, true, Some((MAIN, 0)), Some((SMALL, 0))),
        ] {
            let found = (S3Fifo.chance(side, uses, is_leased), Sieve.chance(side, uses, is_leased));
            assert_eq!(found, (s3_fifo, sieve), "{side:?} {uses} {is_leased}");
        }
    }
}
