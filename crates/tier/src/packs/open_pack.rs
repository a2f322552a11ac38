use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_memory::SliceList;

use super::entry::Pack;
use crate::contents::Contents;
use crate::errors::PutError;
use crate::index::Entry;
use crate::layout::BLOCK;
use crate::record::{Name, Record, data_offset};

/// A pack that takes records, or is being stored.
pub(super) struct OpenPack {
    pub(super) id: u64,
    pub(super) nonce: u64,
    filling: Mutex<Filling>,
    /// It takes no more records, or it is stored.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct Filling {
    pub(super) draft: Draft,
    pub(super) is_closed: bool,
    pub(super) outcome: Option<Result<(), PutError>>,
}

/// What a pack is going to hold, and what is in it.
#[derive(Default)]
pub(super) struct Draft {
    /// The bytes of each record.
    parts: Vec<Vec<u8>>,
    pub(super) len: u64,
    contents: Contents,
    pub(super) records: Vec<(Name, Entry)>,
}

impl Draft {
    /// Adds a record behind the last one: `bytes` is [`copy_of`] it.
    pub(super) fn push(&mut self, (id, nonce): (u64, u64), record: &Record, mut bytes: Vec<u8>) {
        let block = self.len / BLOCK;
        let header = record.encode(nonce);
        bytes[..header.len()].copy_from_slice(&header);
        let entry = Entry::ready(id, block, record);
        self.len += bytes.len() as u64;
        self.parts.push(bytes);
        self.contents.push(block, record, nonce);
        self.records.push((record.name, entry));
    }

    /// The whole object, and what is known of the pack, all of whose records are live.
    pub(super) fn finish(&mut self, (id, nonce): (u64, u64)) -> (Vec<u8>, Pack) {
        let (len, table) = (self.len, self.contents.bytes());
        let mut bytes = Vec::with_capacity(len as usize + table.len());
        self.parts.drain(..).for_each(|part| bytes.extend(part));
        bytes.extend(table);
        let live = self.records.iter().map(|(_, entry)| entry.block).collect();
        (bytes, Pack { id, nonce, len, table_len: table.len() as u64, live })
    }
}

/// A record as it lies in a pack, in whole blocks, but for its header. That takes long, and is done without a lock.
pub(super) fn copy_of(record: &Record, data: &SliceList) -> Vec<u8> {
    let begin = data_offset(record.header_len()) as usize;
    let end = (begin + record.len as usize).next_multiple_of(BLOCK as usize);
    let mut bytes = Vec::with_capacity(end);
    bytes.resize(begin, 0);
    data.slices().iter().for_each(|slice| slice.append_to(&mut bytes));
    bytes.resize(end, 0);
    bytes
}

impl OpenPack {
    /// With this number, whose headers have this in their checksums.
    pub(super) fn new((id, nonce): (u64, u64)) -> Self {
        Self { id, nonce, filling: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It takes no more records.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}
