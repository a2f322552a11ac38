//! Reading a record: all of it, or the chunks that hold what is wanted.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use mooncake_memory::{Buffer, RawSlice};
use mooncake_types::limits::CHUNK_BYTES;

use crate::disk::Disk;
use crate::errors::ReadError;
use crate::index::Entry;
use crate::layout::BLOCK;
use crate::log_file::LogFile;
use crate::record::{Name, Record, data_offset};

impl Disk {
    /// Reads bytes of a record, from `from` on, as many as `dst` has room for. Gives the CRC32C of each chunk, if these are whole
    /// chunks of it; they were compared.
    ///
    /// # Errors
    /// See [`ReadError`]. `dst` may hold anything then.
    pub fn read(
        &self,
        name: Name,
        from: u64,
        dst: RawSlice,
    ) -> Result<Option<Box<[u32]>>, ReadError> {
        let (entry, file) = self.find(name).ok_or(ReadError::NotThere)?;
        let end = from.checked_add(dst.len() as u64).filter(|&end| end <= entry.len);
        let end = end.ok_or(ReadError::OutOfBounds)?;
        if dst.is_empty() {
            return Ok(None);
        }
        let at = (u64::from(entry.block), entry.header_len as usize);
        let is_whole = (from, end) == (0, entry.len);
        let data: &[RawSlice] = if is_whole { &[dst] } else { &[] };
        let record = file.read(at, data)?.filter(|record| record.name == name);
        let record = record.filter(|record| record.len == entry.len).ok_or(ReadError::Damaged)?;
        if is_whole {
            ensure(dst.chunk_crcs() == *record.checksums)?;
            return Ok(Some(record.checksums));
        }
        let part = Part { file: &file, data: at.0 * BLOCK + data_offset(at.1), record: &record };
        let whole = whole_chunks(from, end, record.len);
        let (begin, stop) = (whole.start * CHUNK_BYTES, (whole.end * CHUNK_BYTES).min(record.len));
        if whole.is_empty() {
            part.read_edges(from, dst)?;
            return Ok(None);
        }
        let (head, tail) = ((begin - from) as usize, (stop - from) as usize);
        part.read_edges(from, dst.sub(0, head))?;
        part.read_whole(&whole, dst.sub(head, tail - head))?;
        part.read_edges(stop, dst.sub(tail, dst.len() - tail))?;
        let sums = || record.checksums[whole.start as usize..whole.end as usize].into();
        Ok((begin == from && stop == end).then(sums))
    }

    /// The record of an entry, and the file that holds it.
    fn find(&self, name: Name) -> Option<(Entry, Arc<LogFile>)> {
        let mut log = self.lock();
        let entry = log.index.get_mut(&name).filter(|entry| entry.is_readable())?;
        entry.was_read = true;
        let entry = *entry;
        let file = log.files.get(&entry.file).expect("the file of a record is there");
        Some((entry, Arc::clone(&file.file)))
    }
}

/// A record of which a part is wanted.
struct Part<'a> {
    file: &'a LogFile,
    /// Where its bytes begin in the file.
    data: u64,
    record: &'a Record,
}

impl Part<'_> {
    /// Reads whole chunks straight to where they are wanted.
    fn read_whole(&self, chunks: &Range<u64>, dst: RawSlice) -> Result<(), ReadError> {
        self.file.read_data(self.data + chunks.start * CHUNK_BYTES, dst)?;
        let sums = &self.record.checksums[chunks.start as usize..chunks.end as usize];
        ensure(dst.chunk_crcs() == sums)
    }

    /// Reads parts of chunks by way of the whole ones, whose checksums are known.
    fn read_edges(&self, from: u64, dst: RawSlice) -> Result<(), ReadError> {
        let end = from + dst.len() as u64;
        for chunk in from / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES) {
            let begin = chunk * CHUNK_BYTES;
            let len = CHUNK_BYTES.min(self.record.len - begin);
            let (low, high) = (from.max(begin), end.min(begin + len));
            if low >= high {
                continue;
            }
            let buffer = Buffer::try_zeroed(len as usize);
            let buffer = buffer.ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
            self.read_whole(&(chunk..chunk + 1), buffer.raw())?;
            let part = buffer.raw().sub((low - begin) as usize, (high - low) as usize);
            part.copy_to(dst.sub((low - from) as usize, (high - low) as usize));
        }
        Ok(())
    }
}

/// The chunks of a record that lie between two places as a whole.
fn whole_chunks(from: u64, end: u64, len: u64) -> Range<u64> {
    let last = if end == len { len.div_ceil(CHUNK_BYTES) } else { end / CHUNK_BYTES };
    from.div_ceil(CHUNK_BYTES)..last
}

fn ensure(is_whole: bool) -> Result<(), ReadError> {
    if is_whole { Ok(()) } else { Err(ReadError::Damaged) }
}
