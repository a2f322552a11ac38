//! One file of the log.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use mooncake_memory::RawSlice;

use crate::commit::Commit;
use crate::contents::{Contents, FoundRecord};
use crate::directory::{BlockFile, Directory};
use crate::erased::DropBitmap;
use crate::layout::{
    BLOCK, ERASED_AT, Head, SEAL_AT, Seal, blocks_of, checksum, erased_blocks, first_block,
};
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
    /// because a process that died may have written it without a sync.
    pub(crate) fn open(directory: &dyn Directory, number: u64) -> io::Result<Option<LogFile>> {
        let file = directory.open(number)?;
        let first = match file.read_bytes(BLOCK as usize, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Vec::new(),
            first => first?,
        };
        file.sync()?;
        let Some(head) = Head::decode(&first).filter(|head| head.number == number) else {
            return Ok(None);
        };
        let len = erased_blocks(head.file_bytes) * BLOCK;
        let erased = DropBitmap::decode(&file.read_bytes(len as usize, ERASED_AT)?, head.nonce);
        Ok(Some(LogFile { head, file, erased: Mutex::new(erased), commit: Commit::default() }))
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
        blocks.sort_unstable();
        blocks.dedup();
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

    /// Writes the table of contents and the seal of a file that takes no more records.
    pub(crate) fn seal(&self, contents: &Contents) -> io::Result<()> {
        let table = contents.bytes();
        let seal =
            Seal { len: table.len() as u64, sum: u64::from(checksum(self.head.nonce, table)) };
        self.file.write_bytes(table, self.head.file_bytes)?;
        // The table must be durable before the seal that names it.
        self.make_durable()?;
        self.file.write_bytes(&seal.encode(self.head.nonce), SEAL_AT)?;
        self.make_durable()
    }

    /// The records in the table of contents, or `None` if the file has no intact table.
    pub(crate) fn sealed_contents(&self) -> io::Result<Option<Vec<FoundRecord>>> {
        let block = self.file.read_bytes(BLOCK as usize, SEAL_AT)?;
        let Some(seal) = Seal::decode(&block, self.head.nonce) else { return Ok(None) };
        let table = match self.file.read_bytes(seal.len as usize, self.head.file_bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            table => table?,
        };
        let is_whole = u64::from(checksum(self.head.nonce, &table)) == seal.sum;
        Ok(is_whole.then(|| Contents::decode(&table, self.head.nonce)))
    }

    /// All records of the file, including dropped ones.
    pub(crate) fn records(&self) -> io::Result<Vec<FoundRecord>> {
        self.sealed_contents()?.map_or_else(|| self.scan(), Ok)
    }

    /// Scans the file for records. It skips blocks without a valid header: a writer died there, or the disk lost the
    /// header.
    pub(crate) fn scan(&self) -> io::Result<Vec<FoundRecord>> {
        let (mut found, mut block) = (Vec::new(), first_block(self.head.file_bytes));
        let end = self.head.file_bytes / BLOCK;
        let (mut window, mut window_at) = (Vec::new(), block);
        while block < end {
            let known = window_at + window.len() as u64 / BLOCK;
            if block >= known {
                let blocks = (end - block).min(WINDOW_BLOCKS);
                window = self.file.read_bytes((blocks * BLOCK) as usize, block * BLOCK)?;
                window_at = block;
            }
            let from = ((block - window_at) * BLOCK) as usize;
            block += match self.record_at(block, end, &window[from..])? {
                Some(record) => {
                    let blocks = record.blocks();
                    found.push(FoundRecord { block, record });
                    blocks
                }
                None => 1,
            };
        }
        Ok(found)
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
