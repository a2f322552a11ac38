//! Leased tombstones: versions that were removed or replaced while readers could have routes to them.
//!
//! Their ranges stay reserved until the nodes have dropped them or the lease is over. The leader may name a newer
//! version of the key before that, but readers must first have the older ones dropped. The newer version takes their
//! place at the moment when the last replica of the older ones is dropped.
//!
//! So a leased tombstone keeps the whole record of its object:
//!
//! - look-ups name its replicas with their placements;
//! - the inventory of a restarted node may name its entries;
//! - a new leader may find further replicas of it.
//!
//! An ordinary tombstone has only a place, a version and the hash of a key, which is too little for these three. When
//! the lease is over or all replicas are dropped, the record goes. Entries that nodes may still hold become ordinary
//! [tombstones](super).

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
    /// Tombstones of an older grant count as left under this grant.
    named_from: Version,
}

impl Leased {
    pub(crate) fn len(&self) -> usize {
        self.by_version.len()
    }

    /// The object of a version that is a leased tombstone.
    pub(crate) fn of_version(&self, version: Version) -> Option<u32> {
        Some(self.by_version.get(&version)?.0)
    }

    /// The oldest version that is a leased tombstone.
    pub(crate) fn oldest(&self) -> Option<Version> {
        self.by_version.first_key_value().map(|(&version, _)| version)
    }

    /// From now on all leased tombstones count as left under this grant.
    pub(super) fn name_again(&mut self, grant: Version) {
        self.named_from = grant;
    }

    /// The newest grant under which the entries of a version can have been written.
    pub(super) fn since(&self, version: Version) -> Option<Version> {
        Some(self.by_version.get(&version)?.1.max(self.named_from))
    }

    /// The leased tombstones of a key, oldest version first.
    pub(crate) fn of_key(&self, key: &str) -> &[u32] {
        if self.by_version.is_empty() {
            return &[];
        }
        self.by_key.get(key)
    }
}
