//! A file that bypasses the page cache where it can (`O_DIRECT`).
//!
//! Direct I/O needs whole blocks at aligned addresses. These go straight between the caller's memory and the disk. All
//! others go through the page cache, as does everything on a filesystem without direct I/O.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use mooncake_memory::{RawSlice, read_file_at, write_file_at};
use rustix::fs::{AtFlags, CWD, OFlags, StatxFlags, statx};

use crate::directory::{BlockFile, ReadAt};
use crate::layout::BLOCK;

const BLOCK_LEN: usize = BLOCK as usize;

pub(crate) struct DirectFile {
    /// The file, opened for I/O through the page cache.
    cached: File,
    direct: Option<Direct>,
}

struct Direct {
    file: File,
    /// Alignment that memory addresses need, in bytes.
    alignment: usize,
}

impl DirectFile {
    pub(crate) fn new(cached: File, path: &Path) -> io::Result<DirectFile> {
        Ok(DirectFile { cached, direct: open_direct(path)? })
    }

    /// Whether whole blocks bypass the page cache.
    pub(crate) const fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// The file descriptor through which these slices go.
    fn file_for(&self, slices: &[RawSlice], at: u64) -> BorrowedFd<'_> {
        match &self.direct {
            Some(direct) if are_blocks(slices, at, direct.alignment) => direct.file.as_fd(),
            _ => self.cached.as_fd(),
        }
    }
}

/// Whether all slices are whole blocks at aligned addresses, and `at` is at a block.
fn are_blocks(slices: &[RawSlice], at: u64, alignment: usize) -> bool {
    let is_aligned = |slice: &RawSlice| {
        slice.is_empty()
            || (slice.as_ptr().addr().is_multiple_of(alignment)
                && slice.len().is_multiple_of(BLOCK_LEN))
    };
    at.is_multiple_of(BLOCK) && slices.iter().all(is_aligned)
}

/// Opens the file for direct I/O. Returns `None` where the filesystem does not support it, or does not report the
/// alignment.
fn open_direct(path: &Path) -> io::Result<Option<Direct>> {
    let flags = OFlags::DIRECT.bits() as i32;
    let file = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(None),
        opened => opened?,
    };
    let stat = statx(CWD, path, AtFlags::empty(), StatxFlags::DIOALIGN);
    let Ok(stat) = stat else { return Ok(None) };
    let alignment = stat.stx_dio_mem_align as usize;
    let fits = alignment.is_power_of_two() && u64::from(stat.stx_dio_offset_align) <= BLOCK;
    Ok(fits.then_some(Direct { file, alignment }))
}

impl ReadAt for DirectFile {
    fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        read_file_at(self.file_for(slices, at), slices, at)
    }
}

impl BlockFile for DirectFile {
    fn write(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        write_file_at(self.file_for(slices, at), slices, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.cached.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use mooncake_memory::{Buffer, Region};

    use super::*;
    use crate::tests::Dice;

    /// Slices of random lengths at random addresses, whose total length is a multiple of a block.
    fn slices<'m>(dice: &mut Dice, memory: RawSlice<'m>) -> Vec<RawSlice<'m>> {
        let (mut slices, mut from, mut total) = (Vec::new(), 0, 0);
        for _ in 0..=dice.below(6) {
            from += dice.below(3) as usize * (512 - from % 512) + dice.below(2) as usize * 100;
            let len = [100, 4096, 5000, 300_000, 1_500_000][dice.below(5) as usize];
            slices.push(memory.sub(from, len));
            (from, total) = (from + len, total + len);
        }
        let rest = total.next_multiple_of(BLOCK_LEN) - total;
        slices.push(memory.sub(from, rest));
        slices
    }

    #[test]
    fn however_slices_lie_their_bytes_are_written_and_read_in_order() {
        let path = std::env::temp_dir().join(format!("mooncake-direct-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = DirectFile::new(file.expect("a file"), &path).expect("it opens");
        let memory: Vec<u8> = (0..12_000_000_u64).map(|at| ((at * 31) >> 3) as u8).collect();
        let (source, target) = (Buffer::from_vec(memory), Buffer::zeroed(12_000_000));
        let mut dice = Dice(7);
        for round in 0..60 {
            let from = slices(&mut dice, source.raw());
            let at = dice.below(4) * BLOCK;
            file.write(&from, at).expect("there is room");
            let bytes: Vec<u8> = from.iter().flat_map(RawSlice::to_vec).collect();
            let mut into = slices(&mut dice, target.raw());
            let mut left = bytes.len();
            for slice in &mut into {
                *slice = slice.sub(0, slice.len().min(left));
                left -= slice.len();
            }
            let read = bytes.len() - left;
            file.read(&into, at).expect("it is there");
            let found: Vec<u8> = into.iter().flat_map(RawSlice::to_vec).collect();
            assert!(found == bytes[..read], "round {round}");
        }
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn only_whole_blocks_at_aligned_addresses_go_past_the_cache() {
        let region = Region::anonymous(1 << 20).expect("there is memory");
        let memory = region.whole();
        let check = |slices: &[RawSlice], at, expected| {
            assert_eq!(are_blocks(slices, at, 512), expected, "{slices:?} at {at}");
        };
        check(&[memory.sub(0, 8192), memory.sub(512, 4096)], 4096, true);
        check(&[memory.sub(0, 8192), RawSlice::EMPTY], 0, true);
        check(&[memory.sub(0, 8192)], 512, false);
        check(&[memory.sub(8, 4096)], 0, false);
        check(&[memory.sub(0, 4096), memory.sub(4096, 100)], 0, false);
    }
}
