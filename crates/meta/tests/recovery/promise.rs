//! What clients were promised, key by key.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::Version;

#[derive(Debug, Default)]
struct Key {
    /// The highest version whose put was acknowledged.
    put: Version,
    /// The highest version that an acknowledged removal took.
    removed: Version,
    /// The highest version that was read.
    read: Version,
}

#[derive(Debug, Default)]
pub(crate) struct Promises {
    keys: BTreeMap<String, Key>,
    /// Versions whose puts were acknowledged. Other puts may take effect at any time, or never.
    acknowledged: BTreeSet<Version>,
}

impl Promises {
    /// A put was acknowledged. If another put of the key ran at the same time and was acknowledged first, either may
    /// be the later one.
    pub(crate) fn put(&mut self, key: &str, version: Version) {
        let promise = self.keys.entry(key.to_owned()).or_default();
        if version > promise.put && version > promise.removed {
            promise.put = version;
            self.acknowledged.insert(version);
        }
    }

    pub(crate) fn removed(&mut self, key: &str, version: Version) {
        let promise = self.keys.entry(key.to_owned()).or_default();
        promise.removed = promise.removed.max(version);
    }

    /// A client has read this version.
    pub(crate) fn read(&mut self, key: &str, version: Version, how: &str) {
        let promise = self.keys.entry(key.to_owned()).or_default();
        let is_old = version < promise.put || version < promise.read || version <= promise.removed;
        let is_stale = is_old && self.acknowledged.contains(&version);
        assert!(!is_stale, "{version} of {key} was read {how}, but {promise:?}");
        promise.read = promise.read.max(version);
    }
}
