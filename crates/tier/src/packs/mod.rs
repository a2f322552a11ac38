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

mod config;
mod entry;
mod gather;
mod journal;
mod keep;
mod names;
mod open;
mod open_pack;
mod pack_file;
mod process;
mod state;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use mooncake_memory::{RawSlice, SliceList};

pub use self::config::PacksConfig;
use self::entry::Change;
use self::pack_file::is_cut_or_gone;
use self::state::Shared;
use crate::directory::Notes;
use crate::errors::{Broken, PutError, ReadError};
use crate::record::{Name, Record};
use crate::store::{RecordStore, Usage};

/// A store of records below one prefix of an object store, which this process owns.
pub struct Packs {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

impl RecordStore for Packs {
    fn put(&self, record: &Record, data: &SliceList) -> Result<(), PutError> {
        record.check(data.total_len(), self.longest_record())?;
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
