//! Leased tombstones: versions that were removed or replaced while readers could have routes to them.
//!
//! Their ranges stay reserved until the nodes have dropped them or the lease is over. A newer version of the key may be
//! named before that, but readers must find the older ones dropped first: the moment when the last of their replicas is
//! dropped is the moment at which the newer version takes their place.
//!
//! So a leased tombstone keeps the whole record of its object. Look-ups name its replicas with their placements, a node that
//! was started again tells of them, and a new leader finds further ones. An entry of the other tables knows a place, a
//! version and the hash of a key: not enough for these three. When the lease is over, or all is dropped, the record goes, and
//! what nodes may still hold of it becomes [entries](super) like any other.

use std::collections::BTreeMap;

use mooncake_types::Version;

use crate::objects::ByKey;

/// Most leased tombstones of one key.
pub(crate) const MOST_LEASED: usize = 8;

/// All leased tombstones.
#[derive(Debug, Default)]
pub(crate) struct Leased {
    /// The object of each version, and the newest grant when the version became a leased tombstone.
    pub(super) by_version: BTreeMap<Version, (u32, Version)>,
    pub(super) by_key: ByKey,
    /// Versions that became leased tombstones under an older grant count as if they had under this one.
    named_from: Version,
}

impl Leased {
    pub(crate) fn len(&self) -> usize {
        self.by_version.len()
    }

    /// The object of a version, if that is one.
    pub(crate) fn of_version(&self, version: Version) -> Option<u32> {
        Some(self.by_version.get(&version)?.0)
    }

    /// The oldest version.
    pub(crate) fn oldest(&self) -> Option<Version> {
        self.by_version.first_key_value().map(|(&version, _)| version)
    }

    /// From here on all leased tombstones count as left under this grant.
    pub(super) fn name_again(&mut self, grant: Version) {
        self.named_from = grant;
    }

    /// The newest grant under which a version's entries can have been written.
    pub(super) fn since(&self, version: Version) -> Option<Version> {
        Some(self.by_version.get(&version)?.1.max(self.named_from))
    }

    /// Those of a key, oldest version first.
    pub(crate) fn of_key(&self, key: &str) -> &[u32] {
        if self.by_version.is_empty() {
            return &[];
        }
        self.by_key.get(key)
    }
}
