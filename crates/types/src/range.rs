use std::sync::Arc;

use crate::{SegmentId, Version};

/// A read of one ledger entry, or of a part of it, at a storage node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeRead {
    /// The segment that holds the entry.
    pub segment: SegmentId,
    /// Where the entry starts in its segment, in bytes.
    pub offset: u64,
    /// The version that must lie there, complete.
    pub version: Version,
    /// Where the entry's bytes lie in the object, in bytes; zero unless the object is striped. The node holds no other
    /// stripe of that version there.
    pub object_offset: u64,
    /// First byte wanted, counted from the start of the entry.
    pub from: u64,
    /// Bytes wanted.
    pub len: u64,
}

impl RangeRead {
    /// The question whether the entry is still there: the first byte that is wanted. No bytes at all cannot be asked for.
    #[must_use]
    pub const fn question(&self) -> RangeRead {
        RangeRead { len: 1, ..*self }
    }
}

/// A ledger entry that a storage node is to drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RangeDrop {
    /// The segment that holds the entry.
    pub segment: SegmentId,
    /// Where the entry starts in its segment, in bytes.
    pub offset: u64,
    /// The version to be dropped. Whatever else lies there stays.
    pub version: Version,
    /// It is dropped only if it was written under this grant or an older one: the same version may be copied to the same
    /// place again.
    pub grant: Version,
}

/// A [`RangeDrop`], and who is to carry it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discard {
    /// The node's data port, `host:port`.
    pub endpoint: Arc<str>,
    /// What to drop.
    pub range: RangeDrop,
}

/// A write of one ledger entry, or of a part of it, at a storage node. An entry is complete when every byte of it has
/// been written under the same grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeWrite<'a> {
    /// The segment that was granted.
    pub segment: SegmentId,
    /// Where the granted range starts in its segment, in bytes.
    pub offset: u64,
    /// Length of the granted range, in bytes.
    pub entry_len: u64,
    /// First byte written, counted from the start of the range.
    pub from: u64,
    /// Length of the payload, in bytes; `entry_len` unless the entry is written in parts.
    pub len: u64,
    /// The object's key.
    pub key: &'a str,
    /// The version of the object.
    pub version: Version,
    /// What orders the writers of a range: an older grant never overwrites what a newer one began. A put is its own
    /// grant, `version`; a further replica of an object is made under a newer one.
    pub grant: Version,
    /// Length of the whole object, in bytes.
    pub object_len: u64,
    /// Where this range's bytes lie in the object, in bytes; zero unless the object is striped.
    pub object_offset: u64,
    /// What the master gave with the grant, for the node to keep; see [`crate::Grant::attributes`].
    pub attributes: &'a [u8],
}
