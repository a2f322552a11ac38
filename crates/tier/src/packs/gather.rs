//! Putting records: they gather in a pack, which one of the callers stores for all of them.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use mooncake_memory::SliceList;

use super::entry::Change;
use super::names::{PACKS, name_of};
use super::open_pack::{Draft, OpenPack, copy_of};
use super::state::{PackState, PacksState, Shared, is_being_placed};
use crate::errors::{Broken, PutError};
use crate::index::{IndexEntry, RecordState};
use crate::log_store::nonce;
use crate::record::Record;

impl Shared {
    /// Puts a record that [`Record::check`] has accepted.
    pub(super) fn put(&self, record: &Record, data: &SliceList) -> Result<(), PutError> {
        let bytes = copy_of(record, data);
        let mut state = self.lock();
        loop {
            self.check()?;
            match state.index.get(&record.name) {
                None => break,
                Some(entry) if entry.state == RecordState::Ready => return Ok(()),
                Some(entry) if is_being_placed(entry) => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                // The record was dropped, or its put failed, and the outcome is unknown: drop it before the new put.
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
            let of = self.new_pack(&mut state);
            state.open = Some(Arc::new(OpenPack::new(of)));
        }
        let pack = Arc::clone(state.open.as_ref().expect("one was made just now"));
        let mut filling = pack.lock();
        filling.draft.push((pack.id, pack.nonce), record, bytes);
        let (_, entry) = filling.draft.records.last().expect("it was added just now");
        let writing = IndexEntry { state: RecordState::Writing, ..*entry };
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

    /// The id and the nonce of a new pack.
    pub(super) fn new_pack(&self, state: &mut PacksState) -> (u64, u64) {
        let id = state.next_pack;
        state.next_pack += 1;
        (id, nonce(self.config.seed, id))
    }

    /// Waits until a pack is closed or its gathering time is over, and stores it.
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
            // No journal entry names the pack, so whatever is stored of it is no record.
            let mut state = self.lock();
            draft.records.iter().for_each(|(name, _)| _ = state.index.remove(name));
            state.dead.push(pack.id);
            self.changed.notify_all();
            return Err(PutError::Unreachable(error.to_string().into()));
        }
        let named = self.journal.append(vec![Change::Packed(Arc::new(described.clone()))]);
        let mut state = self.lock();
        // If this failed, the entry may be stored all the same: the records count as being dropped.
        let is_lasting = named.is_ok();
        let next = if is_lasting { RecordState::Ready } else { RecordState::Unreadable };
        for (name, entry) in &draft.records {
            state.index.insert(*name, IndexEntry { state: next, ..*entry });
        }
        state.packs.insert(pack.id, PackState::new(&described, &draft.records));
        self.changed.notify_all();
        Ok(named?)
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
