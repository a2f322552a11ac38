//! Copies to and from memory that a caller named: memory that is not there is an error instead of a crash.

use std::io;

use rustix::mm::{Advice, madvise};

use crate::checked_copy::{PieceWay, copy_pieces_checked};
use crate::{RawSlice, copy_checked, page_bytes};

/// From this length on it is cheaper to have the system look at the caller's pages and then copy plainly than to have it
/// copy.
const PROBE_BYTES: usize = 16 << 10;

/// Copies to the caller's memory. A caller that takes its memory away in the middle of it ends its own process.
///
/// # Errors
/// The system's (`EFAULT` for memory that is not mapped, or not to be written); what was copied before is unspecified.
///
/// # Panics
/// If the lengths differ.
pub fn copy_to_caller(src: RawSlice, dst: RawSlice) -> io::Result<()> {
    copy(src, dst, dst, Advice::LinuxPopulateWrite)
}

/// Copies pieces, one behind the other, to the caller's memory; as [`copy_to_caller`], with one look at the caller's pages.
///
/// # Errors
/// As [`copy_to_caller`].
///
/// # Panics
/// If the pieces together are longer.
pub fn copy_all_to_caller(
    pieces: impl IntoIterator<Item = RawSlice>,
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

/// Copies from the caller's memory; as [`copy_to_caller`].
///
/// # Errors
/// As [`copy_to_caller`].
///
/// # Panics
/// If the lengths differ.
pub fn copy_from_caller(src: RawSlice, dst: RawSlice) -> io::Result<()> {
    copy(src, dst, src, Advice::LinuxPopulateRead)
}

/// Copies pieces of the caller's memory, one behind the other, to `dst`; as [`copy_from_caller`], with one call of the system for
/// many short pieces.
///
/// # Errors
/// As [`copy_to_caller`].
///
/// # Panics
/// If the pieces together have another length.
pub fn gather_from_caller(
    pieces: impl IntoIterator<Item = RawSlice>,
    dst: RawSlice,
) -> io::Result<()> {
    copy_pieces(PieceWay::Gather, pieces, dst)
}

/// Copies `src` to pieces of the caller's memory, one behind the other; as [`gather_from_caller`] the other way round.
///
/// # Errors
/// As [`copy_to_caller`].
///
/// # Panics
/// If the pieces together have another length.
pub fn scatter_to_caller(
    src: RawSlice,
    pieces: impl IntoIterator<Item = RawSlice>,
) -> io::Result<()> {
    copy_pieces(PieceWay::Scatter, pieces, src)
}

fn copy_pieces(
    way: PieceWay,
    pieces: impl IntoIterator<Item = RawSlice>,
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
                PieceWay::Gather => copy_from_caller(piece, there)?,
                PieceWay::Scatter => copy_to_caller(there, piece)?,
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
    // Either short, or not there, or of a kind or on a system that cannot be asked.
    copy_checked(src, dst)
}

/// Has the system provide all pages of a range, which it can only if they are mapped and may be used that way.
fn is_there(range: RawSlice, advice: Advice) -> bool {
    let page = page_bytes() as usize;
    let skew = range.as_ptr().addr() % page;
    let Some(len) = range.len().checked_add(skew) else { return false };
    let start = range.as_ptr().wrapping_sub(skew);
    // SAFETY: populating changes no byte of whatever memory it is; the system checks the range.
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

    /// A buffer whose last pages the caller has unmapped.
    #[test]
    fn memory_that_ends_early_is_an_error() {
        let len = 8 * page_bytes() as usize;
        let region = Region::anonymous(len as u64).unwrap();
        let start = region.whole().as_ptr();
        let longer = len + 64 * page_bytes() as usize;
        // SAFETY: only the system is given this range, of which the end belongs to nobody we know.
        let beyond = unsafe { RawSlice::new(start, longer) };
        // SAFETY: takes the last page away; nobody else has a slice of it.
        unsafe { munmap(start.add(len / 2).cast(), len / 2) }.unwrap();
        let ours = Buffer::zeroed(longer);
        copy_to_caller(ours.raw(), beyond).expect_err("half of it is gone");
        std::mem::forget(region);
    }

    #[test]
    fn memory_that_must_not_be_written_is_an_error() {
        let text: &'static [u8] = include_bytes!("../Cargo.toml");
        // SAFETY: only the system is given this range, which it must not write.
        let constant = unsafe { RawSlice::new(text.as_ptr().cast_mut(), text.len()) };
        let ours = Buffer::zeroed(text.len());
        copy_to_caller(ours.raw(), constant).expect_err("constants stay as they are");
        let page = Buffer::zeroed(64 << 10);
        let start = page.raw().as_ptr().wrapping_add(page_bytes() as usize);
        let start = start.wrapping_sub(start.addr() % page_bytes() as usize);
        let len = 32 << 10;
        // SAFETY: pages within the buffer, which nobody writes until they may be written again.
        unsafe { mprotect(start.cast(), len, MprotectFlags::READ) }.unwrap();
        // SAFETY: within the buffer; only the system writes there, or does not.
        let locked = unsafe { RawSlice::new(start, len) };
        let ours = Buffer::zeroed(len);
        copy_to_caller(ours.raw(), locked).expect_err("it must not be written");
        copy_from_caller(locked, ours.raw()).expect("it may be read");
        let both = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: as above.
        unsafe { mprotect(start.cast(), len, both) }.unwrap();
    }
}
