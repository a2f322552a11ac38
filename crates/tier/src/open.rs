//! Opening a log: finds all durable records.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex};

use crate::block_buffer::BlockBuffer;
use crate::clean::MIN_FILES;
use crate::contents::{Contents, FoundRecord};
use crate::directory::Directory;
use crate::errors::{OpenError, is_of_medium, is_of_space};
use crate::index::IndexEntry;
use crate::layout::{BLOCK, MAX_FILE_BYTES, first_block, table_nonce};
use crate::log_file::{LogFile, Scan};
use crate::log_store::{DiskConfig, FileState, Log, LogStore};
use crate::read_faults::ReadFaults;
use crate::record::{Record, RecordId};

impl LogStore {
    /// Opens a log, or creates one, and calls `told` with each durable record.
    ///
    /// # Errors
    /// The configured sizes are invalid, or many of the files cannot be read or written. A few that cannot are given up.
    pub fn open(
        directory: Arc<dyn Directory>,
        config: DiskConfig,
        mut on_record: impl FnMut(Record),
    ) -> Result<LogStore, OpenError> {
        check(&config)?;
        let mut opening = Opening::of(&*directory);
        let mut numbers = directory.list()?;
        numbers.sort_unstable();
        opening.log.next_number = numbers.last().copied().unwrap_or(0);
        for &number in &numbers {
            opening.open_file(number)?;
        }
        ReadFaults::check_losses(opening.lost_files, numbers.len())?;
        opening.erase_duplicates()?;
        let Opening { mut log, records, faults, .. } = opening;
        // The owner never hears of what lay in a file that was given up.
        log.evicted.clear();
        let is_kept = |record: &Record| log.index.contains_key(&record.name);
        records.into_iter().filter(is_kept).for_each(&mut on_record);
        let (log, changed, cleaning) = (Mutex::new(log), Condvar::new(), Mutex::new(()));
        let store = LogStore { config, directory, log, changed, cleaning, faults };
        store.sweep().map_err(|broken| OpenError::Io(io::Error::other(broken)))?;
        Ok(store)
    }

    /// Empties a log that no process has open. Once this returns, no record of it can be found again.
    ///
    /// # Errors
    /// The files cannot be listed or removed.
    pub fn empty(directory: &dyn Directory) -> io::Result<()> {
        directory.settle()?;
        directory.remove_all(&directory.list()?)
    }

    /// The names of all readable records, in no particular order.
    #[must_use]
    pub fn names(&self) -> Vec<RecordId> {
        let log = self.lock();
        log.index.iter().filter(|(_, entry)| entry.is_readable()).map(|(&name, _)| name).collect()
    }
}

fn check(config: &DiskConfig) -> Result<(), OpenError> {
    let DiskConfig { capacity, file_bytes, .. } = *config;
    // A header, a block of bytes, and the table of contents.
    let least = (first_block(file_bytes) + 3) * BLOCK;
    let reason = if !file_bytes.is_multiple_of(BLOCK) || file_bytes > MAX_FILE_BYTES {
        format!("a file of {file_bytes} bytes is no multiple of {BLOCK} up to {MAX_FILE_BYTES}")
    } else if file_bytes < least {
        format!("a file of {file_bytes} bytes holds no record; {least} would hold one")
    } else if capacity / file_bytes < MIN_FILES {
        format!("{capacity} bytes are less than {MIN_FILES} files of {file_bytes}")
    } else {
        return Ok(());
    };
    Err(OpenError::Config(reason))
}

/// A log that is being opened.
struct Opening<'a> {
    directory: &'a dyn Directory,
    log: Log,
    /// All records that were found.
    records: Vec<Record>,
    /// Second copies of records, by the number of their file: the power failed while a record was being moved, and
    /// both copies are intact.
    duplicates: BTreeMap<u64, Vec<u64>>,
    /// How many files cannot be used.
    lost_files: usize,
    faults: ReadFaults,
}

impl<'a> Opening<'a> {
    fn of(directory: &'a dyn Directory) -> Self {
        let (records, duplicates) = (Vec::new(), BTreeMap::new());
        let (log, faults) = (Log::default(), ReadFaults::default());
        Self { directory, log, records, duplicates, lost_files: 0, faults }
    }

