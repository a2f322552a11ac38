//! Copies to and from memory that a caller named. Unmapped memory is an error instead of a crash.

use std::io;

use rustix::mm::{Advice, madvise};

use crate::checked_copy::{PieceDirection, copy_pieces_checked};
use crate::{RawSlice, copy_checked, page_bytes};

/// From this length on, checking the caller's pages and then copying in user space is cheaper than a copy through the
/// kernel.
const PROBE_BYTES: usize = 16 << 10;

/// Copies to the caller's memory. A caller that unmaps the memory during the copy crashes its own process.
///
/// # Errors
/// The kernel's error: `EFAULT` if the memory is unmapped or read-only. A part may have been copied.
///
/// # Panics
/// If the lengths differ.
pub fn copy_to_caller(src: RawSlice, dst: RawSlice) -> io::Result<()> {
    copy(src, dst, dst, Advice::LinuxPopulateWrite)
}

/// As [`copy_to_caller`], for pieces that are copied one behind the other. The caller's pages are checked once.
///
/// # Errors
/// As [`copy_to_caller`].
///
/// # Panics
/// If the pieces together are longer than `dst`.
pub fn copy_all_to_caller<'m>(
    pieces: impl IntoIterator<Item = RawSlice<'m>>,
    dst: RawSlice,
) -> io::Result<()> {
    let is_there = dst.len() >= PROBE_BYTES && is_there(dst, Advice::LinuxPopulateWrite);
    let mut at = 0;
    for piece in pieces {
        let part = dst.sub(at, piece.len());
        match is_there {
            true => piece.copy_to(part),
            false => copy_checked(piece, part)?,
        }
        at += piece.len();
    }
    Ok(())
}

/// Copies from the caller's memory; otherwise as [`copy_to_caller`].
///
/// # Errors
/// As [`copy_to_caller`].
///
/// # Panics
/// If the lengths differ.
pub fn copy_from_caller(src: RawSlice, dst: RawSlice) -> io::Result<()> {
    copy(src, dst, src, Advice::LinuxPopulateRead)
}

/// As [`copy_from_caller`], for pieces of the caller's memory that are copied one behind the other. Many short pieces
/// take one system call.
///
/// # Errors
/// As [`copy_to_caller`].
///
/// # Panics
/// If the total length of the pieces differs from that of `dst`.
pub fn gather_from_caller<'m>(
    pieces: impl IntoIterator<Item = RawSlice<'m>>,
    dst: RawSlice,
) -> io::Result<()> {
    copy_pieces(PieceDirection::Gather, pieces, dst)
}

/// Copies `src` to pieces of the caller's memory, one behind the other: the reverse of [`gather_from_caller`].
///
/// # Errors
/// As [`copy_to_caller`].
///
/// # Panics
/// If the total length of the pieces differs from that of `src`.
pub fn scatter_to_caller<'m>(
    src: RawSlice,
    pieces: impl IntoIterator<Item = RawSlice<'m>>,
) -> io::Result<()> {
    copy_pieces(PieceDirection::Scatter, pieces, src)
}

fn copy_pieces<'m>(
    way: PieceDirection,
    pieces: impl IntoIterator<Item = RawSlice<'m>>,
    whole: RawSlice,
) -> io::Result<()> {
    let (mut short, mut start, mut end) = (Vec::new(), 0, 0);
    for piece in pieces {
        let next = end + piece.len();
        if piece.len() < PROBE_BYTES {
            short.push(piece);
        } else {
            copy_pieces_checked(way, &short, whole.sub(start, end - start))?;
            short.clear();
            let there = whole.sub(end, piece.len());
            match way {
                PieceDirection::Gather => copy_from_caller(piece, there)?,
                PieceDirection::Scatter => copy_to_caller(there, piece)?,
            }
            start = next;
        }
        end = next;
    }
    copy_pieces_checked(way, &short, whole.sub(start, end - start))?;
    assert_eq!(end, whole.len(), "copy between slices of different lengths");
    Ok(())
}

fn copy(src: RawSlice, dst: RawSlice, callers: RawSlice, advice: Advice) -> io::Result<()> {
    if src.len() >= PROBE_BYTES && is_there(callers, advice) {
        src.copy_to(dst);
        return Ok(());
    }
    // The copy is short, or the pages are unusable, or the kernel cannot check this kind of memory.
    copy_checked(src, dst)
}

/// Whether the kernel can populate all pages of a range. It can only if they are mapped and allow the access.
fn is_there(range: RawSlice, advice: Advice) -> bool {
    let page = page_bytes() as usize;
    let skew = range.as_ptr().addr() % page;
    let Some(len) = range.len().checked_add(skew) else { return false };
    let start = range.as_ptr().wrapping_sub(skew);
    // SAFETY: populating changes no byte; the kernel checks the range.
    unsafe { madvise(start.cast(), len, advice) }.is_ok()
}

#[cfg(test)]
mod tests {
    use rustix::mm::{MprotectFlags, mprotect, munmap};

    use super::*;
    use crate::{Buffer, Region};

