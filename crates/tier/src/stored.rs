//! A record in a file. It is written as a whole, and read by the chunks that hold the wanted bytes.

use std::io;
use std::ops::Range;

use mooncake_memory::{RawSlice, SliceList};
use mooncake_types::limits::CHUNK_BYTES;

use crate::block_buffer::BlockBuffer;
use crate::directory::{BlockFile, ReadAt};
use crate::errors::ReadError;
use crate::layout::BLOCK;
use crate::record::{Record, RecordId, data_offset};

/// Writes a record at offset `at` of a file with this nonce, padded with zeros to whole blocks.
pub(crate) fn write_record(
    file: &dyn BlockFile,
    (at, nonce): (u64, u64),
    record: &Record,
    data: &[RawSlice],
) -> io::Result<()> {
    let encoded = record.encode(nonce);
    let header = BlockBuffer::zeroed(data_offset(encoded.len()) as usize)?;
    header.raw().sub(0, encoded.len()).write_from(&encoded);
    let data: SliceList = data.iter().copied().collect();
    let (whole, rest) = (whole_blocks(data.total_len()), data.total_len() % BLOCK);
    let last = BlockBuffer::zeroed(rest.next_multiple_of(BLOCK) as usize)?;
    let mut at_last = 0;
    for piece in data.sub(whole, rest) {
        piece.copy_to(last.raw().sub(at_last, piece.len()));
        at_last += piece.len();
    }
    let mut slices = vec![header.raw()];
    slices.extend(data.sub(0, whole));
    slices.push(last.raw());
    file.write(&slices, at)
}

/// Length of the whole blocks at the beginning of `len` bytes. Aligned data of this length needs no copy.
const fn whole_blocks(len: u64) -> u64 {
    len - len % BLOCK
}

/// Reads `head` and then `data` from offset `at` on. Reads the last block of `data` by way of a buffer if it is not a
/// whole block.
fn read_blocks(file: &dyn ReadAt, head: RawSlice, data: RawSlice, at: u64) -> io::Result<()> {
    let whole = whole_blocks(data.len() as u64) as usize;
    let rest = data.len() - whole;
    let last = BlockBuffer::zeroed(rest.next_multiple_of(BLOCK as usize))?;
    file.read(&[head, data.sub(0, whole), last.raw()], at)?;
    last.raw().sub(0, rest).copy_to(data.sub(whole, rest));
    Ok(())
}

/// The location of a record.
pub(crate) struct StoredRecord<'a> {
    pub(crate) file: &'a dyn ReadAt,
    /// Nonce that the header's checksum covers.
    pub(crate) nonce: u64,
    /// Offset of the record in the file, in bytes.
    pub(crate) at: u64,
    /// Length of the record's header, in bytes, without padding.
    pub(crate) header_len: usize,
    /// Length of the record's data, in bytes.
    pub(crate) len: u64,
}

