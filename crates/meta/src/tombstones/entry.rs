//! Entries that nodes may hold.

use mooncake_types::Version;

/// An entry of a segment: where it starts, and the version that lies there.
pub(crate) type EntryId = (u64, Version);

/// What is known of an entry beside its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tombstone {
    pub(super) len: u64,
    /// Of the key.
    pub(super) hash: u64,
    /// The newest grant when it got its tombstone: it was written under that one or an older one. Later grants may write the
    /// same version there again.
    pub(super) grant: Version,
}
