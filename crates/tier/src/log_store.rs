//! The log as a whole: records are put, read and dropped by name.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_memory::{RawSlice, SliceList};

use crate::contents::Contents;
use crate::directory::Directory;
use crate::errors::{Broken, PutError, ReadError, is_of_space};
use crate::index::{Index, IndexEntry, RecordState};
use crate::layout::{BLOCK, Head, MAX_FILE_BYTES, blocks_of, first_block, table_nonce};
use crate::log_file::LogFile;
use crate::read_faults::ReadFaults;
use crate::record::{Record, RecordId};
use crate::store::{RecordStore, Usage};

/// How large a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Most bytes that all files take together. One file of it is reserved for records that move.
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
    pub(crate) faults: ReadFaults,
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
    /// Files that must be removed before any drop is acknowledged: a dropped record may lie there.
    pub(crate) unwanted: BTreeSet<u64>,
    /// Records that went with files that were given up. The owner has not heard of them yet.
    pub(crate) evicted: Vec<RecordId>,
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
    /// Bytes of the table when all records under way are written.
    pub(crate) table_bytes: u64,
    pub(crate) is_sealed: bool,
    /// Whether the file is being retired.
    pub(crate) is_leaving: bool,
}

impl FileState {
    /// A file without records.
    pub(crate) fn new(file: LogFile) -> FileState {
        let next_block = first_block(file.head.file_bytes);
        let (file, contents) = (Arc::new(file), Contents::default());
        let (writers, live_bytes, table_bytes) = (0, 0, 0);
        let (is_sealed, is_leaving) = (false, false);
        Self { file, next_block, writers, live_bytes, contents, table_bytes, is_sealed, is_leaving }
    }

    /// Reserves space for a record, and for its entry in the table of contents, if there is enough.
    fn reserve(&mut self, record: &Record) -> Option<Room> {
        let block = self.next_block;
        let (next_block, table_bytes) =
            (block + record.blocks(), self.table_bytes + Contents::entry_len(record));
        if (next_block + blocks_of(table_bytes)) * BLOCK > self.file.head.file_bytes {
            return None;
        }
        (self.next_block, self.table_bytes) = (next_block, table_bytes);
        self.writers += 1;
        Some(Room { file: Arc::clone(&self.file), block })
    }
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
        let room = self.make_space(record, most)?;
        let written =
            room.file.write(room.block, record, data).and_then(|()| room.file.make_durable());
        let refused = written.err().map(|error| self.withdraw(&room, &error));
        let mut log = self.lock();
        let number = room.file.head.number;
        let Some(file) = log.files.get_mut(&number) else {
            // The file was given up meanwhile.
            return Err(refused.unwrap_or(PutError::Full));
        };
        file.writers -= 1;
        if refused.is_none() {
            file.live_bytes += record.blocks() * BLOCK;
            file.contents.push(room.block, record, table_nonce(room.file.head.nonce));
            done(&mut log, &room);
        }
        drop(log);
        let sealed = self.seal_if_full(number);
        refused.map_or(Ok(()), Err)?;
        Ok(sealed?)
    }

    /// Reserves space for a record in the open file, or in a new one.
    fn make_space(&self, record: &Record, most: u64) -> Result<Room, PutError> {
        let mut log = self.lock();
        loop {
            log.check()?;
            if log.is_opening {
                log = self.wait(log);
                continue;
            }
            let open = log.open;
            let file = open.and_then(|number| log.files.get_mut(&number));
            if let Some(room) = file.and_then(|file| file.reserve(record)) {
                return Ok(room);
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
        let old = spare.as_ref().map(|spare| spare.head.number);
        let created = self.create_file(head, spare);
        let mut log = self.lock();
        log.is_opening = false;
        self.changed.notify_all();
        match created {
            Ok(file) => {
                log.files.insert(number, FileState::new(file));
                log.open = Some(number);
                Ok(log)
            }
            // Other programs fill the disk. The unfinished file is no file of the log.
            Err(error) if is_of_space(&error) => {
                log.bytes_when_full = Some(log.used_bytes());
                log.unwanted.extend([number].into_iter().chain(old));
                drop(log);
                self.sweep()?;
                Err(PutError::Full)
            }
            Err(error) => {
                drop(log);
                Err(self.fail(&error).into())
            }
        }
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
        let end = file.next_block;
        drop(log);
        match log_file.seal(&contents, end) {
            // Without a table, the file is scanned when it is next needed.
            Err(error) if is_of_space(&error) => Ok(()),
            sealed => sealed.map_err(|error| self.fail(&error)),
        }
    }

    /// The longest record, in bytes, beside a table of contents of so many blocks.
    fn longest_beside(&self, table_blocks: u64) -> u64 {
        let file_bytes = self.config.file_bytes;
        file_bytes.saturating_sub((first_block(file_bytes) + table_blocks) * BLOCK)
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
        let table = blocks_of(Contents::entry_len(record));
        record.check(data.total_len(), self.longest_beside(table))?;
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

    fn unreadable(&self) -> u64 {
        self.faults.count()
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
        for (&number, (file, blocks)) in &erased {
            match file.erase(blocks) {
                Err(error) if is_of_space(&error) => self.give_up(number, &error)?,
                erased => erased.map_err(|error| self.fail(&error))?,
            }
        }
        // A dropped record may also lie in a file that was given up.
        match self.sweep()? {
            true => Ok(count),
            false => Err(Broken("there is no space to drop anything".into())),
        }
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
        self.longest_beside(1)
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
