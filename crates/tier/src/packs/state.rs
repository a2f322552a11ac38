//! The state of a prefix in memory: its records, and the packs that hold them.

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
use crate::index::{Index, IndexEntry, RecordState};
use crate::layout::BLOCK;
use crate::record::RecordId;
use crate::stored::StoredRecord;

/// Longest time that a drop waits for a record that is being written or moved.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state of a prefix that all threads of its owner share.
pub(super) struct Shared {
    pub(super) config: PacksConfig,
    pub(super) bucket: Arc<dyn Bucket>,
    pub(super) journal: Journal,
    pub(super) state: Mutex<PacksState>,
    /// Signalled when a record changes its state, and when the store is to close.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct PacksState {
    /// All records. `file` of an entry is the id of its pack.
    pub(super) index: Index,
    pub(super) packs: BTreeMap<u64, PackState>,
    /// The pack that takes new records.
    pub(super) open: Option<Arc<OpenPack>>,
    pub(super) next_pack: u64,
    /// Ids of packs without live records, which the keeper will remove.
    pub(super) dead: Vec<u64>,
    pub(super) is_closing: bool,
}

pub(super) struct PackState {
    pub(super) nonce: u64,
    /// Lengths of the pack's records and of its table, in bytes.
    pub(super) len: u64,
    pub(super) table_len: u64,
    /// The live records, by their first block.
    pub(super) live: BTreeMap<u32, RecordId>,
    pub(super) live_bytes: u64,
    /// First blocks of live records that could not be read. These records are not copied to a new pack.
    pub(super) damaged: BTreeSet<u32>,
}

impl PackState {
    /// The state of a pack. `records` are all its live records.
    pub(super) fn new(pack: &Pack, records: &[(RecordId, IndexEntry)]) -> PackState {
        let live = records.iter().map(|(name, entry)| (entry.block, *name)).collect();
        let live_bytes = records.iter().map(|(_, entry)| entry.bytes()).sum();
        let Pack { nonce, len, table_len, .. } = *pack;
        PackState { nonce, len, table_len, live, live_bytes, damaged: BTreeSet::new() }
    }
}

impl PacksState {
    /// Removes a record from its pack. A pack without live records is dead.
    pub(super) fn forget(&mut self, entry: &IndexEntry) {
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
    pub(super) fn lock(&self) -> MutexGuard<'_, PacksState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn check(&self) -> Result<(), Broken> {
        self.journal.broken().map_or(Ok(()), Err)
    }

    /// Drops records, including those whose put or drop had an unknown outcome.
    pub(super) fn drop_records(&self, names: &[RecordId]) -> Result<usize, Broken> {
        let mut state = self.wait_until_settled(names)?;
        let mut gone: BTreeMap<RecordId, IndexEntry> = BTreeMap::new();
        let mut blocks: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for name in names {
            let Some(entry) = state.index.get_mut(name) else { continue };
            // The caller may name a record twice.
            if let btree_map::Entry::Vacant(slot) = gone.entry(*name) {
                slot.insert(*entry);
                blocks.entry(entry.file).or_default().push(entry.block);
                // The record cannot be read from here on. Its entry remains until the drop is durable.
                entry.state = RecordState::Unreadable;
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
            let is_same = |it: &&IndexEntry| {
                it.state == RecordState::Unreadable
                    && (it.file, it.block) == (entry.file, entry.block)
            };
            // Another thread may have dropped the record meanwhile, and a third may have put it again.
            if state.index.get(&name).filter(is_same).is_some() {
                state.index.remove(&name);
                state.forget(&entry);
                count += usize::from(entry.is_readable());
            }
        }
        self.changed.notify_all();
        Ok(count)
    }

    /// Waits until none of these records is being written or moved. Their places then cannot change while the caller
    /// holds the lock.
    fn wait_until_settled(&self, names: &[RecordId]) -> Result<MutexGuard<'_, PacksState>, Broken> {
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

    /// Finds a readable record: its entry and the nonce of its pack.
    pub(super) fn find(&self, name: RecordId) -> Option<(IndexEntry, u64)> {
        let state = self.lock();
        let entry = *state.index.get(&name).filter(|entry| entry.is_readable())?;
        let pack = state.packs.get(&entry.file).expect("the pack of a record is there");
        Some((entry, pack.nonce))
    }

    pub(super) fn read_at(
        &self,
        name: RecordId,
        (entry, nonce): (IndexEntry, u64),
        (from, dst): (u64, RawSlice),
    ) -> Result<Option<Box<[u32]>>, ReadError> {
        let file = PackFile { bucket: &*self.bucket, name: name_of(PACKS, entry.file) };
        let (header_len, len) = (entry.header_len as usize, entry.len);
        let at = u64::from(entry.block) * BLOCK;
        StoredRecord { file: &file, nonce, at, header_len, len }.read(name, from, dst)
    }
}

/// Whether a record is being written or moved, so that its place is about to change.
pub(super) fn is_being_placed(entry: &IndexEntry) -> bool {
    matches!(entry.state, RecordState::Writing | RecordState::Moving)
}
