//! Gathers the entries that nodes must drop for one request.

use std::collections::BTreeSet;
use std::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::{ErrorCode, RemainingRange, Remains, Reply, Seal, Tick, Version};

use crate::segments::{AddressTable, Segments};

/// The entries that nodes must drop for one request.
#[derive(Debug, Default)]
pub(crate) struct DropList {
    ranges: Vec<RemainingRange>,
    /// The leased tombstones that are gathered already. A request may name a key many times.
    leased: BTreeSet<Version>,
    /// The version below which all tombstones of a key are gathered, by the hash of the key.
    below: HashMap<u64, Version, FixedState>,
    table: AddressTable,
    /// The end of the last lease on any of these entries.
    pub(super) until: Tick,
}

impl DropList {
    /// Bytes that the ranges take in a reply.
    pub(crate) fn len_bytes(&self) -> usize {
        size_of_val(&*self.ranges)
    }

    /// Names an entry, which was written under this grant or an older one.
    pub(super) fn add(
        &mut self,
        segments: &Segments,
        slot: u32,
        (offset, version): (u64, Version),
        grant: Version,
    ) {
        let segment = self.table.position(segments, slot);
        let seal = Seal::NONE;
        self.ranges.push(RemainingRange { segment, offset, version, grant, seal });
    }

    /// Whether a leased tombstone is not named yet. Counts it as named from now on.
    pub(super) fn is_unnamed(&mut self, leased: Version) -> bool {
        self.leased.insert(leased)
    }

    /// The versions below `below` of a key with this hash that are not named yet. Counts them as named from now on.
    /// `None` if all are named.
    pub(super) fn unnamed_below(&mut self, hash: u64, below: Version) -> Option<Range<Version>> {
        let named_below = self.below.entry(hash).or_default();
        let unnamed = *named_below..below;
        *named_below = below.max(*named_below);
        (!unnamed.is_empty()).then_some(unnamed)
    }

    /// Names the tombstones of a key with this hash again: it may have got new ones.
    pub(crate) fn name_again(&mut self, hash: u64) {
        self.below.remove(&hash);
    }

    pub(crate) fn into_remains(mut self, now: Tick) -> Remains {
        self.ranges.sort_unstable_by_key(|range| (range.version, range.segment, range.offset));
        self.ranges.dedup();
        let (ranges, segments) = (self.ranges, self.table.into_addresses());
        Remains { ranges, segments, lease_ms: self.until.since_ms(now) }
    }

    /// The reply to a request with these results.
    pub(crate) fn into_reply(self, now: Tick, results: Vec<Result<(), ErrorCode>>) -> Reply {
        match self.ranges.is_empty() {
            true => Reply::Statuses(results),
            false => Reply::Remaining { results, remains: self.into_remains(now) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooncake_types::Epoch;

    #[test]
    fn a_key_that_a_request_names_many_times_is_looked_through_once() {
        let version = |counter| Version { epoch: Epoch(1), counter };
        let mut gathered = DropList::default();
        let mut unnamed = |hash, below| gathered.unnamed_below(hash, version(below));
        assert_eq!(unnamed(7, 5), Some(Version::default()..version(5)));
        assert_eq!((unnamed(7, 5), unnamed(7, 4)), (None, None));
        assert_eq!(unnamed(7, 9), Some(version(5)..version(9)));
        assert_eq!(unnamed(8, 9), Some(Version::default()..version(9)));
        gathered.name_again(7);
        assert_eq!(gathered.unnamed_below(7, version(9)), Some(Version::default()..version(9)));
    }
}
