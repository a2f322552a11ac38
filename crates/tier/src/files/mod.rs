//! Records as files: one file for each record, in a folder that other processes may read.
//!
//! The number of a file is the offset of the record's range in its segment. So a reader finds the file by the range
//! alone. The store writes a draft, syncs it, and renames it, so every numbered file is whole. The checksum of the
//! header covers the segment's nonce. A file of an earlier or another segment is therefore no record here.
//!
//! Ranges of one segment never overlap, so there is at most one record for each number. Dropping a record removes its
//! file and syncs the folder.

mod evict;
mod open;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_memory::{RawSlice, SliceList};

use crate::directory::Directory;
use crate::errors::{Broken, PutError, ReadError, is_of_space};
use crate::give_up;
use crate::layout::BLOCK;
use crate::read_faults::ReadFaults;
use crate::record::{Record, RecordId, data_offset};
use crate::store::{RecordStore, Usage};
use crate::stored::{StoredRecord, write_record};

/// Limits of the store, and the segment that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesConfig {
    /// Most bytes that all files take together.
    pub capacity: u64,
    /// The longest record, with its header, in bytes.
    pub longest_record: u64,
    /// The nonce of the segment, covered by every header's checksum.
    pub nonce: u64,
    /// Whether the store may evict records to make room for others.
    pub evicts: bool,
}

/// A store of records, each in a file of its own.
pub struct FileStore {
    config: FilesConfig,
    directory: Arc<dyn Directory>,
    state: Mutex<FilesState>,
    /// Signalled when a file was written or removed.
    changed: Condvar,
    /// Held by the thread that removes unwanted files: none of them may get a new record meanwhile.
    sweeping: Mutex<()>,
    faults: ReadFaults,
}

#[derive(Default)]
struct FilesState {
    /// All records, by the offset of their ranges.
    entries: BTreeMap<u64, FileEntry>,
    /// The readable records, least recently used first: use number to offset.
    order: BTreeMap<u64, u64>,
    next_use: u64,
    /// Bytes of all files, including those that are being written.
    used_bytes: u64,
    nonce: u64,
    /// Files that must be removed before any drop is acknowledged: there was no space to do so durably.
    unwanted: BTreeSet<u64>,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug)]
struct FileEntry {
    grant: mooncake_types::Version,
    header_len: u32,
    /// Length of its data, in bytes.
    len: u64,
    /// The record's key in [`FilesState::order`]; `None` while its file is being written or removed.
    used: Option<u64>,
}

impl FileEntry {
    fn bytes(&self) -> u64 {
        data_offset(self.header_len as usize) + self.len.next_multiple_of(BLOCK)
    }
}

impl FilesState {
    fn check(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn is_ready(&self, offset: u64) -> bool {
        self.entries.get(&offset).is_none_or(|entry| entry.used.is_some())
    }

    /// Marks a record as readable, and as the most recently used.
    fn use_now(&mut self, offset: u64) {
        self.leave_order(offset);
        self.order.insert(self.next_use, offset);
        let entry = self.entries.get_mut(&offset).expect("what is used is there");
        entry.used = Some(self.next_use);
        self.next_use += 1;
    }

    /// Marks a record as unreadable.
    fn leave_order(&mut self, offset: u64) {
        let entry = self.entries.get_mut(&offset).expect("what leaves is there");
        if let Some(used) = entry.used.take() {
            self.order.remove(&used);
        }
    }

    /// Forgets a record whose file was removed.
    fn forget(&mut self, offset: u64) {
        self.leave_order(offset);
        let entry = self.entries.remove(&offset).expect("what is forgotten is there");
        self.used_bytes -= entry.bytes();
    }
}

impl FileStore {
    /// Reserves the number and the bytes of a record. Returns false if the record exists already.
    fn claim(&self, record: &Record) -> Result<bool, PutError> {
        let RecordId { grant, offset } = record.name;
        let header_len = record.header_len() as u32;
        let entry = FileEntry { grant, header_len, len: record.len, used: None };
        let mut state = self.lock();
        loop {
            state.check()?;
            if !state.is_ready(offset) {
                state = self.wait(state);
                continue;
            }
            if state.unwanted.contains(&offset) {
                drop(state);
                if !self.sweep()? {
                    return Err(PutError::Full);
                }
                state = self.lock();
                continue;
            }
            match state.entries.get(&offset).map(|there| there.grant) {
                Some(there) if there == grant => return Ok(false),
                // An older record of this range: its owner has dropped it or is about to.
                Some(_) => state = self.remove(state, &[offset])?,
                None => break,
            }
        }
        if state.used_bytes + entry.bytes() > self.config.capacity {
            return Err(PutError::Full);
        }
        state.used_bytes += entry.bytes();
        state.entries.insert(offset, entry);
        Ok(true)
    }

    /// Writes the file of a record: draft, sync, publish.
    fn write(&self, record: &Record, data: &[RawSlice]) -> Result<(), PutError> {
        let (number, nonce) = (record.name.offset, self.lock().nonce);
        let drafted = self.directory.draft(number).and_then(|file| {
            write_record(&*file, (0, nonce), record, data)?;
            file.sync()
        });
        // Other programs fill the filesystem.
        if drafted.as_ref().is_err_and(is_of_space) {
            // If the discard fails, the next process to open the folder removes the draft.
            let _ = self.directory.discard(number);
            return Err(PutError::Full);
        }
        drafted.map_err(|error| self.fail(&error))?;
        match self.directory.publish(number) {
            Err(error) if is_of_space(&error) => {
                let _ = self.directory.discard(number);
                // It is unknown whether the file has its number.
                self.lock().unwanted.insert(number);
                self.sweep()?;
                Err(PutError::Full)
            }
            published => published.map_err(|error| self.fail(&error).into()),
        }
    }