    /// Takes the records of a file. A file that is retired is removed, and one that the disk cannot read or write is
    /// given up: what this process does not find there must not come back.
    fn open_file(&mut self, number: u64) -> io::Result<()> {
        let opened = LogFile::open(self.directory, number, &self.faults);
        let found = opened.and_then(|file| {
            file.map(|file| Ok((find_records(&file, &self.faults)?, file))).transpose()
        });
        match found {
            Ok(Some((records, file))) => self.take(number, file, records),
            Ok(None) => match self.directory.remove(number) {
                Err(error) if is_of_space(&error) => _ = self.log.unwanted.insert(number),
                removed => removed?,
            },
            Err(error) if is_of_space(&error) || is_of_medium(&error) => {
                self.faults.note("a file with all its objects", &error);
                self.log.unwanted.insert(number);
                self.lost_files += 1;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn take(&mut self, number: u64, file: LogFile, records: Vec<FoundRecord>) {
        let is_live = |found: &FoundRecord| !file.is_erased(found.block);
        let mut live_bytes = 0;
        let end = records.iter().map(|found| found.block + found.record.blocks()).max();
        for FoundRecord { block, record } in records.into_iter().filter(is_live) {
            if self.log.index.contains_key(&record.name) {
                self.duplicates.entry(number).or_default().push(block);
                continue;
            }
            live_bytes += record.blocks() * BLOCK;
            self.log.index.insert(record.name, IndexEntry::ready(number, block, &record));
            self.records.push(record);
        }
        let next_block = end.unwrap_or(first_block(file.head.file_bytes));
        let state = FileState { next_block, live_bytes, is_sealed: true, ..FileState::new(file) };
        self.log.files.insert(number, state);
    }

    /// A drop erases one copy only, so the second copies must go before any drop is possible.
    fn erase_duplicates(&mut self) -> io::Result<()> {
        for (number, blocks) in std::mem::take(&mut self.duplicates) {
            match self.log.files[&number].file.erase(&blocks) {
                Err(error) if is_of_space(&error) => self.log.give_up(number),
                erased => erased?,
            }
        }
        Ok(())
    }
}

/// The records of a file. If the file is not sealed, this reads and checks every record, and then seals the file. What
/// cannot be read is dropped, since a later process may be able to read it.
fn find_records(file: &LogFile, faults: &ReadFaults) -> io::Result<Vec<FoundRecord>> {
    let first = first_block(file.head.file_bytes);
    let end = file.head.file_bytes / BLOCK;
    if let Some(sealed) = file.sealed_contents(faults)? {
        let is_inside = |found: &FoundRecord| found.block + found.record.blocks() <= end;
        return Ok(sealed.into_iter().filter(is_inside).collect());
    }
    let Scan { records, mut unreadable } = file.scan(faults)?;
    let mut whole = Vec::new();
    for found in records {
        match faults.tolerate("a record in a file", is_whole(file, &found))? {
            Some(true) => whole.push(found),
            Some(false) => {}
            None => unreadable.push(found.block),
        }
    }
    if !unreadable.is_empty() {
        file.erase(&unreadable)?;
    }
    let mut contents = Contents::default();
    let nonce = table_nonce(file.head.nonce);
    whole.iter().for_each(|found| contents.push(found.block, &found.record, nonce));
    let last = whole.iter().map(|found| found.block + found.record.blocks()).max();
    match file.seal(&contents, last.unwrap_or(first)) {
        // The next process scans the file again.
        Err(error) if is_of_space(&error) => {}
        sealed => sealed?,
    }
    Ok(whole)
}

/// Reads a record and compares its checksums.
fn is_whole(file: &LogFile, found: &FoundRecord) -> io::Result<bool> {
    let buffer = BlockBuffer::zeroed(found.record.len as usize)?;
    let header_len = found.record.header_len() as u32;
    file.stored(found.block, header_len, found.record.len).header(buffer.raw())?;
    Ok(buffer.raw().chunk_crcs() == *found.record.checksums)
}
