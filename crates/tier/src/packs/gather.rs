//! Putting: records gather in a pack, which one of their callers stores for all.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mooncake_memory::SliceList;

use super::entry::{Change, Pack};
use super::{PACKS, PackState, Shared, is_in_the_making, name_of};
use crate::contents::Contents;
use crate::disk::nonce;
use crate::errors::{Broken, PutError};
use crate::index::{Entry, RecordState};
use crate::layout::BLOCK;
use crate::record::{Name, Record, data_offset};

/// A pack that takes records, or is being stored.
pub(super) struct OpenPack {
    pub(super) id: u64,
    nonce: u64,
    filling: Mutex<Filling>,
    /// It takes no more records, or it is stored.
    changed: Condvar,
}

#[derive(Default)]
struct Filling {
    pub(super) draft: Draft,
    is_closed: bool,
    outcome: Option<Result<(), PutError>>,
}

/// What a pack is going to hold, and what is in it.
#[derive(Default)]
pub(super) struct Draft {
    /// The bytes of each record.
    parts: Vec<Vec<u8>>,
    len: u64,
    contents: Contents,
    pub(super) records: Vec<(Name, Entry)>,
}

impl Draft {
    /// Adds a record behind the last one: `bytes` is [`copy_of`] it.
    pub(super) fn push(&mut self, (id, nonce): (u64, u64), record: &Record, mut bytes: Vec<u8>) {
        let block = self.len / BLOCK;
        let header = record.encode(nonce);
        bytes[..header.len()].copy_from_slice(&header);
        let entry = Entry {
            file: id,
            block: block as u32,
            header_len: header.len() as u32,
            len: record.len,
            state: RecordState::Ready,
            was_read: false,
        };
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
    fn lock(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

impl Shared {
    /// Puts a sound record.
    pub(super) fn put(&self, record: &Record, data: &SliceList) -> Result<(), PutError> {
        let bytes = copy_of(record, data);
        let mut state = self.lock();
        loop {
            self.check()?;
            match state.index.get(&record.name) {
                None => break,
                Some(entry) if entry.state == RecordState::Ready => return Ok(()),
                Some(entry) if is_in_the_making(entry) => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                // It was dropped, or its put failed; nobody knows what of that lasts.
                Some(_) => {
                    drop(state);
                    let dropped = self.drop_records(&[record.name]);
                    dropped.map_err(|Broken(reason)| match self.journal.broken() {
                        Some(broken) => PutError::Broken(broken),
                        None => PutError::Unreachable(reason),
                    })?;
                    state = self.lock();
                }
            }
        }
        let len = bytes.len() as u64;
        let is_full =
            |pack: &mut Arc<OpenPack>| pack.lock().draft.len + len > self.config.pack_bytes;
        if let Some(full) = state.open.take_if(is_full) {
            full.close();
        }
        let is_first = state.open.is_none();
        if is_first {
            let (id, nonce) = self.new_pack(&mut state);
            let (filling, changed) = (Mutex::default(), Condvar::new());
            state.open = Some(Arc::new(OpenPack { id, nonce, filling, changed }));
        }
        let pack = Arc::clone(state.open.as_ref().expect("one was made just now"));
        let mut filling = pack.lock();
        filling.draft.push((pack.id, pack.nonce), record, bytes);
        let (_, entry) = filling.draft.records.last().expect("it was added just now");
        let writing = Entry { state: RecordState::Writing, ..*entry };
        let is_full = filling.draft.len >= self.config.pack_bytes;
        drop(filling);
        state.index.insert(record.name, writing);
        if is_full {
            state.open = None;
            pack.close();
        }
        drop(state);
        if is_first { self.store_gathered(&pack) } else { wait_for(&pack) }
    }

    /// The number of a new pack, and what goes into the checksums of its headers.
    pub(super) fn new_pack(&self, state: &mut super::State) -> (u64, u64) {
        let id = state.next_pack;
        state.next_pack += 1;
        (id, nonce(self.config.seed, id))
    }

    /// Waits until a pack is full, or time is up, and stores it.
    fn store_gathered(&self, pack: &Arc<OpenPack>) -> Result<(), PutError> {
        let until = Instant::now() + self.config.gather;
        let mut filling = pack.lock();
        while !filling.is_closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = pack.changed.wait_timeout(filling, left);
            filling = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(filling);
        self.lock().open.take_if(|open| open.id == pack.id);
        let mut draft = std::mem::take(&mut pack.lock().draft);
        let outcome = self.store(pack, &mut draft);
        let mut filling = pack.lock();
        filling.outcome = Some(outcome.clone());
        pack.changed.notify_all();
        outcome
    }

    fn store(&self, pack: &OpenPack, draft: &mut Draft) -> Result<(), PutError> {
        let (bytes, described) = draft.finish((pack.id, pack.nonce));
        if let Err(error) = self.bucket.put(&name_of(PACKS, pack.id), bytes) {
            // No change names the pack, so what is stored of it is no record.
            let mut state = self.lock();
            draft.records.iter().for_each(|(name, _)| _ = state.index.remove(name));
            state.dead.push(pack.id);
            self.changed.notify_all();
            return Err(PutError::Unreachable(error.to_string().into()));
        }
        let named = self.journal.append(vec![Change::Packed(Arc::new(described.clone()))]);
        let mut state = self.lock();
        // If that failed, nobody knows whether the records are there: they are to be dropped.
        let is_lasting = named.is_ok();
        let next = if is_lasting { RecordState::Ready } else { RecordState::Leaving };
        for (name, entry) in &draft.records {
            state.index.insert(*name, Entry { state: next, ..*entry });
        }
        state.packs.insert(pack.id, PackState::new(&described, &draft.records));
        self.changed.notify_all();
        Ok(named?)
    }
}

impl PackState {
    /// Of a pack all of whose records are known.
    pub(super) fn new(pack: &Pack, records: &[(Name, Entry)]) -> PackState {
        let live = records.iter().map(|(name, entry)| (entry.block, *name)).collect();
        let live_bytes = records.iter().map(|(_, entry)| entry.bytes()).sum();
        let Pack { nonce, len, table_len, .. } = *pack;
        PackState { nonce, len, table_len, live, live_bytes, damaged: BTreeSet::new() }
    }
}

/// Waits for the outcome of a pack that another caller stores.
fn wait_for(pack: &OpenPack) -> Result<(), PutError> {
    let mut filling = pack.lock();
    loop {
        if let Some(outcome) = &filling.outcome {
            return outcome.clone();
        }
        filling = pack.changed.wait(filling).unwrap_or_else(PoisonError::into_inner);
    }
}
