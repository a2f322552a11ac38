//! What is known of the records of a prefix, and of the packs that they lie in.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_memory::RawSlice;

use super::config::PacksConfig;
use super::entry::{Change, Pack};
use super::journal::Journal;
use super::names::{PACKS, name_of};
use super::open_pack::OpenPack;
use super::pack_file::PackFile;
use crate::bucket::Bucket;
use crate::errors::{Broken, ReadError};
use crate::index::{Entry, Index, RecordState};
use crate::layout::BLOCK;
use crate::record::Name;
use crate::stored::StoredRecord;

/// Longest wait for a record that is being written or moved, by a caller that wants to drop it.
const PATIENCE: Duration = Duration::from_secs(2);

/// A prefix, as its owner shares it between its threads.
pub(super) struct Shared {
    pub(super) config: PacksConfig,
    pub(super) bucket: Arc<dyn Bucket>,
    pub(super) journal: Journal,
    pub(super) state: Mutex<State>,
    /// A record is ready, or the store is to close.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    /// The file of an entry is its pack.
    pub(super) index: Index,
    pub(super) packs: BTreeMap<u64, PackState>,
    /// The pack that takes records.
    pub(super) open: Option<Arc<OpenPack>>,
    pub(super) next_pack: u64,
    /// Packs without live records, which are to be removed.
    pub(super) dead: Vec<u64>,
    pub(super) is_closing: bool,
}

pub(super) struct PackState {
    pub(super) nonce: u64,
    /// Length of its records, in bytes, and of its table.
    pub(super) len: u64,
    pub(super) table_len: u64,
    /// The live ones, by the block that each begins at.
    pub(super) live: BTreeMap<u32, Name>,
    pub(super) live_bytes: u64,
    /// The blocks of live records that could not be read: they are not written anew.
    pub(super) damaged: BTreeSet<u32>,
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

impl State {
    /// A record is live no more. Its pack is dead if that was the last one.
    pub(super) fn forget(&mut self, entry: &Entry) {
        let Some(pack) = self.packs.get_mut(&entry.file) else { return };
        if pack.live.remove(&entry.block).is_some() {
            pack.live_bytes -= entry.bytes();
            pack.damaged.remove(&entry.block);
        }
        if pack.live.is_empty() {
            self.packs.remove(&entry.file);
            self.dead.push(entry.file);
        }
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn check(&self) -> Result<(), Broken> {
        self.journal.broken().map_or(Ok(()), Err)
    }

    /// Drops records, those too of which nobody knows whether they are there.
    pub(super) fn drop_records(&self, names: &[Name]) -> Result<usize, Broken> {
        let mut state = self.wait_until_settled(names)?;
        let mut gone: BTreeMap<Name, Entry> = BTreeMap::new();
        let mut blocks: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for name in names {
            let Some(entry) = state.index.get_mut(name) else { continue };
            // A name may come twice.
            if let btree_map::Entry::Vacant(slot) = gone.entry(*name) {
                slot.insert(*entry);
                blocks.entry(entry.file).or_default().push(entry.block);
                // Nobody reads it from here on. It stays known until its drop lasts.
                entry.state = RecordState::Leaving;
            }
        }
        if gone.is_empty() {
            return Ok(0);
        }
        let changes =
            blocks.into_iter().map(|(pack, blocks)| Change::Dropped { pack, blocks }).collect();
        let queued = self.journal.queue(changes);
        drop(state);
        self.journal.wait(&queued)?;
        let mut state = self.lock();
        let mut count = 0;
        for (name, entry) in gone {
            let is_same = |it: &&Entry| {
                it.state == RecordState::Leaving && (it.file, it.block) == (entry.file, entry.block)
            };
            // Another caller may have dropped it at the same time, and a third may have put it again since.
            if state.index.get(&name).filter(is_same).is_some() {
                state.index.remove(&name);
                state.forget(&entry);
                count += usize::from(entry.is_readable());
            }
        }
        self.changed.notify_all();
        Ok(count)
    }

    /// Waits until none of these records is being written or moved. All of them keep their places while the caller holds the lock.
    fn wait_until_settled(&self, names: &[Name]) -> Result<MutexGuard<'_, State>, Broken> {
        let until = Instant::now() + PATIENCE;
        let mut state = self.lock();
        loop {
            self.check()?;
            if !names.iter().any(|name| state.index.get(name).is_some_and(is_being_placed)) {
                return Ok(state);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Broken("the object store does not answer".into()));
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Where a record that can be read lies.
    pub(super) fn find(&self, name: Name) -> Option<(Entry, u64)> {
        let state = self.lock();
        let entry = *state.index.get(&name).filter(|entry| entry.is_readable())?;
        let pack = state.packs.get(&entry.file).expect("the pack of a record is there");
        Some((entry, pack.nonce))
    }

    pub(super) fn read_at(
        &self,
        name: Name,
        (entry, nonce): (Entry, u64),
        (from, dst): (u64, RawSlice),
    ) -> Result<Option<Box<[u32]>>, ReadError> {
        let file = PackFile { bucket: &*self.bucket, name: name_of(PACKS, entry.file) };
        let (header_len, len) = (entry.header_len as usize, entry.len);
        let at = u64::from(entry.block) * BLOCK;
        StoredRecord { file: &file, nonce, at, header_len, len }.read(name, from, dst)
    }
}

/// Whether a record is written or moved, so that its place is about to be another.
pub(super) fn is_being_placed(entry: &Entry) -> bool {
    matches!(entry.state, RecordState::Writing | RecordState::Moving)
}
