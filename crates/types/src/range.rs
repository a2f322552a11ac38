use std::sync::Arc;

use crate::{Seal, SegmentId, Version};

/// A read of one ledger entry, or of a part of it, at a storage node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeRead {
    /// The segment that holds the entry.
    pub segment: SegmentId,
    /// Where the entry starts in its segment, in bytes.
    pub offset: u64,
    /// The version that the entry must hold, complete.
    pub version: Version,
    /// Where the entry's bytes begin in the object, in bytes; zero unless the object is striped. The node refuses the
    /// read if the entry holds another stripe.
    pub object_offset: u64,
    /// First byte wanted, counted from the start of the entry.
    pub from: u64,
    /// Bytes wanted.
    pub len: u64,
    /// The master's seal on reads of the entry.
    pub seal: Seal,
}

impl RangeRead {
    /// A read of one byte, the first one wanted, to ask whether the entry is still there. A read of no bytes is not
    /// possible.
    #[must_use]
    pub const fn question(&self) -> RangeRead {
        RangeRead { len: 1, ..*self }
    }
}

/// A ledger entry that a storage node must drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RangeDrop {
    /// The segment that holds the entry.
    pub segment: SegmentId,
    /// Where the entry starts in its segment, in bytes.
    pub offset: u64,
    /// The version to drop. An entry that was written under a newer grant stays.
    pub version: Version,
    /// The node drops the entry only if it was written under this grant or an older one. The same version may be
    /// copied to the same place again later, under a newer grant.
    pub grant: Version,
}

/// A [`RangeDrop`], and the node that must carry it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDrop {
    /// The node's data port, `host:port`.
    pub endpoint: Arc<str>,
    /// The entry to drop.
    pub range: RangeDrop,
    /// The master's seal on this drop.
    pub seal: Seal,
}

/// A write of one ledger entry, or of a part of it, at a storage node. An entry is complete once every byte of it has
/// been written under the same grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeWrite<'a> {
    /// The segment of the granted range.
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
    /// The grant, which orders the writers of a range: an older grant never overwrites a newer one. A put is its own
    /// grant, `version`; a further replica of an object is written under a newer grant.
    pub grant: Version,
    /// Length of the whole object, in bytes.
    pub object_len: u64,
    /// Where this range's bytes begin in the object, in bytes; zero unless the object is striped.
    pub object_offset: u64,
    /// The attributes that the master gave with the grant; the node keeps them. See [`crate::Grant::attributes`].
    pub attributes: &'a [u8],
    /// The master's seal on writes of the entry.
    pub seal: Seal,
}
