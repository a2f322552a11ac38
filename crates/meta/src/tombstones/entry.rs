//! The identity and the record of a tombstone.

use mooncake_types::Version;

/// Identifies an entry on a segment: the offset where it begins, and its version.
pub(crate) type EntryId = (u64, Version);

/// The record of a tombstone, without its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tombstone {
    pub(super) len: u64,
    /// The hash of the key.
    pub(super) hash: u64,
    /// The newest grant when the tombstone was left. The entry was written under this grant or an older one. Later
    /// grants may write the same version there again.
    pub(super) grant: Version,
}
