//! Which records of a file are dropped: a bit for the block that each begins at.
//!
//! Bits are only ever set. So it does no harm if, of a block that is being written when the power fails, some sectors are
//! new and others old. Each sector has a checksum of its own: of one that is damaged all records count as dropped, since one of
//! them may have been.

use crate::layout::{BITS_PER_SECTOR, BLOCK, SECTOR, checksum, erased_blocks};

const SECTORS_PER_BLOCK: usize = BLOCK as usize / SECTOR;
const SUM_AT: usize = SECTOR - 4;

#[derive(Clone, Debug)]
pub(crate) struct Erased {
    nonce: u64,
    /// Whole blocks of sectors.
    sectors: Vec<[u8; SECTOR]>,
}

impl Erased {
    /// No record of a new file is dropped.
    pub(crate) fn none(file_bytes: u64, nonce: u64) -> Erased {
        let count = erased_blocks(file_bytes) as usize * SECTORS_PER_BLOCK;
        let mut erased = Erased { nonce, sectors: vec![[0; SECTOR]; count] };
        (0..count).for_each(|sector| erased.sum_up(sector));
        erased
    }

    /// What the blocks of a file say.
    pub(crate) fn decode(blocks: &[u8], nonce: u64) -> Erased {
        let (sectors, _) = blocks.as_chunks::<SECTOR>();
        let mut erased = Erased { nonce, sectors: sectors.to_vec() };
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

    /// The record that begins at this block is dropped. Gives the block of bits that is to be written.
    pub(crate) fn insert(&mut self, block: u64) -> usize {
        let (sector, byte, mask) = place(block);
        self.sectors[sector][byte] |= mask;
        self.sum_up(sector);
        sector / SECTORS_PER_BLOCK
    }

    /// A block of bits, to be written.
    pub(crate) fn block(&self, at: usize) -> Vec<u8> {
        self.sectors[at * SECTORS_PER_BLOCK..][..SECTORS_PER_BLOCK].concat()
    }

    /// All blocks of bits.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.sectors.concat()
    }

    fn sum_up(&mut self, sector: usize) {
        let sum = self.sum_of(sector).to_le_bytes();
        self.sectors[sector][SUM_AT..].copy_from_slice(&sum);
    }

    /// The place of a sector goes into its checksum, too.
    fn sum_of(&self, sector: usize) -> u32 {
        checksum(self.nonce ^ sector as u64, &self.sectors[sector][..SUM_AT])
    }
}

/// The sector, byte and bit of a block.
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
        let mut erased = Erased::none(file_bytes, 5);
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
            let read = Erased::decode(&mixed, 5);
            let expected = |block: u64| keep((block / BITS_PER_SECTOR) as usize);
            assert!(dropped.into_iter().all(|block| read.contains(block) == expected(block)));
            assert!(!read.contains(6));
        }
    }

    #[test]
    fn of_a_damaged_sector_all_records_count_as_dropped() {
        let mut blocks = Erased::none(256 << 20, 5).encode();
        blocks[SECTOR + 3] ^= 1;
        let read = Erased::decode(&blocks, 5);
        let (first, last) = (BITS_PER_SECTOR, 2 * BITS_PER_SECTOR - 1);
        assert!(read.contains(first) && read.contains(last));
        assert!(!read.contains(first - 1) && !read.contains(last + 1));
        assert!(Erased::decode(&blocks, 6).contains(5), "of another file");
    }
}
