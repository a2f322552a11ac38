//! The layout of a file of the log.
//!
//! ```text
//! block 0            head: format, number of the file, its length, a random number
//! block 1            seal: where the table of contents lies; zeros until the file is full
//! blocks 2 to D      one bit for each block: the record that begins there is dropped
//! blocks D to end    records: a header, padded to whole blocks, then the bytes, padded as well
//! last blocks        the table of contents; records leave room for it
//! ```
//!
//! Files of earlier versions have their table behind the end, which takes space that nothing set aside.

use mooncake_memory::Crc32c;

/// Alignment of everything in the file, in bytes. Disks write a block of this size as a whole, or at least each sector
/// of it.
pub(crate) const BLOCK: u64 = 4096;
/// Bytes that a disk writes atomically, even when its power fails.
pub(crate) const SECTOR: usize = 512;
/// Bits of the bitmap that share a sector with their checksum.
pub(crate) const BITS_PER_SECTOR: u64 = (SECTOR as u64 - 4) * 8;

/// The version of this format. Files of any other version are refused.
pub(crate) const FORMAT: u32 = 2;
const HEAD_MAGIC: u32 = 0x4d4b_4c46;
const SEAL_MAGIC: u32 = 0x4d4b_5345;

pub(crate) const SEAL_AT: u64 = BLOCK;
pub(crate) const ERASED_AT: u64 = 2 * BLOCK;

/// How many blocks `bytes` bytes take.
pub(crate) fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK)
}

/// How many blocks the bitmap takes in a file of this length.
pub(crate) fn erased_blocks(file_bytes: u64) -> u64 {
    let sectors = blocks_of(file_bytes).div_ceil(BITS_PER_SECTOR);
    (sectors * SECTOR as u64).div_ceil(BLOCK)
}

/// The first block at which a record can begin.
pub(crate) fn first_block(file_bytes: u64) -> u64 {
    2 + erased_blocks(file_bytes)
}

/// The contents of block 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) number: u64,
    /// Where records end, in bytes.
    pub(crate) file_bytes: u64,
    /// Nonce that every checksum of this file covers. So bytes of an object cannot pass for a record.
    pub(crate) nonce: u64,
}

impl Head {
    pub(crate) fn encode(self) -> Vec<u8> {
        let fields = [self.number, self.file_bytes, self.nonce];
        sealed(HEAD_MAGIC, &fields)
    }

    /// Decodes a head. Returns `None` if the block is not the head of a file in use.
    pub(crate) fn decode(block: &[u8]) -> Option<Head> {
        let [number, file_bytes, nonce] = unsealed(HEAD_MAGIC, block)?;
        let is_sound = file_bytes.is_multiple_of(BLOCK) && file_bytes <= MAX_FILE_BYTES;
        is_sound.then_some(Head { number, file_bytes, nonce })
    }
}

/// The longest file, in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 30;

/// The contents of block 1 of a full file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// Length of the table of contents, in bytes.
    pub(crate) len: u64,
    /// CRC32C of the table of contents.
    pub(crate) sum: u64,
}

impl Seal {
    pub(crate) fn encode(self, nonce: u64) -> Vec<u8> {
        sealed(SEAL_MAGIC, &[nonce, self.len, self.sum])
    }

    pub(crate) fn decode(block: &[u8], nonce: u64) -> Option<Seal> {
        let [of, len, sum] = unsealed(SEAL_MAGIC, block)?;
        (of == nonce && len <= MAX_FILE_BYTES).then_some(Seal { len, sum })
    }
}

/// Where a table of contents of `len` bytes lies.
pub(crate) fn table_at(file_bytes: u64, len: u64) -> u64 {
    file_bytes.saturating_sub(blocks_of(len) * BLOCK)
}

/// The nonce of the headers in the table of a file with this nonce. It differs, so that a scan of a file whose table no
/// seal names takes no part of the table for a record.
pub(crate) const fn table_nonce(nonce: u64) -> u64 {
    !nonce
}

fn sealed(magic: u32, fields: &[u64; 3]) -> Vec<u8> {
    let mut block = vec![0; BLOCK as usize];
    block[4..8].copy_from_slice(&magic.to_le_bytes());
    block[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    for (at, field) in fields.iter().enumerate() {
        block[16 + at * 8..][..8].copy_from_slice(&field.to_le_bytes());
    }
    let sum = checksum(0, &block[4..40]);
    block[..4].copy_from_slice(&sum.to_le_bytes());
    block
}

fn unsealed(magic: u32, block: &[u8]) -> Option<[u64; 3]> {
    let word = |at: usize| Some(u32::from_le_bytes(block.get(at..at + 4)?.try_into().ok()?));
    let field = |at: usize| Some(u64::from_le_bytes(block.get(at..at + 8)?.try_into().ok()?));
    let is_whole = word(0)? == checksum(0, block.get(4..40)?);
    let is_known = word(4)? == magic && word(8)? == FORMAT;
    (is_whole && is_known).then_some([field(16)?, field(24)?, field(32)?])
}

/// CRC32C of a nonce and some bytes.
pub(crate) fn checksum(nonce: u64, bytes: &[u8]) -> u32 {
    let mut sum = Crc32c::new();
    sum.update(&nonce.to_le_bytes());
    sum.update(bytes);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_with_any_flipped_bit_is_none() {
        let head = Head { number: 7, file_bytes: 1 << 20, nonce: 99 };
        let block = head.encode();
        assert_eq!(Head::decode(&block), Some(head));
        for bit in 0..40 * 8 {
            let mut flipped = block.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // Bytes 12 to 16 are unused, and the checksum covers them.
            assert_eq!(Head::decode(&flipped), None, "bit {bit}");
        }
        assert_eq!(Head::decode(&[0; BLOCK as usize]), None);
        assert_eq!(Seal::decode(&block, 99), None);
    }

    #[test]
    fn the_bits_of_a_file_find_room_before_its_records() {
        for file_bytes in [BLOCK, 1 << 20, 256 << 20, MAX_FILE_BYTES] {
            let sectors = erased_blocks(file_bytes) * BLOCK / SECTOR as u64;
            assert!(sectors * BITS_PER_SECTOR >= blocks_of(file_bytes));
        }
        assert_eq!(first_block(256 << 20), 5);
    }
}
