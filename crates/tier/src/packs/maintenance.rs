//! The owner's background work: it renews the lease, shortens the journal, and removes objects without live records.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use mooncake_memory::{Buffer, SliceList};

use super::entry::Change;
use super::journal::JournalError;
use super::names::{PACKS, name_of};
use super::open_pack::{Draft, copy_of};
use super::pack_file::{PackFile, is_cut_or_gone};
use super::state::{PackState, Shared};
use crate::index::{IndexEntry, RecordState};
use crate::layout::BLOCK;
use crate::record::{Record, RecordId};
use crate::stored::StoredRecord;

/// Most packs that one call removes.
const REMOVED_AT_ONCE: usize = 1000;
/// If there are this many small packs, they are merged, because each costs a read at the next start.
const MANY: usize = 8;

/// Records that are to move to another pack.
struct Moving {
    draft: Draft,
    /// Name and old place of each record.
    from: Vec<(RecordId, IndexEntry)>,
}

impl Shared {
    /// Runs the background work until the store closes or loses its prefix.
    pub(super) fn run_maintenance(&self) {
        while self.rest(self.config.lease / 10) {
            if self.journal.broken().is_some() {
                return;
            }
            self.renew_if_due();
            self.tidy();
        }
    }

    /// Renews the lease if it is due. Long work calls this from time to time.
    fn renew_if_due(&self) {
        if self.journal.is_renewal_due() {
            // If this fails and the lease ends, nothing is served until a later attempt succeeds.
            let _ = self.journal.append(Vec::new());
        }
    }

    /// Shortens the journal, rewrites packs with few live records, and removes dead packs.
    pub(super) fn tidy(&self) {
        let tidied = self.journal.keep_short().and_then(|()| self.clean());
        let removed = self.remove_dead();
        if let Err(error) = tidied.and(removed) {
            tracing::warn!(%error, "a prefix of the object store is not tidied up now");
        }
    }

