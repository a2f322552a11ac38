//! The order in which tenants give way when there is no room.

use std::cmp::Reverse;

use smallvec::{SmallVec, smallvec};

use super::lane::{NO_LANE, account_of_lane};
use crate::Meta;

/// A share in millionths.
const WHOLE: u64 = 1_000_000;

/// How far a tenant is above its share: what it has, in millionths of what is guaranteed to it, then its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Excess(u64, u64);

/// Lanes of a segment.
pub(crate) type Lanes = SmallVec<[u32; 4]>;

impl Meta {
    /// The lanes of a segment from which eviction may take now. The tenant that is furthest above its share comes
    /// first. A tenant within its share is there only if the present step works for it.
    pub(crate) fn lanes_that_give_way(&self, slot: u32) -> Lanes {
        if !self.tenants.is_enforced() {
            return smallvec![NO_LANE];
        }
        let lanes = self.segments[slot].lanes();
        let ranked =
            lanes.filter(|&lane| self.gives_way(lane)).map(|lane| (self.excess(lane), lane));
        let mut ranked: SmallVec<[(Excess, u32); 4]> = ranked.collect();
        ranked.sort_unstable_by_key(|&(excess, lane)| (Reverse(excess), lane));
        ranked.into_iter().map(|(_, lane)| lane).collect()
    }

    /// Whether eviction may take from a lane now.
    pub(crate) fn gives_way(&self, lane: u32) -> bool {
        lane == NO_LANE || lane == self.effort.lane || self.excess(lane) > Excess(WHOLE, u64::MAX)
    }

    /// How far the tenant of a lane is above its share.
    pub(crate) fn excess(&self, lane: u32) -> Excess {
        let Some(account) = account_of_lane(lane) else { return Excess(u64::MAX, u64::MAX) };
        let account = &self.tenants.accounts[account];
        let Some(quota) = &account.quota else { return Excess(u64::MAX, account.bytes) };
        let guaranteed = self.tenants.guaranteed_bytes(quota, self.segments.memory_bytes());
        let part = quota.objects.map_or(0, |objects| part_of(account.objects, objects));
        Excess(part.max(part_of(account.bytes, guaranteed)), account.bytes)
    }
}

/// What is used, in millionths of what is guaranteed, rounded up.
fn part_of(used: u64, guaranteed: u64) -> u64 {
    let part = (u128::from(used) * u128::from(WHOLE)).div_ceil(u128::from(guaranteed.max(1)));
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_too_many_is_above_the_share() {
        for (used, guaranteed, expected) in [
            (0, 10, 0),
            (10, 10, WHOLE),
            (5, 10, WHOLE / 2),
            (1 << 60, 1 << 60, WHOLE),
            ((1 << 60) + 1, 1 << 60, WHOLE + 1),
            (1, 0, WHOLE),
            (u64::MAX, 1, u64::MAX),
        ] {
            assert_eq!(part_of(used, guaranteed), expected, "{used} of {guaranteed}");
        }
    }
}
