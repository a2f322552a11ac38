//! The index: the location of each record.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::layout::{BLOCK, blocks_of};
use crate::record::{Record, RecordId, data_offset};

pub(crate) type Index = HashMap<RecordId, IndexEntry, RandomState>;

/// What memory keeps of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexEntry {
    /// Number of the file that holds the record.
    pub(crate) file: u64,
    pub(crate) block: u32,
    /// Length of the record's header, in bytes, without padding.
    pub(crate) header_len: u32,
    /// Length of the record's data, in bytes.
    pub(crate) len: u64,
    pub(crate) state: RecordState,
    /// Whether the record was read since it was written or moved.
    pub(crate) was_read: bool,
}

/// A thread that wants to drop a record waits until it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordState {
    /// The record is being written for the first time, and cannot be read yet.
    Writing,
    /// The record can be read.
    Ready,
    /// The record can be read, and is being copied to another place.
    Moving,
    /// The record is evicted or being dropped, and cannot be read. It may still return after a restart.
    Unreadable,
}

impl IndexEntry {
    /// The entry of a readable record that begins at `block` of `file`.
    pub(crate) fn ready(file: u64, block: u64, record: &Record) -> Self {
        Self {
            file,
            block: block as u32,
            header_len: record.header_len() as u32,
            len: record.len,
            state: RecordState::Ready,
            was_read: false,
        }
    }

    /// Bytes that the record takes in its file.
    pub(crate) fn bytes(&self) -> u64 {
        data_offset(self.header_len as usize) + blocks_of(self.len) * BLOCK
    }

    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.state, RecordState::Ready | RecordState::Moving)
    }
}