    /// Waits for `time`. Returns false if the store closes.
    fn rest(&self, time: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, time, |state| !state.is_closing);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_closing
    }

    /// Removes packs without live records.
    fn remove_dead(&self) -> io::Result<()> {
        let dead: Vec<u64> = {
            let mut state = self.lock();
            let at = state.dead.len().saturating_sub(REMOVED_AT_ONCE);
            state.dead.split_off(at)
        };
        if dead.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = dead.iter().map(|&id| name_of(PACKS, id)).collect();
        let removed = self.bucket.remove_all(&names);
        if removed.is_err() {
            self.lock().dead.extend(dead);
        }
        removed
    }

    /// Copies the live records of sparse or small packs to a new pack.
    fn clean(&self) -> io::Result<()> {
        let chosen = self.choose();
        if chosen.is_empty() {
            return Ok(());
        }
        let (id, nonce) = self.new_pack(&mut self.lock());
        let mut moving = Moving { draft: Draft::default(), from: Vec::new() };
        for (name, entry) in chosen {
            if self.lock().is_closing {
                return Ok(());
            }
            self.renew_if_due();
            if let Some((record, data)) = self.read_whole(name, entry)? {
                let bytes = copy_of(&record, &SliceList::from(data.raw()));
                moving.draft.push((id, nonce), &record, bytes);
                moving.from.push((name, entry));
            } else if let Some(pack) = self.lock().packs.get_mut(&entry.file) {
                // A damaged record stays where it is until it is dropped, and is not chosen again.
                pack.damaged.insert(entry.block);
            }
        }
        if moving.from.is_empty() {
            return Ok(());
        }
        self.move_all((id, nonce), moving)
    }

    /// Chooses live records, at most as many as fill a pack. They come from packs that are less than half live, or
    /// else from many small packs.
    fn choose(&self) -> Vec<(RecordId, IndexEntry)> {
        let state = self.lock();
        let most = self.config.pack_bytes;
        let is_wasteful = |pack: &&PackState| pack.live_bytes * 2 < pack.len;
        let is_small = |pack: &&PackState| pack.live_bytes * 4 < most;
        let sound = || state.packs.values().filter(|pack| pack.damaged.len() < pack.live.len());
        let mut packs: Vec<&PackState> = sound().filter(is_wasteful).collect();
        let small: Vec<&PackState> = sound().filter(is_small).collect();
        if packs.is_empty() && small.len() >= MANY {
            packs = small;
        }
        let (mut chosen, mut bytes) = (Vec::new(), 0);
        for pack in packs {
            if bytes > 0 && bytes + pack.live_bytes > most {
                break;
            }
            bytes += pack.live_bytes;
            let ready = |name: &RecordId| {
                let entry = state.index.get(name).filter(|it| it.state == RecordState::Ready);
                entry.map(|entry| (*name, *entry))
            };
            let sound = pack.live.iter().filter(|(block, _)| !pack.damaged.contains(block));
            chosen.extend(sound.filter_map(|(_, name)| ready(name)));
        }
        chosen
    }

    /// Reads a whole record. Returns `None` if it is missing or damaged.
    fn read_whole(
        &self,
        name: RecordId,
        entry: IndexEntry,
    ) -> io::Result<Option<(Record, Buffer)>> {
        let Some(nonce) = self.lock().packs.get(&entry.file).map(|pack| pack.nonce) else {
            return Ok(None);
        };
        let Some(data) = Buffer::try_zeroed(entry.len as usize) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let file = PackFile { bucket: &*self.bucket, name: name_of(PACKS, entry.file) };
        let at = u64::from(entry.block) * BLOCK;
        let (header_len, len) = (entry.header_len as usize, entry.len);
        let stored = StoredRecord { file: &file, nonce, at, header_len, len };
        let record = match stored.header(data.raw()) {
            Err(error) if is_cut_or_gone(&error) => return Ok(None),
            record => record?,
        };
        let is_whole =
            |record: &Record| record.name == name && data.raw().chunk_crcs() == *record.checksums;
        Ok(record.filter(is_whole).map(|record| (record, data)))
    }

    /// Stores the new pack, and then the new places of all records that have not been dropped meanwhile.
    fn move_all(&self, of: (u64, u64), mut moving: Moving) -> io::Result<()> {
        let (bytes, mut pack) = moving.draft.finish(of);
        self.renew_if_due();
        let stored = self.bucket.put(&name_of(PACKS, pack.id), bytes);
        self.renew_if_due();
        if let Err(error) = stored {
            self.lock().dead.push(pack.id);
            return Err(error);
        }
        let mut moved: Vec<(RecordId, IndexEntry, IndexEntry)> = Vec::new();
        let mut state = self.lock();
        pack.live.clear();
        let mut left: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for ((name, from), (_, to)) in moving.from.iter().zip(&moving.draft.records) {
            let is_there = |it: &&mut IndexEntry| {
                it.state == RecordState::Ready && (it.file, it.block) == (from.file, from.block)
            };
            let Some(entry) = state.index.get_mut(name).filter(is_there) else { continue };
            entry.state = RecordState::Moving;
            pack.live.insert(to.block);
            left.entry(from.file).or_default().push(from.block);
            moved.push((*name, *from, *to));
        }
        drop(state);
        let dropped = left.into_iter().map(|(pack, blocks)| Change::Dropped { pack, blocks });
        let packed = [Change::Packed(Arc::new(pack.clone()))];
        let changes: Vec<Change> = packed.into_iter().chain(dropped).collect();
        let is_lasting = self.append_until_durable(&changes);
        let mut state = self.lock();
        let records: Vec<(RecordId, IndexEntry)> =
            moved.iter().map(|&(name, _, to)| (name, to)).collect();
        if is_lasting {
            state.packs.insert(pack.id, PackState::new(&pack, &records));
        }
        for (name, from, to) in moved {
            let entry = if is_lasting { to } else { from };
            state.index.insert(name, IndexEntry { state: RecordState::Ready, ..entry });
            if is_lasting {
                state.forget(&from);
            }
        }
        if is_lasting && records.is_empty() {
            state.packs.remove(&pack.id);
            state.dead.push(pack.id);
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Repeats changes until they are durable, since the effect of a failed attempt is unknown. Returns false if the
    /// store closes or loses its prefix.
    fn append_until_durable(&self, changes: &[Change]) -> bool {
        loop {
            match self.journal.append(changes.to_vec()) {
                Ok(()) => return true,
                Err(JournalError::Broken(_)) => return false,
                Err(JournalError::Unreachable(_)) if !self.rest(self.config.pause) => {
                    return false;
                }
                Err(JournalError::Unreachable(_)) => {}
            }
        }
    }
}
