//! One file of the log.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use mooncake_memory::RawSlice;

use crate::commit::Commit;
use crate::contents::{Contents, FoundRecord};
use crate::directory::{BlockFile, Directory};
use crate::erased::DropBitmap;
use crate::errors::is_of_medium;
use crate::layout::{
    BLOCK, ERASED_AT, Head, SEAL_AT, Seal, blocks_of, checksum, erased_blocks, first_block,
    table_at, table_nonce,
};
use crate::read_faults::ReadFaults;
use crate::record::Record;
use crate::stored::{StoredRecord, write_record};

/// Blocks that a scan for records reads at once.
const WINDOW_BLOCKS: u64 = 16;

pub(crate) struct LogFile {
    pub(crate) head: Head,
    file: Arc<dyn BlockFile>,
    erased: Mutex<DropBitmap>,
    commit: Commit,
}

/// What a scan of a file found.
#[derive(Default)]
pub(crate) struct Scan {
    /// All records with an intact header, including dropped ones.
    pub(crate) records: Vec<FoundRecord>,
    /// Blocks that cannot be read, at which a record may begin.
    pub(crate) unreadable: Vec<u64>,
}

impl LogFile {
    /// Creates a file without records. The sync of the first record makes its head durable.
    pub(crate) fn create(directory: &dyn Directory, head: Head) -> io::Result<LogFile> {
        Self::begin(directory.create(head.number, head.file_bytes)?, head)
    }

    /// Turns a retired file, which no thread reads or writes any more, into a file without records.
    pub(crate) fn reuse(self, directory: &dyn Directory, head: Head) -> io::Result<LogFile> {
        Self::begin(directory.renumber(self.head.number, head.number)?, head)
    }

    /// Writes the head of a file, which may hold records of a retired file: their nonce is another.
    fn begin(file: Arc<dyn BlockFile>, head: Head) -> io::Result<LogFile> {
        let erased = DropBitmap::none(head.file_bytes, head.nonce);
        let mut blocks = head.encode();
        blocks.resize(ERASED_AT as usize, 0);
        blocks.extend(erased.encode());
        file.write_bytes(&blocks, 0)?;
        Ok(LogFile { head, file, erased: Mutex::new(erased), commit: Commit::default() })
    }

    /// Opens an existing file. Returns `None` if the file was retired, or never held a record. Syncs what it found,
    /// because a process that died may have written it without a sync. Records whose marks cannot be read are dropped.
    pub(crate) fn open(
        directory: &dyn Directory,
        number: u64,
        faults: &ReadFaults,
    ) -> io::Result<Option<LogFile>> {
        let file = directory.open(number)?;
        let first = match file.read_bytes(BLOCK as usize, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Vec::new(),
            first => first?,
        };
        file.sync()?;
        let Some(head) = Head::decode(&first).filter(|head| head.number == number) else {
            return Ok(None);
        };
        let (mut blocks, mut unreadable) = (Vec::new(), Vec::new());
        for block in 0..erased_blocks(head.file_bytes) {
            let read = file.read_bytes(BLOCK as usize, ERASED_AT + block * BLOCK);
            match faults
                .tolerate("which records of a file were dropped: all count as that", read)?
            {
                Some(read) => blocks.extend(read),
                None => {
                    blocks.extend([0xff; BLOCK as usize]);
                    unreadable.push(block as usize);
                }
            }
        }
        let erased = Mutex::new(DropBitmap::decode(&blocks, head.nonce));
        let opened = LogFile { head, file, erased, commit: Commit::default() };
        if !unreadable.is_empty() {
            // A later process may be able to read what this one could not.
            opened.write_erased(unreadable)?;
        }
        Ok(Some(opened))
    }

    /// Writes a record at a block, padded with zeros to whole blocks.
    pub(crate) fn write(&self, block: u64, record: &Record, data: &[RawSlice]) -> io::Result<()> {
        write_record(&*self.file, (block * BLOCK, self.head.nonce), record, data)
    }

