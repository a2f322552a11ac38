//! The log as a whole: records are put, read and dropped by name.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_memory::{RawSlice, SliceList};

use crate::contents::Contents;
use crate::directory::Directory;
use crate::errors::{Broken, PutError, ReadError};
use crate::index::{Index, IndexEntry, RecordState};
use crate::layout::{BLOCK, Head, MAX_FILE_BYTES, first_block};
use crate::log_file::LogFile;
use crate::record::{Record, RecordId};
use crate::store::{RecordStore, Usage};

/// How large a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Most bytes that all files take together, without their tables of contents. One file of it is reserved for
    /// records that move.
    pub capacity: u64,
    /// Length of each file, in bytes: a multiple of 4,096, at most 1 GiB. No record is longer than a file.
    pub file_bytes: u64,
    /// A secret number, from which the nonces of files are derived.
    pub seed: u64,
}

/// A log of records. Any thread may make any call. A call that writes returns once its changes are durable.
pub struct LogStore {
    pub(crate) config: DiskConfig,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) log: Mutex<Log>,
    /// Signalled when an entry becomes ready, or a file was opened.
    pub(crate) changed: Condvar,
    /// Held by the thread that makes room.
    pub(crate) cleaning: Mutex<()>,
}

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) index: Index,
    pub(crate) files: BTreeMap<u64, FileState>,
    /// The file that takes records.
    pub(crate) open: Option<u64>,
    pub(crate) next_number: u64,
    pub(crate) is_opening: bool,
    /// A retired file, which the next new file takes over. The filesystem has its blocks marked as written already, so
    /// a sync there changes none of the filesystem's own tables, and is faster.
    pub(crate) spare: Option<Arc<LogFile>>,
    /// Total length of the files when the disk had no space for one more. `None` once room was made.
    pub(crate) bytes_when_full: Option<u64>,
    pub(crate) broken: Option<Broken>,
}

pub(crate) struct FileState {
    pub(crate) file: Arc<LogFile>,
    /// Block at which the next record begins; in a sealed file, the block behind the last record.
    pub(crate) next_block: u64,
    /// How many threads are writing records to this file.
    pub(crate) writers: usize,
    pub(crate) live_bytes: u64,
    /// The table of contents so far; empty once the file is sealed.
    pub(crate) contents: Contents,
    pub(crate) is_sealed: bool,
}

/// Space for one record in a file.
pub(crate) struct Room {
    pub(crate) file: Arc<LogFile>,
    pub(crate) block: u64,
}

impl Log {
    pub(crate) fn used_bytes(&self) -> u64 {
        self.files.values().map(|file| file.file.head.file_bytes).sum()
    }

    pub(crate) fn check(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), Err)
    }
}

impl LogStore {
    /// Whether a record can be read.
    #[must_use]
    pub fn contains(&self, name: RecordId) -> bool {
        self.lock().index.get(&name).is_some_and(IndexEntry::is_readable)
    }

    /// Finds a readable record, and the file that holds it. Marks the record as read.
    fn find(&self, name: RecordId) -> Option<(IndexEntry, Arc<LogFile>)> {
        let mut log = self.lock();
        let entry = log.index.get_mut(&name).filter(|entry| entry.is_readable())?;
        entry.was_read = true;
        let entry = *entry;
        let file = log.files.get(&entry.file).expect("the file of a record is there");
        Some((entry, Arc::clone(&file.file)))
    }

    /// Writes a record at the end of the log, makes it durable, and then calls `done` under the lock. The files
    /// together may take `most` bytes. Nothing retires the file before `done` has returned.
    pub(crate) fn append(
        &self,
        record: &Record,
        data: &[RawSlice],
        most: u64,
        done: impl FnOnce(&mut Log, &Room),
    ) -> Result<(), PutError> {
        let room = self.make_space(record.blocks(), most)?;
        let written =
            room.file.write(room.block, record, data).and_then(|()| room.file.make_durable());
        let mut log = self.lock();
        let number = room.file.head.number;
        let file = log.files.get_mut(&number).expect("a file with writers stays");
        file.writers -= 1;
        if written.is_ok() {
            file.live_bytes += record.blocks() * BLOCK;
            file.contents.push(room.block, record, room.file.head.nonce);
            done(&mut log, &room);
        }
        drop(log);
        written.map_err(|error| self.fail(&error))?;
        Ok(self.seal_if_full(number)?)
    }

    /// Reserves `blocks` blocks in the open file, or in a new one.
    fn make_space(&self, blocks: u64, most: u64) -> Result<Room, PutError> {
        let mut log = self.lock();
        loop {
            log.check()?;
            if log.is_opening {
                log = self.wait(log);
                continue;
            }
            let end = self.config.file_bytes / BLOCK;
            let open = log.open;
            let file = open.and_then(|number| log.files.get_mut(&number));
            if let Some(file) = file.filter(|file| file.next_block + blocks <= end) {
                let block = file.next_block;
                file.next_block += blocks;
                file.writers += 1;
                return Ok(Room { file: Arc::clone(&file.file), block });
            }
            if log.used_bytes() + self.config.file_bytes > most {
                return Err(PutError::Full);
            }
            let full = log.open.take();
            log.is_opening = true;
            drop(log);
            if let Some(full) = full {
                self.seal_if_full(full)?;
            }
            log = self.open_file()?;
        }
    }

