//! A record in a file: it is written as a whole, and read by the chunks that hold what is wanted.

use std::io;
use std::ops::Range;

use mooncake_memory::{Buffer, RawSlice};
use mooncake_types::limits::CHUNK_BYTES;

use crate::directory::{BlockFile, ReadAt};
use crate::errors::ReadError;
use crate::layout::{BLOCK, blocks_of};
use crate::record::{Name, Record, data_offset};

/// Writes a record at an offset of a file with this random number, with zeros up to the end of its last block.
pub(crate) fn write_record(
    file: &dyn BlockFile,
    (at, nonce): (u64, u64),
    record: &Record,
    data: &[RawSlice],
) -> io::Result<()> {
    let mut header = record.encode(nonce);
    header.resize(data_offset(header.len()) as usize, 0);
    let header = Buffer::from_vec(header);
    let padding = padding_of(record.len);
    let mut slices = Vec::with_capacity(data.len() + 2);
    slices.push(header.raw());
    slices.extend(data);
    slices.push(padding.raw());
    file.write(&slices, at)
}

/// Where a record lies.
pub(crate) struct StoredRecord<'a> {
    pub(crate) file: &'a dyn ReadAt,
    /// What went into the checksum of its header.
    pub(crate) nonce: u64,
    /// Where it begins in the file, in bytes.
    pub(crate) at: u64,
    /// Length of its header, in bytes, without padding.
    pub(crate) header_len: usize,
    /// Length of its data, in bytes.
    pub(crate) len: u64,
}

impl StoredRecord<'_> {
    /// Reads the header, and bytes of the data from the first one on. Nothing if no record begins here.
    pub(crate) fn header(&self, data: &[RawSlice]) -> io::Result<Option<Record>> {
        let header = Buffer::zeroed(data_offset(self.header_len) as usize);
        let wanted: usize = data.iter().map(RawSlice::len).sum();
        let padding = padding_of(wanted as u64);
        let mut slices = vec![header.raw()];
        slices.extend(data);
        slices.push(padding.raw());
        self.file.read(&slices, self.at)?;
        Ok(Record::decode(header.as_slice(), self.nonce))
    }

    /// Reads bytes of the data, from `from` on, as many as `dst` has room for, if the record has this name. Gives the CRC32C of each
    /// chunk, if these are whole chunks of it; they were compared.
    pub(crate) fn read(
        &self,
        name: Name,
        from: u64,
        dst: RawSlice,
    ) -> Result<Option<Box<[u32]>>, ReadError> {
        let end = from.checked_add(dst.len() as u64).filter(|&end| end <= self.len);
        let end = end.ok_or(ReadError::OutOfBounds)?;
        if dst.is_empty() {
            return Ok(None);
        }
        let is_whole = (from, end) == (0, self.len);
        let data: &[RawSlice] = if is_whole { &[dst] } else { &[] };
        let record = self.header(data)?.filter(|record| record.name == name);
        let record = record.filter(|record| record.len == self.len).ok_or(ReadError::Damaged)?;
        if is_whole {
            ensure(dst.chunk_crcs() == *record.checksums)?;
            return Ok(Some(record.checksums));
        }
        let whole = whole_chunks(from, end, record.len);
        let (begin, stop) = (whole.start * CHUNK_BYTES, (whole.end * CHUNK_BYTES).min(record.len));
        if whole.is_empty() {
            self.read_edges(&record, from, dst)?;
            return Ok(None);
        }
        let (head, tail) = ((begin - from) as usize, (stop - from) as usize);
        self.read_edges(&record, from, dst.sub(0, head))?;
        self.read_whole(&record, &whole, dst.sub(head, tail - head))?;
        self.read_edges(&record, stop, dst.sub(tail, dst.len() - tail))?;
        let sums = || record.checksums[whole.start as usize..whole.end as usize].into();
        Ok((begin == from && stop == end).then(sums))
    }

    /// Reads whole chunks straight to where they are wanted.
    fn read_whole(
        &self,
        record: &Record,
        chunks: &Range<u64>,
        dst: RawSlice,
    ) -> Result<(), ReadError> {
        let at = self.at + data_offset(self.header_len) + chunks.start * CHUNK_BYTES;
        let padding = padding_of(dst.len() as u64);
        self.file.read(&[dst, padding.raw()], at)?;
        let sums = &record.checksums[chunks.start as usize..chunks.end as usize];
        ensure(dst.chunk_crcs() == sums)
    }

    /// Reads parts of chunks by way of the whole ones, whose checksums are known.
    fn read_edges(&self, record: &Record, from: u64, dst: RawSlice) -> Result<(), ReadError> {
        let end = from + dst.len() as u64;
        for chunk in from / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES) {
            let begin = chunk * CHUNK_BYTES;
            let len = CHUNK_BYTES.min(record.len - begin);
            let (low, high) = (from.max(begin), end.min(begin + len));
            if low >= high {
                continue;
            }
            let buffer = Buffer::try_zeroed(len as usize);
            let buffer = buffer.ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
            self.read_whole(record, &(chunk..chunk + 1), buffer.raw())?;
            let part = buffer.raw().sub((low - begin) as usize, (high - low) as usize);
            part.copy_to(dst.sub((low - from) as usize, (high - low) as usize));
        }
        Ok(())
    }
}

/// What fills the last block of so many bytes of a record: whole blocks need no buffer of the system.
fn padding_of(len: u64) -> Buffer {
    Buffer::zeroed((blocks_of(len) * BLOCK - len) as usize)
}

/// The chunks of a record that lie between two places as a whole.
fn whole_chunks(from: u64, end: u64, len: u64) -> Range<u64> {
    let last = if end == len { len.div_ceil(CHUNK_BYTES) } else { end / CHUNK_BYTES };
    from.div_ceil(CHUNK_BYTES)..last
}

fn ensure(is_whole: bool) -> Result<(), ReadError> {
    if is_whole { Ok(()) } else { Err(ReadError::Damaged) }
}