    /// The record at a block, whose header and data have these lengths.
    pub(crate) fn stored(&self, block: u64, header_len: u32, len: u64) -> StoredRecord<'_> {
        StoredRecord {
            file: &*self.file,
            nonce: self.head.nonce,
            at: block * BLOCK,
            header_len: header_len as usize,
            len,
        }
    }

    /// Returns once everything that was written before this call is durable.
    pub(crate) fn make_durable(&self) -> io::Result<()> {
        self.commit.wait(|| self.file.sync())
    }

    /// Drops the records that begin at these blocks. The drop is durable once this returns.
    pub(crate) fn erase(&self, records: &[u64]) -> io::Result<()> {
        let mut erased = self.erased.lock().unwrap_or_else(PoisonError::into_inner);
        let mut blocks: Vec<usize> = records.iter().map(|&block| erased.insert(block)).collect();
        drop(erased);
        blocks.sort_unstable();
        blocks.dedup();
        self.write_erased(blocks)
    }

    /// Writes blocks of the bitmap, and makes them durable.
    fn write_erased(&self, blocks: Vec<usize>) -> io::Result<()> {
        let erased = self.erased.lock().unwrap_or_else(PoisonError::into_inner);
        // Written under the lock, so that an older bitmap block never overwrites a newer one.
        for at in blocks {
            self.file.write_bytes(&erased.block(at), ERASED_AT + at as u64 * BLOCK)?;
        }
        drop(erased);
        self.make_durable()
    }

    pub(crate) fn is_erased(&self, block: u64) -> bool {
        self.erased.lock().unwrap_or_else(PoisonError::into_inner).contains(block)
    }

    /// Writes the table of contents and the seal of a file that takes no more records, whose last record ends before
    /// block `end`. A file without room for its table, as earlier versions filled them, gets none.
    pub(crate) fn seal(&self, contents: &Contents, end: u64) -> io::Result<()> {
        let table = contents.bytes();
        let at = table_at(self.head.file_bytes, table.len() as u64);
        if at < end * BLOCK {
            return Ok(());
        }
        let seal =
            Seal { len: table.len() as u64, sum: u64::from(checksum(self.head.nonce, table)) };
        self.file.write_bytes(table, at)?;
        // The table must be durable before the seal that names it.
        self.make_durable()?;
        self.file.write_bytes(&seal.encode(self.head.nonce), SEAL_AT)?;
        self.make_durable()
    }

    /// The records in the table of contents, or `None` if the file has no table that is intact and can be read.
    pub(crate) fn sealed_contents(
        &self,
        faults: &ReadFaults,
    ) -> io::Result<Option<Vec<FoundRecord>>> {
        const COST: &str = "the table of contents of a file: it is scanned";
        let nonce = self.head.nonce;
        let block = faults.tolerate(COST, self.file.read_bytes(BLOCK as usize, SEAL_AT))?;
        let Some(seal) = block.and_then(|block| Seal::decode(&block, nonce)) else {
            return Ok(None);
        };
        let end = self.head.file_bytes;
        for (at, nonce_of_headers) in [(table_at(end, seal.len), table_nonce(nonce)), (end, nonce)]
        {
            let table = match self.file.read_bytes(seal.len as usize, at) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                table => faults.tolerate(COST, table)?,
            };
            let is_whole = |table: &Vec<u8>| u64::from(checksum(nonce, table)) == seal.sum;
            if let Some(table) = table.filter(is_whole) {
                return Ok(Some(Contents::decode(&table, nonce_of_headers)));
            }
        }
        Ok(None)
    }

    /// All records of the file that can be found, including dropped ones.
    pub(crate) fn records(&self, faults: &ReadFaults) -> io::Result<Vec<FoundRecord>> {
        match self.sealed_contents(faults)? {
            Some(records) => Ok(records),
            None => Ok(self.scan(faults)?.records),
        }
    }

    /// Scans the file for records. It skips blocks without a valid header: a writer died there, or the disk lost the
    /// header.
    pub(crate) fn scan(&self, faults: &ReadFaults) -> io::Result<Scan> {
        const RECORD: &str = "a record in a file";
        let (mut scan, mut block) = (Scan::default(), first_block(self.head.file_bytes));
        let end = self.head.file_bytes / BLOCK;
        let (mut window, mut window_at) = (Vec::new(), block);
        while block < end {
            let known = window_at + window.len() as u64 / BLOCK;
            if block >= known {
                match faults.tolerate(RECORD, self.window(block, end))? {
                    Some(read) => (window, window_at) = (read, block),
                    None => {
                        scan.unreadable.push(block);
                        block += 1;
                        continue;
                    }
                }
            }
            let from = ((block - window_at) * BLOCK) as usize;
            match faults.tolerate(RECORD, self.record_at(block, end, &window[from..]))? {
                Some(Some(record)) => {
                    let blocks = record.blocks();
                    scan.records.push(FoundRecord { block, record });
                    block += blocks;
                }
                Some(None) => block += 1,
                None => {
                    scan.unreadable.push(block);
                    block += 1;
                }
            }
        }
        Ok(scan)
    }

    /// Some blocks from this one on: only this one if another cannot be read.
    fn window(&self, block: u64, end: u64) -> io::Result<Vec<u8>> {
        let read = |blocks: u64| self.file.read_bytes((blocks * BLOCK) as usize, block * BLOCK);
        match read((end - block).min(WINDOW_BLOCKS)) {
            Err(error) if is_of_medium(&error) => read(1),
            read => read,
        }
    }

    /// The record that begins at `block` and ends before block `end`, if there is one. `bytes` begin at that block,
    /// and may end before the header does.
    fn record_at(&self, block: u64, end: u64, bytes: &[u8]) -> io::Result<Option<Record>> {
        let Some(len) = Record::announced_len(bytes) else { return Ok(None) };
        let blocks = blocks_of(len as u64);
        if block + blocks > end {
            return Ok(None);
        }
        let record = match bytes.len() < len {
            false => Record::decode(bytes, self.head.nonce),
            true => {
                let all = self.file.read_bytes((blocks * BLOCK) as usize, block * BLOCK)?;
                Record::decode(&all, self.head.nonce)
            }
        };
        Ok(record.filter(|record| block + record.blocks() <= end))
    }

    /// Retires the file: it overwrites the head, so nothing in the file counts as a record again.
    pub(crate) fn retire(&self) -> io::Result<()> {
        self.file.write_bytes(&[0; BLOCK as usize], 0)?;
        self.make_durable()
    }
}
