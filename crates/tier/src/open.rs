//! Opening a log: finds all durable records.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex};

use crate::block_buffer::BlockBuffer;
use crate::clean::MIN_FILES;
use crate::contents::{Contents, FoundRecord};
use crate::directory::Directory;
use crate::errors::OpenError;
use crate::index::IndexEntry;
use crate::layout::{BLOCK, MAX_FILE_BYTES, first_block};
use crate::log_file::LogFile;
use crate::log_store::{DiskConfig, FileState, Log, LogStore};
use crate::record::{Record, RecordId};

impl LogStore {
    /// Opens a log, or creates one, and calls `told` with each durable record.
    ///
    /// # Errors
    /// The configured sizes are invalid, or the files cannot be read or written.
    pub fn open(
        directory: Arc<dyn Directory>,
        config: DiskConfig,
        mut on_record: impl FnMut(Record),
    ) -> Result<LogStore, OpenError> {
        check(&config)?;
        let mut log = Log::default();
        let mut duplicates: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut numbers = directory.list()?;
        numbers.sort_unstable();
        log.next_number = numbers.last().copied().unwrap_or(0);
        for number in numbers {
            let Some(file) = LogFile::open(&*directory, number)? else {
                directory.remove(number)?;
                continue;
            };
            let records = find_records(&file)?;
            let is_live = |found: &FoundRecord| !file.is_erased(found.block);
            let mut live_bytes = 0;
            let end = records.iter().map(|found| found.block + found.record.blocks()).max();
            for FoundRecord { block, record } in records.into_iter().filter(is_live) {
                // The power failed while the record was being moved, and both copies are intact.
                if log.index.contains_key(&record.name) {
                    duplicates.entry(number).or_default().push(block);
                    continue;
                }
                live_bytes += record.blocks() * BLOCK;
                log.index.insert(record.name, IndexEntry::ready(number, block, &record));
                on_record(record);
            }
            let state = FileState {
                next_block: end.unwrap_or(first_block(file.head.file_bytes)),
                file: Arc::new(file),
                writers: 0,
                live_bytes,
                contents: Contents::default(),
                is_sealed: true,
            };
            log.files.insert(number, state);
        }
        for (number, blocks) in duplicates {
            // A drop erases one copy only, so the second copy must go before any drop is possible.
            log.files[&number].file.erase(&blocks)?;
        }
        let (log, changed, cleaning) = (Mutex::new(log), Condvar::new(), Mutex::new(()));
        Ok(LogStore { config, directory, log, changed, cleaning })
    }

    /// Empties a log that no process has open. Once this returns, no record of it can be found again.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub fn empty(directory: &dyn Directory) -> io::Result<()> {
        for number in directory.list()? {
            if let Some(file) = LogFile::open(directory, number)? {
                file.retire()?;
            }
            directory.remove(number)?;
        }
        Ok(())
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
    let least = (first_block(file_bytes) + 2) * BLOCK;
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

/// The records of a file. If the file is not sealed, this reads and checks every record, and then seals the file.
fn find_records(file: &LogFile) -> io::Result<Vec<FoundRecord>> {
    let end = file.head.file_bytes / BLOCK;
    if let Some(sealed) = file.sealed_contents()? {
        let is_inside = |found: &FoundRecord| found.block + found.record.blocks() <= end;
        return Ok(sealed.into_iter().filter(is_inside).collect());
    }
    let mut whole = Vec::new();
    for found in file.scan()? {
        if is_whole(file, &found)? {
            whole.push(found);
        }
    }
    let mut contents = Contents::default();
    whole.iter().for_each(|found| contents.push(found.block, &found.record, file.head.nonce));
    file.seal(&contents)?;
    Ok(whole)
}

/// Reads a record and compares its checksums.
fn is_whole(file: &LogFile, found: &FoundRecord) -> io::Result<bool> {
    let buffer = BlockBuffer::zeroed(found.record.len as usize)?;
    let header_len = found.record.header_len() as u32;
    file.stored(found.block, header_len, found.record.len).header(buffer.raw())?;
    Ok(buffer.raw().chunk_crcs() == *found.record.checksums)
}
