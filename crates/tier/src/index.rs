//! Where each record lies.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::layout::{BLOCK, blocks_of};
use crate::record::{Name, Record, data_offset};

pub(crate) type Index = HashMap<Name, Entry, RandomState>;

/// What is known of a record in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Number of its file.
    pub(crate) file: u64,
    pub(crate) block: u32,
    /// Length of its header, in bytes, without padding.
    pub(crate) header_len: u32,
    /// Length of its data, in bytes.
    pub(crate) len: u64,
    pub(crate) state: RecordState,
    /// It was read since it was written or moved.
    pub(crate) was_read: bool,
}

/// Who wants to drop a record waits until it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordState {
    /// It is being written for the first time, and is not there yet.
    Writing,
    /// It is there.
    Ready,
    /// It is there, and is being written to another file.
    Moving,
    /// It is evicted, and its file may still come back.
    Leaving,
}

impl Entry {
    /// Of a record that is there, and begins at a block of a file.
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
