//! A file whose bytes go between memory and the disk without the system's cache.
//!
//! Disks want whole blocks at aligned addresses. What is such goes straight from and into the caller's memory; what is not passes
//! through a buffer of a small pool. Where the file system has no direct way, the system's cache is used.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use mooncake_memory::{RawSlice, Region, read_file_at, write_file_at};
use rustix::fs::{AtFlags, CWD, OFlags, StatxFlags, statx};

use crate::directory::{BlockFile, ReadAt};
use crate::layout::BLOCK;

/// Length of each buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// Buffers of a pool.
const BUFFERS: usize = 8;
const BLOCK_LEN: usize = BLOCK as usize;

/// Buffers for what is not aligned.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Mutex<Vec<Region>>,
    returned: Condvar,
}

impl Pool {
    pub(crate) fn new() -> io::Result<Pool> {
        let buffer = |_| Region::anonymous(BUFFER_BYTES as u64).map_err(io::Error::other);
        let free = (0..BUFFERS).map(buffer).collect::<io::Result<_>>()?;
        Ok(Pool { free: Mutex::new(free), returned: Condvar::new() })
    }

    /// Waits until one is free.
    fn take(&self) -> Lent<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match free.pop() {
                Some(region) => return Lent { pool: self, region: Some(region), used: 0 },
                None => free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A buffer until it is given back.
struct Lent<'a> {
    pool: &'a Pool,
    region: Option<Region>,
    used: usize,
}

impl Lent<'_> {
    fn part(&mut self, len: usize) -> RawSlice {
        let whole = self.region.as_ref().expect("it was not given back").whole();
        let part = whole.sub(self.used, len);
        self.used += len;
        part
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.region.take());
        drop(free);
        self.pool.returned.notify_one();
    }
}

pub(crate) struct DirectFile {
    /// By way of the system's cache.
    cached: File,
    direct: Option<Direct>,
    pool: Arc<Pool>,
}

struct Direct {
    file: File,
    /// What addresses must be a multiple of.
    alignment: usize,
}

impl DirectFile {
    pub(crate) fn new(cached: File, path: &Path, pool: &Arc<Pool>) -> io::Result<DirectFile> {
        Ok(DirectFile { cached, direct: open_direct(path)?, pool: Arc::clone(pool) })
    }

    /// Whether whole blocks go past the system's cache.
    pub(crate) const fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// The way without the cache, for whole blocks.
    fn direct(&self, slices: &[RawSlice], at: u64) -> Option<&Direct> {
        let total: usize = slices.iter().map(RawSlice::len).sum();
        let is_whole = at.is_multiple_of(BLOCK) && total.is_multiple_of(BLOCK_LEN);
        self.direct.as_ref().filter(|_| is_whole)
    }
}

/// Nothing where the file system cannot do it, or does not say what it wants.
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
        let Some(direct) = self.direct(slices, at) else {
            return read_file_at(self.cached.as_fd(), slices, at);
        };
        for batch in batches(cut(slices, direct.alignment)) {
            let mut lent = self.pool.take();
            let place = |piece: &Piece| match piece.is_aligned {
                true => piece.parts[0],
                false => lent.part(piece.len),
            };
            let whole: Vec<RawSlice> = batch.pieces.iter().map(place).collect();
            read_file_at(direct.file.as_fd(), &whole, at + batch.from)?;
            for (piece, read) in batch.pieces.iter().zip(whole).filter(|(it, _)| !it.is_aligned) {
                scatter(read, &piece.parts);
            }
        }
        Ok(())
    }
}