impl StoredRecord<'_> {
    /// Reads the header, and the first `data.len()` bytes of the data. Returns `None` if no record begins here.
    pub(crate) fn header(&self, data: RawSlice) -> io::Result<Option<Record>> {
        let header = BlockBuffer::zeroed(data_offset(self.header_len) as usize)?;
        read_blocks(self.file, header.raw(), data, self.at)?;
        Ok(Record::decode(&header.raw().to_vec(), self.nonce))
    }

    /// Reads `dst.len()` bytes of the data, from `from` on, if the record has this name. Returns the CRC32C of each
    /// chunk if the bytes are whole chunks of the record. The checksums have been verified.
    pub(crate) fn read(
        &self,
        name: RecordId,
        from: u64,
        dst: RawSlice,
    ) -> Result<Option<Box<[u32]>>, ReadError> {
        let end = from.checked_add(dst.len() as u64).filter(|&end| end <= self.len);
        let end = end.ok_or(ReadError::OutOfBounds)?;
        if dst.is_empty() {
            return Ok(None);
        }
        let is_whole = (from, end) == (0, self.len);
        let data = if is_whole { dst } else { RawSlice::EMPTY };
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

    /// Reads whole chunks directly into `dst`.
    fn read_whole(
        &self,
        record: &Record,
        chunks: &Range<u64>,
        dst: RawSlice,
    ) -> Result<(), ReadError> {
        let at = self.at + data_offset(self.header_len) + chunks.start * CHUNK_BYTES;
        read_blocks(self.file, RawSlice::EMPTY, dst, at)?;
        let sums = &record.checksums[chunks.start as usize..chunks.end as usize];
        ensure(dst.chunk_crcs() == sums)
    }

    /// Reads parts of chunks by way of a buffer for the whole chunk, whose checksum is known.
    fn read_edges(&self, record: &Record, from: u64, dst: RawSlice) -> Result<(), ReadError> {
        let end = from + dst.len() as u64;
        for chunk in from / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES) {
            let begin = chunk * CHUNK_BYTES;
            let len = CHUNK_BYTES.min(record.len - begin);
            let (low, high) = (from.max(begin), end.min(begin + len));
            if low >= high {
                continue;
            }
            let buffer = BlockBuffer::zeroed(len as usize)?;
            self.read_whole(record, &(chunk..chunk + 1), buffer.raw())?;
            let part = buffer.raw().sub((low - begin) as usize, (high - low) as usize);
            part.copy_to(dst.sub((low - from) as usize, (high - low) as usize));
        }
        Ok(())
    }
}

/// The chunks of a record that lie entirely between two offsets.
fn whole_chunks(from: u64, end: u64, len: u64) -> Range<u64> {
    let last = if end == len { len.div_ceil(CHUNK_BYTES) } else { end / CHUNK_BYTES };
    from.div_ceil(CHUNK_BYTES)..last
}

fn ensure(is_whole: bool) -> Result<(), ReadError> {
    if is_whole { Ok(()) } else { Err(ReadError::Damaged) }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use mooncake_memory::Region;

    use super::*;
    use crate::tests::{name, record};

    /// A file in memory that accepts only whole blocks at aligned addresses.
    #[derive(Default)]
    struct StrictFile(Mutex<Vec<u8>>);

    impl StrictFile {
        fn check(slices: &[RawSlice], at: u64) {
            for slice in slices.iter().filter(|slice| !slice.is_empty()) {
                assert_eq!(slice.as_ptr().addr() % BLOCK as usize, 0, "{slice:?} at {at}");
                assert_eq!(slice.len() % BLOCK as usize, 0, "{slice:?} at {at}");
            }
        }
    }

    impl ReadAt for StrictFile {
        fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
            Self::check(slices, at);
            let (bytes, mut at) = (self.0.lock().expect("no panic"), at as usize);
            for slice in slices {
                slice.write_from(&bytes[at..at + slice.len()]);
                at += slice.len();
            }
            Ok(())
        }
    }

    impl BlockFile for StrictFile {
        fn write(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
            Self::check(slices, at);
            assert_eq!(at, self.0.lock().expect("no panic").len() as u64);
            let all = slices.iter().flat_map(RawSlice::to_vec);
            self.0.lock().expect("no panic").extend(all);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_record_of_aligned_data_goes_to_a_disk_and_back_as_aligned_blocks() {
        for len in [1, 4095, 4096, 100_000, CHUNK_BYTES, 2 * CHUNK_BYTES + 5] {
            let (source, target) = (region(len), region(len));
            let ((record, data), file) = (record(name(7), len), StrictFile::default());
            source.whole().write_from(data.as_slice());
            write_record(&file, (0, 9), &record, &[source.whole()]).expect("it is there");
            let header_len = record.header_len();
            let stored = StoredRecord { file: &file, nonce: 9, at: 0, header_len, len };
            let read = stored.read(record.name, 0, target.whole());
            assert_eq!(read.expect("it is there"), Some(record.checksums.clone()));
            assert_eq!(target.whole().to_vec(), data.as_slice());
            let part = target.slice(0, len.div_ceil(2)).expect("it is longer");
            stored.read(record.name, len / 2, part).expect("it is there");
            assert_eq!(part.to_vec(), data.as_slice()[(len / 2) as usize..]);
        }
    }

    fn region(len: u64) -> Region {
        Region::anonymous(len).expect("there is memory")
    }
}
