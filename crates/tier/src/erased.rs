//! Which records of a file are dropped: one bit for each block at which a record may begin.
//!
//! Bits are only ever set. A power cut may leave old and new sectors side by side in one block, which does no harm.
//! Each sector has its own checksum. All records of a damaged sector count as dropped, because any of them may have
//! been.

use crate::layout::{BITS_PER_SECTOR, BLOCK, SECTOR, checksum, erased_blocks};

const SECTORS_PER_BLOCK: usize = BLOCK as usize / SECTOR;
const SUM_AT: usize = SECTOR - 4;

#[derive(Clone, Debug)]
pub(crate) struct DropBitmap {
    nonce: u64,
    /// All sectors of the bitmap, a whole number of blocks.
    sectors: Vec<[u8; SECTOR]>,
}

impl DropBitmap {
    /// The bitmap of a new file: no record is dropped.
    pub(crate) fn none(file_bytes: u64, nonce: u64) -> DropBitmap {
        let count = erased_blocks(file_bytes) as usize * SECTORS_PER_BLOCK;
        let mut erased = DropBitmap { nonce, sectors: vec![[0; SECTOR]; count] };
        (0..count).for_each(|sector| erased.sum_up(sector));
        erased
    }

    /// Decodes the blocks of the bitmap.
    pub(crate) fn decode(blocks: &[u8], nonce: u64) -> DropBitmap {
        let (sectors, _) = blocks.as_chunks::<SECTOR>();
        let mut erased = DropBitmap { nonce, sectors: sectors.to_vec() };
        for sector in 0..erased.sectors.len() {
            let bytes = &erased.sectors[sector];
            if bytes[SUM_AT..] != erased.sum_of(sector).to_le_bytes() {
                erased.sectors[sector] = [0xff; SECTOR];
                erased.sum_up(sector);
            }
        }
        erased
    }

    pub(crate) fn contains(&self, block: u64) -> bool {
        let (sector, byte, mask) = place(block);
        self.sectors.get(sector).is_none_or(|sector| sector[byte] & mask != 0)
    }

    /// Marks the record that begins at this block as dropped. Returns the bitmap block that must be written.
    pub(crate) fn insert(&mut self, block: u64) -> usize {
        let (sector, byte, mask) = place(block);
        self.sectors[sector][byte] |= mask;
        self.sum_up(sector);
        sector / SECTORS_PER_BLOCK
    }

    /// The encoded bytes of one bitmap block.
    pub(crate) fn block(&self, at: usize) -> Vec<u8> {
        self.sectors[at * SECTORS_PER_BLOCK..][..SECTORS_PER_BLOCK].concat()
    }

    /// The encoded bytes of the whole bitmap.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.sectors.concat()
    }

    fn sum_up(&mut self, sector: usize) {
        let sum = self.sum_of(sector).to_le_bytes();
        self.sectors[sector][SUM_AT..].copy_from_slice(&sum);
    }

    /// The checksum of a sector. It also covers the sector's number.
    fn sum_of(&self, sector: usize) -> u32 {
        checksum(self.nonce ^ sector as u64, &self.sectors[sector][..SUM_AT])
    }
}

/// The sector, byte and bit mask that belong to a block.
fn place(block: u64) -> (usize, usize, u8) {
    let bit = block % BITS_PER_SECTOR;
    ((block / BITS_PER_SECTOR) as usize, (bit / 8) as usize, 1 << (bit % 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_stay_whatever_mixture_of_sectors_is_on_the_disk() {
        let file_bytes = 256 << 20;
        let mut erased = DropBitmap::none(file_bytes, 5);
        let old = erased.encode();
        let dropped = [5, 4_063, 4_064, 30_000, 65_535];
        for block in dropped {
            assert!(!erased.contains(block));
            erased.insert(block);
        }
        let new = erased.encode();
        for keep in [|_| true, |sector: usize| sector.is_multiple_of(2)] {
            let mut mixed = new.clone();
            for sector in (0..old.len() / SECTOR).filter(|&sector| !keep(sector)) {
                mixed[sector * SECTOR..][..SECTOR]
                    .copy_from_slice(&old[sector * SECTOR..][..SECTOR]);
            }
            let read = DropBitmap::decode(&mixed, 5);
            let expected = |block: u64| keep((block / BITS_PER_SECTOR) as usize);
            assert!(dropped.into_iter().all(|block| read.contains(block) == expected(block)));
            assert!(!read.contains(6));
        }
    }

    #[test]
    fn of_a_damaged_sector_all_records_count_as_dropped() {
        let mut blocks = DropBitmap::none(256 << 20, 5).encode();
        blocks[SECTOR + 3] ^= 1;
        let read = DropBitmap::decode(&blocks, 5);
        let (first, last) = (BITS_PER_SECTOR, 2 * BITS_PER_SECTOR - 1);
        assert!(read.contains(first) && read.contains(last));
        assert!(!read.contains(first - 1) && !read.contains(last + 1));
        assert!(DropBitmap::decode(&blocks, 6).contains(5), "of another file");
    }
}
