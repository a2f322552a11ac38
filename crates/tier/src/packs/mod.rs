//! Records in an object store: packs, which are objects of many records each, and a journal that names the packs.
//!
//! ```text
//! journal/NUMBER        changes, in the order of their numbers (`journal.rs`, `entry.rs`)
//! checkpoints/NUMBER    the combined effect of all changes up to a number
//! packs/NUMBER          records, each from a whole block on, and a table of their headers
//! ```
//!
//! A put is complete when the pack and the journal entry that names it are stored (`gather.rs`). A drop is complete
//! when its journal entry is stored. Packs are never changed: the live records of a mostly dropped pack are copied to
//! a new one (`keep.rs`). Opening reads the last checkpoint, the entries after it, and the table of each pack
//! (`open.rs`).
//!
//! One process owns a prefix (`journal.rs`). A process that lost its prefix writes nothing more. It has stopped
//! serving before the next owner begins.

mod config;
mod entry;
mod gather;
mod journal;
pub(crate) mod lease_clock;
mod maintenance;
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
use crate::record::{Record, RecordId};
use crate::store::{RecordStore, Usage};

/// A store of records below one prefix of an object store. This process owns the prefix.
pub struct PackStore {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

impl RecordStore for PackStore {
    fn put(&self, record: &Record, data: &SliceList) -> Result<(), PutError> {
        record.check(data.total_len(), self.longest_record())?;
        self.shared.put(record, data)
    }

    fn read(
        &self,
        name: RecordId,
        from: u64,
        dst: RawSlice,
    ) -> Result<Option<Box<[u32]>>, ReadError> {
        let shared = &self.shared;
        loop {
            let place = shared.find(name).ok_or(ReadError::NotThere)?;
            let read = shared.read_at(name, place, (from, dst));
            // The lease has ended, so another owner may have dropped the record.
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

    fn drop_records(&self, names: &[RecordId]) -> Result<usize, Broken> {
        self.shared.drop_records(names)
    }

    /// Removes dead objects, and evicts nothing: an object store has room for all that the segment holds.
    fn make_room(&self, _wanted: u64) -> Result<Vec<RecordId>, Broken> {
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

    fn is_remote(&self) -> bool {
        true
    }

    fn longest_record(&self) -> u64 {
        self.shared.config.longest_record
    }
}

/// Turns an error that does not concern the record itself into [`ReadError::Unreachable`].
fn as_unreachable(error: ReadError) -> ReadError {
    match error {
        ReadError::Io(error) if !is_cut_or_gone(&error) => {
            ReadError::Unreachable(error.to_string())
        }
        error => error,
    }
}

impl Notes for PackStore {
    fn note(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.shared.journal.note())
    }

    fn set_note(&self, note: &[u8]) -> io::Result<()> {
        let noted = self.shared.journal.append(vec![Change::Noted(note.to_vec())]);
        noted.map_err(|error| io::Error::other(Broken::from(error)))
    }
}

impl PackStore {
    /// Drops all records.
    ///
    /// # Errors
    /// The object store did not accept the drop.
    pub fn clear(&self) -> io::Result<()> {
        let names: Vec<RecordId> = self.shared.lock().index.keys().copied().collect();
        self.shared.drop_records(&names).map(drop).map_err(io::Error::other)
    }
}

impl Drop for PackStore {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.changed.notify_all();
        if let Some(keeper) = self.keeper.take() {
            // The panic of a keeper was reported already.
            let _ = keeper.join();
        }
        self.shared.journal.release();
    }
}