    /// Opens a new file for records.
    fn open_file(&self) -> Result<MutexGuard<'_, Log>, PutError> {
        let (number, spare) = {
            let mut log = self.lock();
            log.next_number += 1;
            (log.next_number, log.spare.take())
        };
        let file_bytes = self.config.file_bytes;
        let nonce = nonce(self.config.seed, number);
        let head = Head { number, file_bytes, nonce };
        let created = self.create_file(head, spare).map_err(|error| match error.kind() {
            // Other programs fill the disk. The unfinished file is no file of the log, even if it cannot be removed.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let _ = self.directory.remove(number);
                PutError::Full
            }
            _ => self.fail(&error).into(),
        });
        let mut log = self.lock();
        log.is_opening = false;
        if matches!(created, Err(PutError::Full)) {
            log.bytes_when_full = Some(log.used_bytes());
        }
        self.changed.notify_all();
        let file = FileState {
            file: Arc::new(created?),
            next_block: first_block(file_bytes),
            writers: 0,
            live_bytes: 0,
            contents: Contents::default(),
            is_sealed: false,
        };
        log.files.insert(number, file);
        log.open = Some(number);
        Ok(log)
    }

    /// Creates a file, out of the spare one unless a thread still reads that.
    fn create_file(&self, head: Head, spare: Option<Arc<LogFile>>) -> io::Result<LogFile> {
        let directory = &*self.directory;
        let Some(spare) = spare else { return LogFile::create(directory, head) };
        let number = spare.head.number;
        let created = match Arc::into_inner(spare) {
            Some(spare) => spare.reuse(directory, head),
            None => directory.remove(number).and_then(|()| LogFile::create(directory, head)),
        };
        match created {
            // Another program has removed the spare file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                LogFile::create(directory, head)
            }
            created => created,
        }
    }

    /// Seals a file that takes no more records, once its last writer has finished.
    fn seal_if_full(&self, number: u64) -> Result<(), Broken> {
        let mut log = self.lock();
        if log.open == Some(number) {
            return Ok(());
        }
        let Some(file) = log.files.get_mut(&number) else { return Ok(()) };
        if file.writers > 0 || file.is_sealed {
            return Ok(());
        }
        file.is_sealed = true;
        let (log_file, contents) = (Arc::clone(&file.file), std::mem::take(&mut file.contents));
        drop(log);
        log_file.seal(&contents).map_err(|error| self.fail(&error))
    }

    /// Marks the log as broken: it writes nothing more.
    pub(crate) fn fail(&self, error: &io::Error) -> Broken {
        let broken = Broken(error.to_string().into());
        self.lock().broken.get_or_insert(broken.clone());
        self.changed.notify_all();
        broken
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a>(&self, log: MutexGuard<'a, Log>) -> MutexGuard<'a, Log> {
        self.changed.wait(log).unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordStore for LogStore {
    fn put(&self, record: &Record, data: &SliceList) -> Result<(), PutError> {
        record.check(data.total_len(), self.longest_record())?;
        let mut log = self.lock();
        loop {
            log.check()?;
            match log.index.get(&record.name) {
                None => break,
                Some(entry) if entry.is_readable() => return Ok(()),
                Some(_) => log = self.wait(log),
            }
        }
        let entry = IndexEntry { state: RecordState::Writing, ..IndexEntry::ready(0, 0, record) };
        log.index.insert(record.name, entry);
        drop(log);
        let most = self.config.capacity - self.config.file_bytes;
        let written = self.append(record, data.slices(), most, |log, room| {
            log.index
                .insert(record.name, IndexEntry::ready(room.file.head.number, room.block, record));
        });
        if written.is_err() {
            self.lock().index.remove(&record.name);
        }
        self.changed.notify_all();
        written
    }

    fn read(
        &self,
        name: RecordId,
        from: u64,
        dst: RawSlice,
    ) -> Result<Option<Box<[u32]>>, ReadError> {
        let (entry, file) = self.find(name).ok_or(ReadError::NotThere)?;
        file.stored(u64::from(entry.block), entry.header_len, entry.len).read(name, from, dst)
    }

    fn drop_records(&self, names: &[RecordId]) -> Result<usize, Broken> {
        let mut erased: BTreeMap<u64, (Arc<LogFile>, Vec<u64>)> = BTreeMap::new();
        let mut count = 0;
        let mut log = self.lock();
        for name in names {
            let entry = loop {
                log.check()?;
                match log.index.get(name) {
                    Some(entry) if entry.state != RecordState::Ready => log = self.wait(log),
                    found => break found.copied(),
                }
            };
            let Some(entry) = entry else { continue };
            log.index.remove(name);
            let file = log.files.get_mut(&entry.file).expect("the file of a record is there");
            file.live_bytes -= entry.bytes();
            let blocks =
                erased.entry(entry.file).or_insert_with(|| (Arc::clone(&file.file), vec![]));
            blocks.1.push(u64::from(entry.block));
            count += 1;
        }
        drop(log);
        for (file, blocks) in erased.values() {
            file.erase(blocks).map_err(|error| self.fail(&error))?;
        }
        Ok(count)
    }

    fn make_room(&self, wanted: u64) -> Result<Vec<RecordId>, Broken> {
        self.retire_files(wanted)
    }

    fn usage(&self) -> Usage {
        let log = self.lock();
        let live_bytes = log.files.values().map(|file| file.live_bytes).sum();
        let records = log.index.values().filter(|entry| entry.is_readable()).count();
        Usage { records, live_bytes, used_bytes: log.used_bytes() }
    }

    fn is_broken(&self) -> bool {
        self.lock().broken.is_some()
    }

    fn longest_record(&self) -> u64 {
        self.config.file_bytes - first_block(self.config.file_bytes) * BLOCK
    }
}

/// The nonce of a file.
pub(crate) fn nonce(seed: u64, number: u64) -> u64 {
    let mut mixed = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3 {
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    mixed
}

const _: () = assert!(MAX_FILE_BYTES / BLOCK <= u32::MAX as u64);
