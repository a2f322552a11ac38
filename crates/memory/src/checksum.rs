use std::mem::MaybeUninit;

use crc_fast::{CrcAlgorithm, Digest};
use mooncake_types::limits::CHUNK_BYTES;

use crate::RawSlice;

/// Raw memory is checksummed by way of private blocks of this size, which fits the first-level cache.
const BLOCK_BYTES: usize = 8 << 10;

/// CRC32C (Castagnoli) of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// A CRC32C that is computed incrementally.
#[derive(Clone, Debug)]
pub struct Crc32c(Digest);

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

impl Crc32c {
    /// The checksum of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds `bytes` to the checksum.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds the bytes of `slice` to the checksum. It copies a few KiB at a time to private memory: other threads may
    /// write the slice at any time, so no reference to it is made.
    pub fn update_raw(&mut self, slice: RawSlice) {
        let mut block = [MaybeUninit::<u8>::uninit(); BLOCK_BYTES];
        let mut from = 0;
        while from < slice.len() {
            let part = slice.sub(from, BLOCK_BYTES.min(slice.len() - from));
            // SAFETY: the caller of `RawSlice::new` promised that `part` is mapped. It is at most as long as the block
            // and cannot overlap it. The copy has initialised the bytes that are then read.
            let copy = unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), block.as_mut_ptr().cast(), part.len());
                std::slice::from_raw_parts(block.as_ptr().cast::<u8>(), part.len())
            };
            self.0.update(copy);
            from += part.len();
        }
    }

    /// The checksum of all bytes that were added.
    #[must_use]
    pub fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl RawSlice<'_> {
    /// CRC32C of the bytes. If another thread writes them meanwhile, the result may match none of their states.
    #[must_use]
    pub fn crc32c(&self) -> u32 {
        let mut crc = Crc32c::new();
        crc.update_raw(*self);
        crc.finish()
    }

    /// CRC32C of each [`CHUNK_BYTES`] chunk, the last one possibly shorter.
    #[must_use]
    pub fn chunk_crcs(&self) -> Vec<u32> {
        let chunk = CHUNK_BYTES as usize;
        (0..self.len())
            .step_by(chunk)
            .map(|from| self.sub(from, chunk.min(self.len() - from)).crc32c())
            .collect()
    }
}

/// One checksum over the checksums of all chunks of a range, in order.
#[must_use]
pub fn digest(checksums: &[u32]) -> u32 {
    let bytes: Vec<u8> = checksums.iter().flat_map(|checksum| checksum.to_le_bytes()).collect();
    crc32c(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn it_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    }

    #[test]
    fn pieces_give_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES + 77).map(|i| (i * 13 + i / 255) as u8).collect();
        let whole = crc32c(&bytes);
        let buffer = Buffer::from_vec(bytes);
        assert_eq!(buffer.raw().crc32c(), whole);
        for cut in [0, 1, 63, BLOCK_BYTES, BLOCK_BYTES + 1, buffer.len()] {
            let mut crc = Crc32c::new();
            crc.update_raw(buffer.raw().sub(0, cut));
            crc.update(&buffer.as_slice()[cut..]);
            assert_eq!(crc.finish(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn chunks_have_their_own_checksums() {
        let chunk = CHUNK_BYTES as usize;
        let bytes: Vec<u8> = (0..2 * chunk + 5).map(|i| (i * 7 + i / 251) as u8).collect();
        let expected: Vec<u32> = bytes.chunks(chunk).map(crc32c).collect();
        assert_eq!(Buffer::from_vec(bytes).raw().chunk_crcs(), expected);
        assert_eq!(Buffer::zeroed(0).raw().chunk_crcs(), Vec::<u32>::new());
    }
}
