use std::sync::Arc;

use mooncake_types::{RangeWrite, Version};

/// What a segment's memory holds, or held, in one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Length of the range in bytes.
    pub len: u64,
    /// The object's key; empty if the entry is only what a newer one left of an older one's range.
    pub key: Box<str>,
    /// The version that began here. Older ones are refused for as long as this entry stands.
    pub version: Version,
    /// Length of the whole object in bytes.
    pub object_len: u64,
    /// Where this range's bytes lie in the object.
    pub object_offset: u64,
    /// How far the write came.
    pub state: EntryState,
    /// CRC32C of each chunk of the range, if the writer's transport computed them.
    pub checksums: Option<Arc<[u32]>>,
}

/// The life of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// A writer has begun; the bytes are its own to change.
    Writing,
    /// All bytes are in place.
    Complete,
    /// The writer gave up, or the range was partly given to another. The bytes mean nothing; the version still
    /// keeps older writers out.
    Abandoned,
}

impl Entry {
    pub(super) fn writing(range: &RangeWrite<'_>) -> Self {
        Self {
            len: range.len,
            key: range.key.into(),
            version: range.version,
            object_len: range.object_len,
            object_offset: range.object_offset,
            state: EntryState::Writing,
            checksums: None,
        }
    }

    /// What is left of an entry's range when a newer one took the rest: a fence against older writers.
    pub(super) fn fence(len: u64, version: Version) -> Self {
        Self {
            len,
            key: "".into(),
            version,
            object_len: 0,
            object_offset: 0,
            state: EntryState::Abandoned,
            checksums: None,
        }
    }

    /// Whether a write of the same version may begin again here: it is the same range, and its first writer is
    /// known to have stopped.
    pub(super) fn may_begin_again(&self, offset: u64, range: &RangeWrite<'_>) -> bool {
        self.state == EntryState::Abandoned
            && self.version == range.version
            && (offset, self.len, &*self.key) == (range.offset, range.len, range.key)
    }
}