    /// Removes the files of readable records.
    ///
    /// # Errors
    /// The disk failed. An error of space is none: the files are removed before the next drop is acknowledged.
    fn remove<'a>(
        &'a self,
        mut state: MutexGuard<'a, FilesState>,
        offsets: &[u64],
    ) -> Result<MutexGuard<'a, FilesState>, Broken> {
        offsets.iter().for_each(|&offset| state.leave_order(offset));
        drop(state);
        let removed = self.directory.remove_all(offsets);
        let is_full = removed.as_ref().is_err_and(is_of_space);
        if !is_full {
            removed.map_err(|error| self.fail(&error))?;
        }
        let mut state = self.lock();
        offsets.iter().for_each(|&offset| state.forget(offset));
        if is_full {
            state.unwanted.extend(offsets);
        }
        self.changed.notify_all();
        Ok(state)
    }

    /// Removes unwanted files. Once this returns true, none of their records can come back. False if there was no space
    /// for that.
    fn sweep(&self) -> Result<bool, Broken> {
        let _sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        let unwanted = self.lock().unwanted.clone();
        let removed =
            give_up::remove(&*self.directory, &unwanted).map_err(|error| self.fail(&error))?;
        if removed {
            let mut state = self.lock();
            state.unwanted = &state.unwanted - &unwanted;
        }
        Ok(removed)
    }

    /// Marks the store as broken: it writes nothing more.
    fn fail(&self, error: &io::Error) -> Broken {
        let broken = Broken(error.to_string().into());
        self.lock().broken.get_or_insert(broken.clone());
        self.changed.notify_all();
        broken
    }

    fn lock(&self) -> MutexGuard<'_, FilesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, FilesState>) -> MutexGuard<'a, FilesState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a readable record and marks it as used. Returns it with the segment's nonce.
    fn find(&self, name: RecordId) -> Option<(FileEntry, u64)> {
        let mut state = self.lock();
        let entry = *state.entries.get(&name.offset)?;
        if entry.grant != name.grant || entry.used.is_none() {
            return None;
        }
        state.use_now(name.offset);
        Some((entry, state.nonce))
    }
}

impl RecordStore for FileStore {
    fn put(&self, record: &Record, data: &SliceList) -> Result<(), PutError> {
        record.check(data.total_len(), self.longest_record())?;
        if !self.claim(record)? {
            return Ok(());
        }
        let written = self.write(record, data.slices());
        let mut state = self.lock();
        match written {
            Ok(()) => state.use_now(record.name.offset),
            Err(_) => state.forget(record.name.offset),
        }
        drop(state);
        self.changed.notify_all();
        written
    }

    fn read(
        &self,
        name: RecordId,
        from: u64,
        dst: RawSlice,
    ) -> Result<Option<Box<[u32]>>, ReadError> {
        let (entry, nonce) = self.find(name).ok_or(ReadError::NotThere)?;
        let read = self.directory.open(name.offset).map_err(ReadError::Io).and_then(|file| {
            let (header_len, len) = (entry.header_len as usize, entry.len);
            StoredRecord { file: &*file, nonce, at: 0, header_len, len }.read(name, from, dst)
        });
        // Another thread may have dropped the record meanwhile.
        read.map_err(|error| if self.find(name).is_some() { error } else { ReadError::NotThere })
    }

    fn drop_records(&self, names: &[RecordId]) -> Result<usize, Broken> {
        let mut state = self.lock();
        loop {
            state.check()?;
            if names.iter().all(|name| state.is_ready(name.offset)) {
                break;
            }
            state = self.wait(state);
        }
        let is_there = |name: &&RecordId| {
            state.entries.get(&name.offset).is_some_and(|entry| entry.grant == name.grant)
        };
        let offsets: BTreeSet<u64> = names.iter().filter(is_there).map(|it| it.offset).collect();
        let offsets: Vec<u64> = offsets.into_iter().collect();
        match offsets.is_empty() {
            true => drop(state),
            false => drop(self.remove(state, &offsets)?),
        }
        match self.sweep()? {
            true => Ok(offsets.len()),
            false => Err(Broken("there is no space to drop anything".into())),
        }
    }

    fn make_room(&self, wanted: u64) -> Result<Vec<RecordId>, Broken> {
        self.evict(wanted)
    }

    fn usage(&self) -> Usage {
        let state = self.lock();
        let (records, used_bytes) = (state.order.len(), state.used_bytes);
        Usage { records, live_bytes: used_bytes, used_bytes }
    }

    fn is_broken(&self) -> bool {
        self.lock().broken.is_some()
    }

    fn longest_record(&self) -> u64 {
        self.config.longest_record
    }

    fn unreadable(&self) -> u64 {
        self.faults.count()
    }

    fn start_segment(&self, nonce: u64) {
        self.lock().nonce = nonce;
    }
}
