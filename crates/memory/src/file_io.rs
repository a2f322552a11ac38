//! Reads and writes files directly from and into raw memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::RawSlice;
use crate::system_call::retry;

/// Most slices that one system call takes (`IOV_MAX`).
const MOST_SLICES: usize = 1024;

/// Writes all bytes of the slices, one behind the other, from an offset of a file on.
///
/// # Errors
/// The error of `pwritev`. A part may have been written.
pub fn write_file_at(file: BorrowedFd<'_>, slices: &[RawSlice], offset: u64) -> io::Result<()> {
    // SAFETY: the caller of `RawSlice::new` promised that the slices stay mapped while they are used. They have the
    // layout of `iovec`, and the kernel only reads them.
    transfer(slices, offset, io::ErrorKind::WriteZero, |ptr, count, at| unsafe {
        libc::pwritev(file.as_raw_fd(), ptr, count, at)
    })
}

/// Fills the slices, one behind the other, with the bytes of a file from an offset on.
///
/// # Errors
/// The error of `preadv`, or [`io::ErrorKind::UnexpectedEof`] where the file ends. A part may have been read.
pub fn read_file_at(file: BorrowedFd<'_>, slices: &[RawSlice], offset: u64) -> io::Result<()> {
    // SAFETY: as in `write_file_at`; the kernel writes the slices, to whose memory no Rust reference exists
    // (`RawSlice::new`).
    transfer(slices, offset, io::ErrorKind::UnexpectedEof, |ptr, count, at| unsafe {
        libc::preadv(file.as_raw_fd(), ptr, count, at)
    })
}

/// Repeats `call` until all slices were moved. `end` is the error if a call moves nothing.
fn transfer(
    slices: &[RawSlice],
    mut offset: u64,
    end: io::ErrorKind,
    call: impl Fn(*const libc::iovec, libc::c_int, libc::off_t) -> isize,
) -> io::Result<()> {
    let mut left: Vec<RawSlice> = slices.iter().copied().filter(|it| !it.is_empty()).collect();
    let mut first = 0;
    while first < left.len() {
        let count = (left.len() - first).min(MOST_SLICES);
        let at = libc::off_t::try_from(offset)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the offset is too large"))?;
        let vectors = left[first..].as_ptr().cast();
        let mut moved = retry(|| call(vectors, count as libc::c_int, at))?;
        if moved == 0 {
            return Err(end.into());
        }
        offset += moved as u64;
        while first < left.len() && moved >= left[first].len() {
            moved -= left[first].len();
            first += 1;
        }
        if moved > 0 {
            left[first] = left[first].sub(moved, left[first].len() - moved);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;
    use crate::Buffer;

    #[test]
    fn bytes_come_back_from_where_they_were_written_however_they_are_cut() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("memory");
        let bytes: Vec<u8> = (0..5_000_u32).map(|at| at as u8).collect();
        let source = Buffer::from_vec(bytes.clone());
        // More slices than one call takes. Every second one is empty.
        let cut: Vec<RawSlice> = (0..1_250).map(|at| source.raw().sub(at * 4, 4)).collect();
        let cut: Vec<RawSlice> = cut.into_iter().flat_map(|it| [RawSlice::EMPTY, it]).collect();
        write_file_at(file.as_fd(), &cut, 100).expect("there is room");
        let target = Buffer::from_vec(vec![0; 5_000]);
        let halves = [target.raw().sub(0, 2_500), target.raw().sub(2_500, 2_500)];
        read_file_at(file.as_fd(), &halves, 100).expect("it is there");
        assert_eq!(target.into_vec(), bytes);
        let beyond = Buffer::from_vec(vec![0; 5_001]);
        let error = read_file_at(file.as_fd(), &[beyond.raw()], 100).expect_err("it is too long");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
