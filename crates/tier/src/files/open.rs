//! Opening a store of files: finding all records that last.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use mooncake_memory::with_waiting_helpers;

use super::{Entry, Files, FilesConfig, State};
use crate::directory::{BlockFile, Directory};
use crate::errors::OpenError;
use crate::layout::BLOCK;
use crate::record::{Record, data_offset};

/// The longest header of a record, in bytes: that of an object of 4 TiB.
const MAX_HEADER_BYTES: usize = 64 << 20;

impl Files {
    /// Opens the files of a folder. Each record that lasts is `told`. What has the number of one and is none is removed.
    ///
    /// # Errors
    /// The files cannot be read or removed.
    pub fn open(
        directory: Arc<dyn Directory>,
        config: FilesConfig,
        told: impl FnMut(Record),
    ) -> Result<Files, OpenError> {
        // Otherwise the power could bring back what this process has never seen.
        directory.settle()?;
        let numbers = directory.list()?;
        // A shared filesystem is far away.
        let found =
            with_waiting_helpers(&numbers, |&number| header_of(&*directory, number, config.nonce));
        let (mut records, mut others) = (Vec::new(), Vec::new());
        for (number, record) in numbers.into_iter().zip(found) {
            match record? {
                Some(record) => records.push(record),
                None => others.push(number),
            }
        }
        directory.remove_all(&others)?;
        // The folder does not say when they were used: what was granted first goes first.
        records.sort_unstable_by_key(|record| record.name.grant);
        let mut state = State { nonce: config.nonce, ..State::default() };
        records.iter().for_each(|record| state.take(record));
        records.into_iter().for_each(told);
        Ok(Files { config, directory, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Removes all files of a folder that no process has opened.
    ///
    /// # Errors
    /// The files cannot be listed or removed.
    pub fn empty(directory: &dyn Directory) -> io::Result<()> {
        directory.settle()?;
        directory.remove_all(&directory.list()?)
    }
}

impl State {
    /// A record that was found.
    fn take(&mut self, record: &Record) {
        let header_len = record.header_len() as u32;
        let entry = Entry { grant: record.name.grant, header_len, len: record.len, used: None };
        self.used_bytes += entry.bytes();
        self.entries.insert(record.name.offset, entry);
        self.use_now(record.name.offset);
    }
}

/// The header of the record in a file, if it holds the record of its number.
fn header_of(directory: &dyn Directory, number: u64, nonce: u64) -> io::Result<Option<Record>> {
    match directory.open(number) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => read_header(&*file?, nonce).map(|it| it.filter(|it| it.name.offset == number)),
    }
}

/// The header that a file begins with, if it is one of this number.
pub(super) fn read_header(file: &dyn BlockFile, nonce: u64) -> io::Result<Option<Record>> {
    let read = |len: u64| match file.read_bytes(len as usize, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Vec::new()),
        read => read,
    };
    let mut header = read(BLOCK)?;
    match Record::announced_len(&header) {
        None => return Ok(None),
        Some(len) if len > MAX_HEADER_BYTES => return Ok(None),
        Some(len) if len > header.len() => header = read(data_offset(len))?,
        Some(_) => {}
    }
    Ok(Record::decode(&header, nonce))
}
