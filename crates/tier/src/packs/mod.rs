//! Records in an object store: many of them in each object, a pack, and a journal that says which packs there are.
//!
//! ```text
//! journal/NUMBER        changes, in the order of their numbers (`journal.rs`, `entry.rs`)
//! checkpoints/NUMBER    what all changes up to a number come to
//! packs/NUMBER          records, each from a whole block on, and a table of their headers
//! ```
//!
//! A record is put when its pack and the change that names it are stored (`gather.rs`). It is dropped when the change that says so
//! is stored. Packs are never changed: one that is mostly dropped is written anew without what was dropped (`keep.rs`). A start
//! reads the last checkpoint, what came after it, and the table of each pack (`open.rs`).
//!
//! One process owns a prefix (`journal.rs`). One that lost it writes nothing more, and has stopped serving before another begins.

mod entry;
mod gather;
mod journal;
mod keep;
mod open;
mod process;

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mooncake_memory::{Buffer, RawSlice, SliceList};

use self::entry::Change;
use self::gather::OpenPack;
use self::journal::{Journal, JournalError};
use crate::bucket::Bucket;
use crate::directory::{Notes, ReadAt};
use crate::disk::Usage;
use crate::errors::{Broken, PutError, ReadError};
use crate::index::{Entry, Index, RecordState};
use crate::layout::BLOCK;
use crate::record::{Name, Record};
use crate::store::RecordStore;
use crate::stored::StoredRecord;

const JOURNAL: &str = "journal";
const CHECKPOINTS: &str = "checkpoints";
const PACKS: &str = "packs";

/// Longest wait for a record that is being written or moved, by a caller that wants to drop it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whose packs they are, and when they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacksConfig {
    /// A pack takes no more records from this length on, in bytes.
    pub pack_bytes: u64,
    /// It is stored at the latest this long after its first record came.
    pub gather: Duration,
    /// How long the owner serves after it stored an entry of the journal. The same for all processes.
    pub lease: Duration,
    /// How long a process sees no entry of the owner before it takes the prefix over: longer than the lease, since clocks of two
    /// hosts need not run equally fast.
    pub silence: Duration,
    /// After a failure to store an entry nothing is tried for so long: callers hear of it at once.
    pub pause: Duration,
    /// The longest record, with its header, in bytes.
    pub longest_record: u64,
    /// A number that nobody can guess: no two processes have the same.
    pub seed: u64,
    /// What the host is called: a process that starts on it waits for an owner that was there to be gone for sure.
    pub host: String,
}

impl PacksConfig {
    /// For a process of this host that stores records as they come.
    #[must_use]
    pub fn usual(longest_record: u64, seed: u64) -> PacksConfig {
        PacksConfig {
            pack_bytes: 16 << 20,
            gather: Duration::from_millis(100),
            lease: Duration::from_secs(15),
            silence: Duration::from_secs(20),
            pause: Duration::from_secs(1),
            longest_record,
            seed,
            host: process::host(),
        }
    }
}

