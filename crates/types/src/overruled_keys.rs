//! The keys that the membership record overrules.

use std::collections::BTreeMap;

use crate::{OverruledKey, Version, limits};

/// Bits of an [`OverruledFilter`], a power of two.
const FILTER_BITS: u32 = 1 << 19;

/// Overruled keys, by their hashes. Some are kept one by one, all further ones in a filter: it also has hashes that were
/// never added, so a few entries more count as gone, and none less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverruledKeys {
    single: BTreeMap<u64, OverruledKey>,
    most_single: usize,
    filter: Option<OverruledFilter>,
}

impl Default for OverruledKeys {
    fn default() -> Self {
        Self::with_most_single(limits::MAX_OVERRULED_KEYS)
    }
}

/// One bit for all hashes with the same high bits, and one statement about all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverruledFilter {
    bits: Vec<u8>,
    set: usize,
    key: OverruledKey,
}

impl OverruledKeys {
    /// Keys that were kept one by one, and a filter.
    #[must_use]
    pub fn new(single: BTreeMap<u64, OverruledKey>, filter: Option<OverruledFilter>) -> Self {
        Self { single, filter, ..Self::default() }
    }

    /// No keys yet, and fewer of them one by one than a record keeps: for tests.
    #[must_use]
    pub const fn with_most_single(most_single: usize) -> Self {
        Self { single: BTreeMap::new(), most_single, filter: None }
    }

    /// Adds what is known about the key with this hash.
    pub fn add(&mut self, hash: u64, key: OverruledKey) {
        let is_single = self.single.len() < self.most_single && self.filter.is_none();
        if is_single || self.single.contains_key(&hash) {
            return self.single.entry(hash).or_default().add(key);
        }
        self.filter.get_or_insert_default().add(hash, key);
    }

    /// Whether a version of a key is gone on a segment that is behind since `since`.
    #[must_use]
    pub fn covers(&self, hash: u64, version: Version, since: Version) -> bool {
        let single = self.single.get(&hash).is_some_and(|key| key.covers(version, since));
        single || self.is_filtered(hash, version, since)
    }

    /// As [`Self::covers`], as far as the filter says so.
    #[must_use]
    pub fn is_filtered(&self, hash: u64, version: Version, since: Version) -> bool {
        self.filter.as_ref().is_some_and(|it| it.covers(hash, version, since))
    }

    /// About how many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.single.len() + self.filter.as_ref().map_or(0, |filter| filter.set)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.single.is_empty() && self.filter.is_none()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        *self = Self::with_most_single(self.most_single);
    }

    /// The keys that are kept one by one.
    #[must_use]
    pub const fn single(&self) -> &BTreeMap<u64, OverruledKey> {
        &self.single
    }

    /// What has all further keys.
    #[must_use]
    pub const fn filter(&self) -> Option<&OverruledFilter> {
        self.filter.as_ref()
    }
}

impl Default for OverruledFilter {
    fn default() -> Self {
        let bits = vec![0; Self::BYTES];
        Self { bits, set: 0, key: OverruledKey::default() }
    }
}

impl OverruledFilter {
    /// Length of its bits in bytes.
    pub const BYTES: usize = FILTER_BITS as usize / 8;

    /// A filter with these bits and this statement about all its hashes. `None` if the length is wrong.
    #[must_use]
    pub fn new(bits: Vec<u8>, key: OverruledKey) -> Option<Self> {
        let set = bits.iter().map(|byte| byte.count_ones() as usize).sum();
        (bits.len() == Self::BYTES).then_some(Self { bits, set, key })
    }

    /// Its bits.
    #[must_use]
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// What it says about all its hashes.
    #[must_use]
    pub const fn key(&self) -> OverruledKey {
        self.key
    }

    fn add(&mut self, hash: u64, key: OverruledKey) {
        let (byte, mask) = place(hash);
        self.set += usize::from(self.bits[byte] & mask == 0);
        self.bits[byte] |= mask;
        self.key.add(key);
    }

    fn covers(&self, hash: u64, version: Version, since: Version) -> bool {
        let (byte, mask) = place(hash);
        self.bits[byte] & mask != 0 && self.key.covers(version, since)
    }
}

/// The byte of a hash, and its bit there.
fn place(hash: u64) -> (usize, u8) {
    let bit = (hash >> (u64::BITS - FILTER_BITS.ilog2())) as usize;
    (bit / 8, 1 << (bit % 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chance, Epoch};

    const SINCE: Version = Version { epoch: Epoch(3), counter: 5 };

    fn version(counter: u64) -> Version {
        Version { epoch: Epoch(3), counter }
    }

    fn key(until: u64) -> OverruledKey {
        OverruledKey { until: version(until), at: version(until.max(5)) }
    }

    #[test]
    fn no_added_key_is_forgotten_and_few_others_are_taken_for_one() {
        let mut chance = Chance::new(0x0f11_7e12);
        let mut hashes =
            |count: usize| -> Vec<u64> { (0..count).map(|_| chance.below(u64::MAX)).collect() };
        for (count, most_wrong) in [(limits::MAX_OVERRULED_KEYS, 0), (10_000, 400), (50_000, 1_300)]
        {
            let (added, others) = (hashes(count), hashes(10_000));
            let mut keys = OverruledKeys::default();
            added.iter().for_each(|&hash| keys.add(hash, key(9)));
            assert!(added.iter().all(|&hash| keys.covers(hash, version(9), SINCE)));
            assert!(!added.iter().any(|&hash| keys.covers(hash, version(10), SINCE)));
            let wrong = others.iter().filter(|&&hash| keys.covers(hash, version(9), SINCE)).count();
            assert!(wrong <= most_wrong, "{wrong} of 10,000 beside {count} keys");
        }
    }

    #[test]
    fn what_is_known_about_a_key_grows_wherever_it_is_kept() {
        let mut keys = OverruledKeys::default();
        let most = limits::MAX_OVERRULED_KEYS as u64;
        let hash = |number: u64| number << 44;
        (0..=most).for_each(|number| keys.add(hash(number), key(9)));
        assert_eq!((keys.single().len() as u64, keys.len() as u64), (most, most + 1));
        for number in [0, most] {
            keys.add(hash(number), key(20));
            assert!(keys.covers(hash(number), version(20), SINCE), "{number}");
        }
        assert!(!keys.covers(hash(1), version(20), SINCE));
        let filter = keys.filter().expect("it has the last").clone();
        let again = OverruledFilter::new(filter.bits().to_vec(), filter.key());
        assert_eq!(OverruledKeys::new(keys.single().clone(), again), keys);
        assert_eq!(OverruledFilter::new(vec![0; 7], key(1)), None);
    }
}