impl BlockFile for DirectFile {
    fn write(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        let Some(direct) = self.direct(slices, at) else {
            return write_file_at(self.cached.as_fd(), slices, at);
        };
        for batch in batches(cut(slices, direct.alignment)) {
            let mut lent = self.pool.take();
            let whole = |piece: &Piece| match piece.is_aligned {
                true => piece.parts[0],
                false => gather(&piece.parts, lent.part(piece.len)),
            };
            let whole: Vec<RawSlice> = batch.pieces.iter().map(whole).collect();
            write_file_at(direct.file.as_fd(), &whole, at + batch.from)?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.cached.sync_data()
    }
}

/// Whole blocks: one aligned slice, or parts that pass through a buffer.
#[derive(Debug)]
struct Piece {
    len: usize,
    is_aligned: bool,
    parts: Vec<RawSlice>,
}

/// Cuts slices, whole blocks in all, so that what is aligned stays in place.
fn cut(slices: &[RawSlice], alignment: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    // What is gathered at the moment; less than a buffer.
    let mut loose = Piece { len: 0, is_aligned: false, parts: Vec::new() };
    for slice in slices.iter().filter(|slice| !slice.is_empty()) {
        let mut rest = *slice;
        while !rest.is_empty() {
            let is_aligned = rest.as_ptr().addr().is_multiple_of(alignment);
            let whole = rest.len() - rest.len() % BLOCK_LEN;
            if loose.len.is_multiple_of(BLOCK_LEN) && is_aligned && whole > 0 {
                close(&mut loose, &mut pieces);
                let part = rest.sub(0, whole);
                pieces.push(Piece { len: whole, is_aligned: true, parts: vec![part] });
                rest = rest.sub(whole, rest.len() - whole);
                continue;
            }
            // Up to the end of a block, where what follows may be aligned; of what is not aligned as much as there is.
            let to_end = BLOCK_LEN - loose.len % BLOCK_LEN;
            let ends_aligned = rest.as_ptr().addr().wrapping_add(to_end).is_multiple_of(alignment);
            let most = if ends_aligned { to_end } else { BUFFER_BYTES - loose.len };
            let take = rest.len().min(most);
            loose.parts.push(rest.sub(0, take));
            loose.len += take;
            rest = rest.sub(take, rest.len() - take);
            if loose.len == BUFFER_BYTES {
                close(&mut loose, &mut pieces);
            }
        }
    }
    close(&mut loose, &mut pieces);
    pieces
}

/// What is gathered is whole blocks: it becomes a piece.
fn close(loose: &mut Piece, pieces: &mut Vec<Piece>) {
    if loose.len > 0 {
        let next = Piece { len: 0, is_aligned: false, parts: Vec::new() };
        pieces.push(std::mem::replace(loose, next));
    }
}

/// Pieces of which one buffer holds what is not aligned, and where they begin.
struct Batch {
    from: u64,
    pieces: Vec<Piece>,
}

fn batches(pieces: Vec<Piece>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let (mut from, mut left) = (0, 0);
    for piece in pieces {
        let (len, wanted) = (piece.len as u64, if piece.is_aligned { 0 } else { piece.len });
        match batches.last_mut().filter(|_| wanted <= left) {
            Some(batch) => batch.pieces.push(piece),
            None => {
                left = BUFFER_BYTES;
                batches.push(Batch { from, pieces: vec![piece] });
            }
        }
        left -= wanted;
        from += len;
    }
    batches
}

/// Copies parts one behind the other.
fn gather(parts: &[RawSlice], dst: RawSlice) -> RawSlice {
    let mut at = 0;
    for part in parts {
        part.copy_to(dst.sub(at, part.len()));
        at += part.len();
    }
    dst
}

/// Copies bytes to where the parts lie.
fn scatter(src: RawSlice, parts: &[RawSlice]) {
    let mut at = 0;
    for part in parts {
        src.sub(at, part.len()).copy_to(*part);
        at += part.len();
    }
}

#[cfg(test)]
mod tests {
    use mooncake_memory::Buffer;

    use super::*;
    use crate::tests::Dice;

    /// Random lengths at random addresses, whole blocks in all.
    fn slices(dice: &mut Dice, memory: RawSlice) -> Vec<RawSlice> {
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
        let pool = Arc::new(Pool::new().expect("there is memory"));
        let file = DirectFile::new(file.expect("a file"), &path, &pool).expect("it opens");
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
    fn what_is_aligned_stays_in_place() {
        let region = Region::anonymous(4 << 20).expect("there is memory");
        let memory = region.whole();
        let lens = |slices: &[RawSlice]| -> Vec<(usize, bool)> {
            cut(slices, 512).iter().map(|piece| (piece.len, piece.is_aligned)).collect()
        };
        assert_eq!(lens(&[memory.sub(0, 2 << 20)]), [(2 << 20, true)]);
        assert_eq!(lens(&[memory.sub(512, 8192)]), [(8192, true)]);
        // A header that is not aligned, data that is but for its end, and what fills that up.
        let record = [memory.sub(8, 4096), memory.sub(1 << 20, 100_000), memory.sub(9, 2_400)];
        assert_eq!(lens(&record), [(4096, false), (98_304, true), (4096, false)]);
        assert_eq!(lens(&[memory.sub(8, 8192)]), [(8192, false)]);
        let long = [memory.sub(8, 3 << 20)];
        assert_eq!(lens(&long), [(1 << 20, false); 3]);
        assert_eq!(batches(cut(&long, 512)).len(), 3);
    }
}
