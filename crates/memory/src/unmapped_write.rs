//! Writes to the memory of a region that bypass its mapping.

use std::io;
use std::os::fd::AsRawFd;

use crate::batch::MAX_BATCH_SLICES;
use crate::system_call::retry;
use crate::{RawSlice, Region};

impl Region {
    /// Copies `pieces`, one behind the other, to the bytes from `offset` on, through the kernel. Returns how many
    /// bytes were copied, which may be fewer than all. Unmapped pieces are an error instead of a crash.
    ///
    /// This is cheaper than a copy through the mapping if this process has never touched the pages: they need not be
    /// mapped, or zeroed first.
    ///
    /// # Errors
    /// - [`io::ErrorKind::Unsupported`] for memory that can only be written through its mapping.
    /// - [`io::ErrorKind::InvalidInput`] if the pieces do not lie within the region.
    /// - The kernel's error otherwise: `EFAULT` if the first byte of the pieces is not mapped.
    pub fn write_unmapped(&self, offset: u64, pieces: &[RawSlice]) -> io::Result<usize> {
        let pieces = &pieces[..pieces.len().min(MAX_BATCH_SLICES)];
        let total: usize = pieces.iter().map(RawSlice::len).sum();
        if self.slice(offset, total as u64).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = self.descriptor().ok_or(io::ErrorKind::Unsupported)?;
        let start = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a RawSlice has the layout of an iovec; the kernel checks the sources. The written bytes lie within
        // the region, which was checked above.
        let written = retry(|| unsafe {
            let (first, count) = (pieces.as_ptr().cast(), pieces.len() as libc::c_int);
            libc::pwritev(memory.as_raw_fd(), first, count, start)
        });
        written.map_err(|error| match error.raw_os_error() {
            // Files of large pages can only be written through a mapping.
            Some(libc::EINVAL | libc::EPERM) => io::ErrorKind::Unsupported.into(),
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    fn refusal(region: &Region, offset: u64, pieces: &[RawSlice]) -> io::Error {
        region.write_unmapped(offset, pieces).unwrap_err()
    }

    #[test]
    fn pieces_are_written_in_order_and_seen_through_the_mapping() {
        let bytes: Vec<u8> = (0..30_000_u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let src = Buffer::from_vec(bytes.clone());
        let region = Region::anonymous(40_000).unwrap();
        let pieces: Vec<RawSlice> = (0..3).map(|i| src.raw().sub(i * 10_000, 10_000)).collect();
        assert_eq!(region.write_unmapped(5_000, &pieces).unwrap(), 30_000);
        assert_eq!(region.slice(5_000, 30_000).unwrap().to_vec(), bytes);
        assert_eq!(region.slice(0, 5_000).unwrap().to_vec(), vec![0; 5_000]);
        assert_eq!(region.slice(35_000, 5_000).unwrap().to_vec(), vec![0; 5_000]);
        assert_eq!(region.write_unmapped(40_000, &[]).unwrap(), 0);
    }

    #[test]
    fn more_pieces_than_one_call_takes_are_written_in_part() {
        let src = Buffer::from_vec(vec![9; 1]);
        let pieces = vec![src.raw(); MAX_BATCH_SLICES + 5];
        let region = Region::anonymous(pieces.len() as u64).unwrap();
        assert_eq!(region.write_unmapped(0, &pieces).unwrap(), MAX_BATCH_SLICES);
    }

    #[test]
    fn what_does_not_fit_or_is_not_there_is_an_error() {
        let src = Buffer::zeroed(4096);
        let region = Region::anonymous(4096).unwrap();
        for offset in [1, 4096, u64::MAX] {
            let error = refusal(&region, offset, &[src.raw()]);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{offset}");
        }
        let error = refusal(&region, 0, &[RawSlice::unmapped(4096)]);
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn memory_without_a_descriptor_takes_none() {
        let src = Buffer::zeroed(10);
        let region = Region::of_buffer(Buffer::zeroed(4096)).unwrap();
        let error = refusal(&region, 0, &[src.raw()]);
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}
