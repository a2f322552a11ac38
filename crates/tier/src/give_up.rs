//! Files that are given up: an error of space has left it unknown which of their last changes are on the disk.
//!
//! Most filesystems keep what a file has set aside, and then this never happens. Some write nothing in place or set
//! nothing aside. There each write and each sync may find no space. A record or a mark that could not be written costs
//! at most its file: to remove it needs no space, and makes some.

use std::collections::BTreeSet;
use std::io;

use crate::directory::Directory;
use crate::errors::{Broken, PutError, is_of_space};
use crate::index::RecordState;
use crate::log_store::{Log, LogStore, Room};
use crate::record::RecordId;

impl LogStore {
    /// Has a record that was not written count as none. Nothing more is written to its file if there was no space.
    pub(crate) fn withdraw(&self, room: &Room, error: &io::Error) -> PutError {
        if !is_of_space(error) {
            return self.fail(error).into();
        }
        let number = room.file.head.number;
        let withdrawn = match room.file.erase(&[room.block]) {
            Err(error) if is_of_space(&error) => self.give_up(number, &error),
            erased => erased.map_err(|error| self.fail(&error)),
        };
        let mut log = self.lock();
        if log.open == Some(number) {
            log.open = None;
        }
        log.bytes_when_full = Some(log.used_bytes());
        drop(log);
        withdrawn.map_or_else(PutError::from, |()| PutError::Full)
    }

    /// Gives a file up, unless it is being retired: then this waits until it is.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) fn give_up(&self, number: u64, error: &io::Error) -> Result<(), Broken> {
        let mut log = self.lock();
        while log.files.get(&number).is_some_and(|file| file.is_leaving) {
            log.check()?;
            log = self.wait(log);
        }
        let before = log.evicted.len();
        log.give_up(number);
        let records = log.evicted.len() - before;
        drop(log);
        self.changed.notify_all();
        tracing::warn!(number, records, %error, "a file of a disk is given up for want of space");
        Ok(())
    }

    /// Removes the files that were given up. Once this returns true, none of their records can come back. False if
    /// there was no space for that.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) fn sweep(&self) -> Result<bool, Broken> {
        let unwanted = self.lock().unwanted.clone();
        let removed = remove(&*self.directory, &unwanted).map_err(|error| self.fail(&error))?;
        if removed {
            let mut log = self.lock();
            log.unwanted = &log.unwanted - &unwanted;
        }
        Ok(removed)
    }
}

/// Removes files that a store does not want any more. Once this returns true, none of their records can come back.
/// False if there was no space for that.
///
/// # Errors
/// The disk failed.
pub(crate) fn remove(directory: &dyn Directory, unwanted: &BTreeSet<u64>) -> io::Result<bool> {
    if unwanted.is_empty() {
        return Ok(true);
    }
    match directory.remove_all(&unwanted.iter().copied().collect::<Vec<_>>()) {
        Err(error) if is_of_space(&error) => Ok(false),
        removed => removed.map(|()| true),
    }
}

impl Log {
    /// Forgets a file and its records, and remembers that it must be removed.
    pub(crate) fn give_up(&mut self, number: u64) {
        if self.files.remove(&number).is_none() {
            return;
        }
        if self.open == Some(number) {
            self.open = None;
        }
        let is_there = |entry: &crate::index::IndexEntry| {
            entry.file == number && entry.state == RecordState::Ready
        };
        let there = self.index.iter().filter(|(_, entry)| is_there(entry));
        let gone: Vec<RecordId> = there.map(|(&name, _)| name).collect();
        gone.iter().for_each(|name| _ = self.index.remove(name));
        self.evicted.extend(gone);
        self.unwanted.insert(number);
    }
}
