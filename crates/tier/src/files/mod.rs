//! Records as files: one for each object, in a folder that other processes may read.
//!
//! A file has the number of the place in the segment where its range begins, so that a reader finds it by the range alone. It is
//! written as a draft, synced, and renamed: what has the number of a range is whole. The checksum of its header depends on the
//! segment, so a file of an earlier segment, or of another, is no record here.
//!
//! Ranges of one segment never overlap, so there is at most one record for each number. A record is dropped by the removal of its
//! file, and that is synced.

mod evict;
mod open;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_memory::{RawSlice, SliceList};

use crate::directory::Directory;
use crate::errors::{Broken, PutError, ReadError};
use crate::layout::BLOCK;
use crate::record::{Name, Record, data_offset};
use crate::store::{RecordStore, Usage};
use crate::stored::{StoredRecord, write_record};

/// How many files there may be, and whose they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesConfig {
    /// Bytes that all files together take at most.
    pub capacity: u64,
    /// The longest record, with its header, in bytes.
    pub longest_record: u64,
    /// A number of the segment that the records are of.
    pub nonce: u64,
    /// Whether records are evicted to make room for others.
    pub evicts: bool,
}

/// A store of records, each in a file of its own.
pub struct Files {
    config: FilesConfig,
    directory: Arc<dyn Directory>,
    state: Mutex<State>,
    /// A file has been written or removed.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By where their ranges begin.
    entries: BTreeMap<u64, Entry>,
    /// The records that can be read, by when they were written or read last.
    order: BTreeMap<u64, u64>,
    next_use: u64,
    /// Bytes of all files, those that are being written included.
    used_bytes: u64,
    nonce: u64,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    grant: mooncake_types::Version,
    header_len: u32,
    /// Length of its data, in bytes.
    len: u64,
    /// Its place in the order of uses; absent while its file is written or removed.
    used: Option<u64>,
}

impl Entry {
    fn bytes(&self) -> u64 {
        data_offset(self.header_len as usize) + self.len.next_multiple_of(BLOCK)
    }
}

impl State {
    fn check(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn is_ready(&self, offset: u64) -> bool {
        self.entries.get(&offset).is_none_or(|entry| entry.used.is_some())
    }

    /// A record can be read: it was written or read just now.
    fn use_now(&mut self, offset: u64) {
        self.leave_order(offset);
        self.order.insert(self.next_use, offset);
        let entry = self.entries.get_mut(&offset).expect("what is used is there");
        entry.used = Some(self.next_use);
        self.next_use += 1;
    }

    /// A record cannot be read any more.
    fn leave_order(&mut self, offset: u64) {
        let entry = self.entries.get_mut(&offset).expect("what leaves is there");
        if let Some(used) = entry.used.take() {
            self.order.remove(&used);
        }
    }

    /// There is no such file any more.
    fn forget(&mut self, offset: u64) {
        self.leave_order(offset);
        let entry = self.entries.remove(&offset).expect("what is forgotten is there");
        self.used_bytes -= entry.bytes();
    }
}

impl Files {
    /// Claims the place and the bytes of a record. False if it is there already.
    fn claim(&self, record: &Record) -> Result<bool, PutError> {
        let Name { grant, offset } = record.name;
        let header_len = record.header_len() as u32;
        let entry = Entry { grant, header_len, len: record.len, used: None };
        let mut state = self.lock();
        loop {
            state.check()?;
            if !state.is_ready(offset) {
                state = self.wait(state);
                continue;
            }
            match state.entries.get(&offset).map(|there| there.grant) {
                Some(there) if there == grant => return Ok(false),
                // Its owner has dropped it, or is about to.
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

    /// Writes the file of a record as a whole.
    fn write(&self, record: &Record, data: &[RawSlice]) -> Result<(), PutError> {
        let (number, nonce) = (record.name.offset, self.lock().nonce);
        let drafted = self.directory.draft(number).and_then(|file| {
            write_record(&*file, (0, nonce), record, data)?;
            file.sync()
        });
        match drafted.map_err(|error| (error.kind(), error)) {
            Ok(()) => {}
            // Others use the same filesystem.
            Err((io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _)) => {
                // Otherwise the next process finds and removes it.
                let _ = self.directory.discard(number);
                return Err(PutError::Full);
            }
            Err((_, error)) => return Err(self.fail(&error).into()),
        }
        self.directory.publish(number).map_err(|error| self.fail(&error).into())
    }

    /// Removes the files of records that can be read. They are gone for good once this returns.
    fn remove<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        offsets: &[u64],
    ) -> Result<MutexGuard<'a, State>, Broken> {
        offsets.iter().for_each(|&offset| state.leave_order(offset));
        drop(state);
        self.directory.remove_all(offsets).map_err(|error| self.fail(&error))?;
        let mut state = self.lock();
        offsets.iter().for_each(|&offset| state.forget(offset));
        self.changed.notify_all();
        Ok(state)
    }

    /// Nothing more is written.
    fn fail(&self, error: &io::Error) -> Broken {
        let broken = Broken(error.to_string().into());
        self.lock().broken.get_or_insert(broken.clone());
        self.changed.notify_all();
        broken
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of a name, if it can be read.
    fn find(&self, name: Name) -> Option<(Entry, u64)> {
        let mut state = self.lock();
        let entry = *state.entries.get(&name.offset)?;
        if entry.grant != name.grant || entry.used.is_none() {
            return None;
        }
        state.use_now(name.offset);
        Some((entry, state.nonce))
    }
}

impl RecordStore for Files {
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

    fn read(&self, name: Name, from: u64, dst: RawSlice) -> Result<Option<Box<[u32]>>, ReadError> {
        let (entry, nonce) = self.find(name).ok_or(ReadError::NotThere)?;
        let read = self.directory.open(name.offset).map_err(ReadError::Io).and_then(|file| {
            let (header_len, len) = (entry.header_len as usize, entry.len);
            StoredRecord { file: &*file, nonce, at: 0, header_len, len }.read(name, from, dst)
        });
        // It may have been dropped meanwhile.
        read.map_err(|error| if self.find(name).is_some() { error } else { ReadError::NotThere })
    }

    fn drop_records(&self, names: &[Name]) -> Result<usize, Broken> {
        let mut state = self.lock();
        loop {
            state.check()?;
            if names.iter().all(|name| state.is_ready(name.offset)) {
                break;
            }
            state = self.wait(state);
        }
        let is_there = |name: &&Name| {
            state.entries.get(&name.offset).is_some_and(|entry| entry.grant == name.grant)
        };
        let offsets: BTreeSet<u64> = names.iter().filter(is_there).map(|it| it.offset).collect();
        let offsets: Vec<u64> = offsets.into_iter().collect();
        if !offsets.is_empty() {
            drop(self.remove(state, &offsets)?);
        }
        Ok(offsets.len())
    }

    fn make_room(&self, wanted: u64) -> Result<Vec<Name>, Broken> {
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

    fn renew(&self, nonce: u64) {
        self.lock().nonce = nonce;
    }
}