    #[test]
    fn bytes_are_copied_both_ways() {
        for len in [0, 1, PROBE_BYTES - 1, PROBE_BYTES, PROBE_BYTES + 1, 300_001] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 3 + i / 256) as u8).collect();
            let src = Buffer::from_vec(bytes);
            let (there, back) = (Buffer::zeroed(len), Buffer::zeroed(len));
            copy_from_caller(src.raw(), there.raw()).unwrap();
            copy_to_caller(there.raw(), back.raw()).unwrap();
            assert_eq!(back.as_slice(), src.as_slice());
        }
    }

    #[test]
    fn pieces_are_gathered_in_order_whatever_their_lengths() {
        let long = PROBE_BYTES + 3;
        let bytes: Vec<u8> = (0..4 * long).map(|i| (i * 3 + i / 256) as u8).collect();
        let src = Buffer::from_vec(bytes);
        for lens in
            [&[][..], &[7], &[0, 1, 0], &[5, 6, long, 8, 9, long], &[long, long, 4], &[9; 3000]]
        {
            let mut from = 0;
            let pieces: Vec<RawSlice> = lens
                .iter()
                .map(|&len| {
                    from += len;
                    src.raw().sub(from - len, len)
                })
                .collect();
            let dst = Buffer::zeroed(from);
            gather_from_caller(pieces.clone(), dst.raw()).unwrap();
            assert_eq!(dst.as_slice(), &src.as_slice()[..from], "{lens:?}");
            let back = Buffer::zeroed(from);
            copy_all_to_caller(pieces.clone(), back.raw()).unwrap();
            assert_eq!(back.as_slice(), &src.as_slice()[..from], "{lens:?}");
            let apart = Buffer::zeroed(src.len());
            let at = |piece: &RawSlice| piece.as_ptr().addr() - src.raw().as_ptr().addr();
            let targets = pieces.iter().map(|piece| apart.raw().sub(at(piece), piece.len()));
            scatter_to_caller(dst.raw(), targets).unwrap();
            assert_eq!(apart.as_slice()[..from], src.as_slice()[..from], "{lens:?}");
        }
    }

    #[test]
    fn a_piece_that_is_not_there_is_an_error_wherever_it_stands() {
        let (ours, dst) = (Buffer::zeroed(100), Buffer::zeroed(300 + PROBE_BYTES));
        for nowhere in [100, 100 + PROBE_BYTES] {
            let nowhere = RawSlice::unmapped(nowhere);
            for pieces in [[nowhere, ours.raw(), ours.raw()], [ours.raw(), ours.raw(), nowhere]] {
                let len = pieces.iter().map(RawSlice::len).sum();
                gather_from_caller(pieces, dst.raw().sub(0, len)).unwrap_err();
                scatter_to_caller(dst.raw().sub(0, len), pieces).unwrap_err();
            }
        }
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        for len in [64, PROBE_BYTES, 1 << 20] {
            let (ours, nowhere) = (Buffer::zeroed(len), RawSlice::unmapped(len));
            let errors = [
                copy_to_caller(ours.raw(), nowhere),
                copy_from_caller(nowhere, ours.raw()),
                copy_all_to_caller([ours.raw()], nowhere),
            ];
            let errors = errors.map(|result| result.unwrap_err().raw_os_error());
            assert_eq!(errors, [Some(libc::EFAULT); 3], "{len}");
        }
    }

    /// A region whose second half is unmapped, and a range that extends beyond it.
    #[test]
    fn memory_that_ends_early_is_an_error() {
        let len = 8 * page_bytes() as usize;
        let region = Region::anonymous(len as u64).unwrap();
        let start = region.whole().as_ptr();
        let longer = len + 64 * page_bytes() as usize;
        // SAFETY: only the kernel uses this range, and it checks every page.
        let beyond = unsafe { RawSlice::new(start, longer) };
        // SAFETY: unmaps the second half of the region, of which no slice is used any more.
        unsafe { munmap(start.add(len / 2).cast(), len / 2) }.unwrap();
        let ours = Buffer::zeroed(longer);
        copy_to_caller(ours.raw(), beyond).expect_err("half of it is gone");
        std::mem::forget(region);
    }

    #[test]
    fn memory_that_must_not_be_written_is_an_error() {
        let text: &'static [u8] = include_bytes!("../Cargo.toml");
        // SAFETY: only the kernel uses this range, and the mapping forbids it to write there.
        let constant = unsafe { RawSlice::new(text.as_ptr().cast_mut(), text.len()) };
        let ours = Buffer::zeroed(text.len());
        copy_to_caller(ours.raw(), constant).expect_err("constants stay as they are");
        let page = Buffer::zeroed(64 << 10);
        let start = page.raw().as_ptr().wrapping_add(page_bytes() as usize);
        let start = start.wrapping_sub(start.addr() % page_bytes() as usize);
        let len = 32 << 10;
        // SAFETY: the pages lie within the buffer, and nothing writes them until they are writable again.
        unsafe { mprotect(start.cast(), len, MprotectFlags::READ) }.unwrap();
        // SAFETY: the range lies within the buffer; only the kernel accesses it, and checks its protection.
        let locked = unsafe { RawSlice::new(start, len) };
        let ours = Buffer::zeroed(len);
        copy_to_caller(ours.raw(), locked).expect_err("it must not be written");
        copy_from_caller(locked, ours.raw()).expect("it may be read");
        let both = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: as above.
        unsafe { mprotect(start.cast(), len, both) }.unwrap();
    }
}
