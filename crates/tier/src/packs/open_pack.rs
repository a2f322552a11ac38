use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_memory::SliceList;

use super::entry::Pack;
use crate::contents::Contents;
use crate::errors::PutError;
use crate::index::IndexEntry;
use crate::layout::BLOCK;
use crate::record::{Record, RecordId, data_offset};

/// A pack that is taking records or being stored.
pub(super) struct OpenPack {
    pub(super) id: u64,
    pub(super) nonce: u64,
    filling: Mutex<Filling>,
    /// Signalled when the pack is closed, and when it was stored.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct Filling {
    pub(super) draft: Draft,
    pub(super) is_closed: bool,
    pub(super) outcome: Option<Result<(), PutError>>,
}

/// The contents of a future pack.
#[derive(Default)]
pub(super) struct Draft {
    /// The encoded bytes of each record.
    parts: Vec<Vec<u8>>,
    pub(super) len: u64,
    contents: Contents,
    pub(super) records: Vec<(RecordId, IndexEntry)>,
}

impl Draft {
    /// Adds a record behind the last one. `bytes` must come from [`copy_of`].
    pub(super) fn push(&mut self, (id, nonce): (u64, u64), record: &Record, mut bytes: Vec<u8>) {
        let block = self.len / BLOCK;
        let header = record.encode(nonce);
        bytes[..header.len()].copy_from_slice(&header);
        let entry = IndexEntry::ready(id, block, record);
        self.len += bytes.len() as u64;
        self.parts.push(bytes);
        self.contents.push(block, record, nonce);
        self.records.push((record.name, entry));
    }

    /// The bytes of the whole object, and the description of the pack. All its records are live.
    pub(super) fn finish(&mut self, (id, nonce): (u64, u64)) -> (Vec<u8>, Pack) {
        let (len, table) = (self.len, self.contents.bytes());
        let mut bytes = Vec::with_capacity(len as usize + table.len());
        self.parts.drain(..).for_each(|part| bytes.extend(part));
        bytes.extend(table);
        let live = self.records.iter().map(|(_, entry)| entry.block).collect();
        (bytes, Pack { id, nonce, len, table_len: table.len() as u64, live })
    }
}

/// Copies a record to whole blocks and leaves room for its header. Copying takes long, so the caller holds no lock.
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
    /// An open pack with this id and nonce.
    pub(super) fn new((id, nonce): (u64, u64)) -> Self {
        Self { id, nonce, filling: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the pack: it takes no more records.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}