/// A store of records below one prefix of an object store, which this process owns.
pub struct Packs {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

struct Shared {
    config: PacksConfig,
    bucket: Arc<dyn Bucket>,
    journal: Journal,
    state: Mutex<State>,
    /// A record is ready, or the store is to close.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The file of an entry is its pack.
    index: Index,
    packs: BTreeMap<u64, PackState>,
    /// The pack that takes records.
    open: Option<Arc<OpenPack>>,
    next_pack: u64,
    /// Packs without live records, which are to be removed.
    dead: Vec<u64>,
    is_closing: bool,
}

struct PackState {
    nonce: u64,
    /// Length of its records, in bytes, and of its table.
    len: u64,
    table_len: u64,
    /// The live ones, by the block that each begins at.
    live: BTreeMap<u32, Name>,
    live_bytes: u64,
    /// The blocks of live records that could not be read: they are not written anew.
    damaged: BTreeSet<u32>,
}

impl State {
    /// A record is live no more. Its pack is dead if that was the last one.
    fn forget(&mut self, entry: &Entry) {
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
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<(), Broken> {
        self.journal.broken().map_or(Ok(()), Err)
    }

    /// Drops records, those too of which nobody knows whether they are there.
    fn drop_records(&self, names: &[Name]) -> Result<usize, Broken> {
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
            if !names.iter().any(|name| state.index.get(name).is_some_and(is_in_the_making)) {
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
    fn find(&self, name: Name) -> Option<(Entry, u64)> {
        let state = self.lock();
        let entry = *state.index.get(&name).filter(|entry| entry.is_readable())?;
        let pack = state.packs.get(&entry.file).expect("the pack of a record is there");
        Some((entry, pack.nonce))
    }

    fn read_at(
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
fn is_in_the_making(entry: &Entry) -> bool {
    matches!(entry.state, RecordState::Writing | RecordState::Moving)
}

impl RecordStore for Packs {
    fn put(&self, record: &Record, data: &SliceList) -> Result<(), PutError> {
        if !record.is_sound() || record.len != data.total_len() {
            return Err(PutError::Malformed);
        }
        let (len, most) = (record.blocks() * BLOCK, self.longest_record());
        if len > most {
            return Err(PutError::TooLong { len, most });
        }
        self.shared.put(record, data)
    }

    fn read(&self, name: Name, from: u64, dst: RawSlice) -> Result<Option<Box<[u32]>>, ReadError> {
        let shared = &self.shared;
        loop {
            let place = shared.find(name).ok_or(ReadError::NotThere)?;
            let read = shared.read_at(name, place, (from, dst));
            // Another owner may have dropped it.
            if !shared.journal.may_serve() {
                return Err(ReadError::Unreachable("its owner has not reached it for long".into()));
            }
            let Err(error) = read else { return read };
            match shared.find(name) {
                None => return Err(ReadError::NotThere),
                Some((now, _)) if (now.file, now.block) != (place.0.file, place.0.block) => {}
                Some(_) => return Err(as_unreachable(error)),
            }
        }
    }

    fn drop_records(&self, names: &[Name]) -> Result<usize, Broken> {
        self.shared.drop_records(names)
    }

    /// An object store has room for all that the segment holds: nothing is evicted.
    fn make_room(&self, _wanted: u64) -> Result<Vec<Name>, Broken> {
        self.shared.check()?;
        self.shared.tidy();
        Ok(Vec::new())
    }

    fn usage(&self) -> Usage {
        let state = self.shared.lock();
        let records = state.index.values().filter(|entry| entry.is_readable()).count();
        let live_bytes = state.packs.values().map(|pack| pack.live_bytes).sum();
        let used_bytes = state.packs.values().map(|pack| pack.len + pack.table_len).sum();
        Usage { records, live_bytes, used_bytes }
    }

    fn is_broken(&self) -> bool {
        self.shared.journal.broken().is_some()
    }

    fn is_far(&self) -> bool {
        true
    }

    fn longest_record(&self) -> u64 {
        self.shared.config.longest_record
    }
}

/// Whether an error says that a pack, or its end, is not there.
fn is_cut_or_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// An error that says nothing of the record: the store did not answer.
fn as_unreachable(error: ReadError) -> ReadError {
    match error {
        ReadError::Io(error) if !is_cut_or_gone(&error) => {
            ReadError::Unreachable(error.to_string())
        }
        error => error,
    }
}

impl Notes for Packs {
    fn note(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.shared.journal.note())
    }

    fn set_note(&self, note: &[u8]) -> io::Result<()> {
        let noted = self.shared.journal.append(vec![Change::Noted(note.to_vec())]);
        noted.map_err(|error| io::Error::other(Broken::from(error)))
    }
}

impl Packs {
    /// Drops all records.
    ///
    /// # Errors
    /// The store did not take that.
    pub fn clear(&self) -> io::Result<()> {
        let names: Vec<Name> = self.shared.lock().index.keys().copied().collect();
        self.shared.drop_records(&names).map(drop).map_err(io::Error::other)
    }
}

impl Drop for Packs {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.changed.notify_all();
        if let Some(keeper) = self.keeper.take() {
            // A keeper that panicked has said so.
            let _ = keeper.join();
        }
        self.shared.journal.release();
    }
}

impl From<JournalError> for PutError {
    fn from(error: JournalError) -> PutError {
        match error {
            JournalError::Unreachable(reason) => PutError::Unreachable(reason),
            JournalError::Broken(broken) => PutError::Broken(broken),
        }
    }
}

/// A pack as a file that is read in places.
struct PackFile<'a> {
    bucket: &'a dyn Bucket,
    name: String,
}

impl ReadAt for PackFile<'_> {
    fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        let len: usize = slices.iter().map(RawSlice::len).sum();
        let bytes = self.bucket.get_range(&self.name, at..at + len as u64)?;
        let bytes = Buffer::from_vec(bytes);
        if bytes.raw().len() != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut from = 0;
        for slice in slices {
            bytes.raw().sub(from, slice.len()).copy_to(*slice);
            from += slice.len();
        }
        Ok(())
    }
}

fn name_of(folder: &str, number: u64) -> String {
    format!("{folder}/{number:016x}")
}

/// The number of an object's name; nothing if it has none.
fn number_of(name: &str) -> Option<u64> {
    let (_, digits) = name.rsplit_once('/')?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}
