//! Overruled keys: keys that changed under this leader while segments could report older versions of them.
//!
//! The first keys are remembered exactly. Further ones go into a Bloom filter of a fixed length. It may take a key that
//! did not change for one that did: a node then drops an entry that it could have kept, but no member is given up for
//! the number of changes.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::Version;

/// Most keys that are remembered exactly, at 33 bytes each.
const MOST_EXACT: usize = 1_000_000;

/// Length of the filter, in bits: 32 MiB. It takes one unchanged key in 1,000 for a changed one after 15 million
/// changes, and one in three after 100 million.
const FILTER_BITS: u64 = 1 << 28;

/// Bits of the filter that a key sets.
const BITS_OF_KEY: u32 = 4;

/// The keys that changed, by the hashes of the keys.
#[derive(Debug)]
pub(super) struct Overruled {
    /// The version below which the leader believes no report of a key.
    exact: HashMap<u64, Version, FixedState>,
    most_exact: usize,
    filter: Option<Filter>,
}

impl Default for Overruled {
    fn default() -> Self {
        Self::with_most_exact(MOST_EXACT)
    }
}

impl Overruled {
    fn with_most_exact(most_exact: usize) -> Self {
        Self { exact: HashMap::default(), most_exact, filter: None }
    }

    /// From now on the leader believes no report of a key below this version.
    pub(super) fn note(&mut self, hash: u64, version: Version) {
        if let Some(below) = self.exact.get_mut(&hash) {
            *below = version.max(*below);
        } else if self.exact.len() < self.most_exact {
            self.exact.insert(hash, version);
        } else {
            self.filter.get_or_insert_with(Filter::new).note(hash, version);
        }
    }

    /// Whether the leader believes no report of this version of a key.
    pub(super) fn covers(&self, hash: u64, version: Version) -> bool {
        let below = self.exact.get(&hash);
        below.is_some_and(|&below| version < below)
            || self.filter.as_ref().is_some_and(|filter| filter.covers(hash, version))
    }

    pub(super) fn clear(&mut self) {
        *self = Self::with_most_exact(self.most_exact);
    }
}

/// A Bloom filter of hashes, and the highest version that came with any of them.
#[derive(Debug)]
struct Filter {
    words: Vec<u64>,
    below: Version,
}

impl Filter {
    fn new() -> Self {
        Self { words: vec![0; (FILTER_BITS / 64) as usize], below: Version::default() }
    }

    /// The bits of a key: steps of one odd length from one start, both taken from the mixed hash.
    fn bits(hash: u64) -> impl Iterator<Item = u64> {
        let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let step = (mixed >> 32) | 1;
        (0..u64::from(BITS_OF_KEY))
            .map(move |number| mixed.wrapping_add(number.wrapping_mul(step)) % FILTER_BITS)
    }

    fn note(&mut self, hash: u64, version: Version) {
        self.below = version.max(self.below);
        for bit in Self::bits(hash) {
            self.words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    fn covers(&self, hash: u64, version: Version) -> bool {
        let is_set = |bit: u64| self.words[(bit / 64) as usize] & 1 << (bit % 64) != 0;
        version < self.below && Self::bits(hash).all(is_set)
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::{Chance, Epoch};

    use super::*;

    fn version(counter: u64) -> Version {
        Version { epoch: Epoch(7), counter }
    }

    #[test]
    fn a_change_overrules_older_versions_of_its_key_alone() {
        let mut overruled = Overruled::default();
        overruled.note(1, version(5));
        overruled.note(1, version(3));
        let covered =
            [(1, 4), (1, 5), (2, 4)].map(|(hash, at)| overruled.covers(hash, version(at)));
        assert_eq!(covered, [true, false, false]);
        overruled.clear();
        assert!(!overruled.covers(1, version(4)));
    }

    #[test]
    fn every_change_past_the_exact_ones_is_remembered_and_few_other_keys_are_taken_for_changed() {
        let mut overruled = Overruled::with_most_exact(10);
        let mut chance = Chance::new(3);
        let changed: Vec<u64> = (0..100_000).map(|_| chance.bits()).collect();
        for &hash in &changed {
            overruled.note(hash, version(9));
        }
        assert_eq!(overruled.exact.len(), 10);
        assert!(changed.iter().all(|&hash| overruled.covers(hash, version(8))));
        assert!(!changed.iter().any(|&hash| overruled.covers(hash, version(9))));
        let wrong = (0..100_000).filter(|_| overruled.covers(chance.bits(), version(8))).count();
        assert!(wrong < 10, "{wrong} of 100,000");
    }
}
