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
    /// First byte wanted, counted from the start of the entry.
    pub from: u64,
    /// Bytes wanted.
    pub len: u64,
}

/// A write of one whole ledger entry at a storage node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeWrite<'a> {
    /// The segment that was granted.
    pub segment: SegmentId,
    /// Where the granted range starts in its segment, in bytes.
    pub offset: u64,
    /// Length of the granted range and of the payload, in bytes.
    pub len: u64,
    /// The object's key.
    pub key: &'a str,
    /// The version of the put.
    pub version: Version,
    /// Length of the whole object, in bytes.
    pub object_len: u64,
    /// Where this range's bytes lie in the object, in bytes; zero unless the object is striped.
    pub object_offset: u64,
}
