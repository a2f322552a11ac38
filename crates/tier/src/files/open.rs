//! Opening a store of files: finds all durable records.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use mooncake_memory::with_waiting_helpers;

use super::{FileEntry, FileStore, FilesConfig, FilesState};
use crate::directory::{BlockFile, Directory};
use crate::errors::OpenError;
use crate::layout::BLOCK;
use crate::read_faults::ReadFaults;
use crate::record::{Record, data_offset};

/// The longest header of a record, in bytes, which an object of 4 TiB has.
const MAX_HEADER_BYTES: usize = 64 << 20;

impl FileStore {
    /// Opens the files of a folder, and calls `told` with each durable record. Numbered files that hold no record of
    /// this store are removed.
    ///
    /// # Errors
    /// Many of the files cannot be read, or some cannot be removed. A few that cannot be read are given up.
    pub fn open(
        directory: Arc<dyn Directory>,
        config: FilesConfig,
        on_record: impl FnMut(Record),
    ) -> Result<FileStore, OpenError> {
        // A file whose removal was not durable could otherwise return after a power cut, unknown to this process.
        directory.settle()?;
        let numbers = directory.list()?;
        // Shared filesystems have long latencies, so the files are read in parallel.
        let found =
            with_waiting_helpers(&numbers, |&number| header_of(&*directory, number, config.nonce));
        let (faults, files) = (ReadFaults::default(), numbers.len());
        let (mut records, mut others, mut lost_files) = (Vec::new(), Vec::new(), 0);
        for (number, record) in numbers.into_iter().zip(found) {
            let record = faults.tolerate("a file with its object", record)?;
            lost_files += usize::from(record.is_none());
            match record.flatten() {
                Some(record) => records.push(record),
                None => others.push(number),
            }
        }
        ReadFaults::check_losses(lost_files, files)?;
        directory.remove_all(&others)?;
        // The folder does not record uses: the oldest grants are evicted first.
        records.sort_unstable_by_key(|record| record.name.grant);
        let mut state = FilesState { nonce: config.nonce, ..FilesState::default() };
        records.iter().for_each(|record| state.take(record));
        records.into_iter().for_each(on_record);
        let (state, changed, sweeping) = (Mutex::new(state), Condvar::new(), Mutex::new(()));
        Ok(FileStore { config, directory, state, changed, sweeping, faults })
    }

    /// Removes all files of a folder that no process has open.
    ///
    /// # Errors
    /// The files cannot be listed or removed.
    pub fn empty(directory: &dyn Directory) -> io::Result<()> {
        directory.settle()?;
        directory.remove_all(&directory.list()?)
    }
}

impl FilesState {
    /// Adds a record that was found in the folder.
    fn take(&mut self, record: &Record) {
        let header_len = record.header_len() as u32;
        let entry = FileEntry { grant: record.name.grant, header_len, len: record.len, used: None };
        self.used_bytes += entry.bytes();
        self.entries.insert(record.name.offset, entry);
        self.use_now(record.name.offset);
    }
}

/// Reads the header of a file, if it names the record of this number.
fn header_of(directory: &dyn Directory, number: u64, nonce: u64) -> io::Result<Option<Record>> {
    match directory.open(number) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => read_header(&*file?, nonce).map(|it| it.filter(|it| it.name.offset == number)),
    }
}

/// Reads the header at the beginning of a file, if its checksum fits this nonce.
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
