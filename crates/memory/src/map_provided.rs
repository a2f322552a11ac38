//! Maps pages that the kernel has already allocated, and that this process has not mapped yet.

use crate::{OutOfBounds, Region, page_bytes};

/// How many bytes the kernel maps on one page fault (fault-around), as far as they are allocated. If it maps fewer,
/// later touches map the rest one page at a time.
const AROUND_BYTES: usize = 64 << 10;

impl Region {
    /// Maps the pages of `len` bytes from `offset` on if the kernel has allocated them, many on each page fault. A
    /// write would map them one by one, which takes longer than the copy.
    ///
    /// Returns false, and maps nothing, if the first or the last page is not allocated yet.
    ///
    /// # Errors
    /// The bytes do not lie within the region.
    pub fn map_provided(&self, offset: u64, len: u64) -> Result<bool, OutOfBounds> {
        let part = self.slice(offset, len)?;
        let (start, end) = (part.as_ptr().addr(), part.as_ptr().addr() + part.len());
        if part.is_empty() || !self.is_provided(start) || !self.is_provided(end - 1) {
            return Ok(false);
        }
        let mut at = start;
        while at < end {
            // SAFETY: reads a byte of this region, which is mapped. Its value is unused, so concurrent writes do no
            // harm.
            unsafe { part.as_ptr().with_addr(at).read_volatile() };
            at = (at + 1).next_multiple_of(AROUND_BYTES);
        }
        Ok(true)
    }

    /// Whether the kernel has allocated the page of this region that contains `address`.
    fn is_provided(&self, address: usize) -> bool {
        let start = address - address % page_bytes() as usize;
        let page = self.whole().as_ptr().with_addr(start);
        let mut state = 0;
        // SAFETY: the argument is one page of this region, and the kernel writes one byte of state for it.
        let asked = unsafe { libc::mincore(page.cast(), 1, &raw mut state) };
        asked == 0 && state & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_provided_is_mapped_and_no_byte_changes() {
        let region = Region::anonymous(1 << 20).unwrap();
        assert_eq!(region.map_provided(0, 300_000), Ok(false), "nobody has touched it");
        region.slice(70_000, 300_000).unwrap().write_from(&[7; 300_000]);
        assert_eq!(region.map_provided(70_000, 300_000), Ok(true));
        assert_eq!(region.slice(70_000, 300_000).unwrap().to_vec(), [7; 300_000]);
        for (offset, len) in [(0, 100_000), (300_000, 200_000), (500_000, 1), (70_000, 0)] {
            assert_eq!(region.map_provided(offset, len), Ok(false), "{len} bytes from {offset}");
        }
        for (offset, len) in [(1 << 20, 1), (0, (1 << 20) + 1), (u64::MAX, 2)] {
            region.map_provided(offset, len).expect_err("it does not lie within");
        }
    }

    #[test]
    fn what_another_mapping_has_written_is_provided() {
        let made = Region::anonymous(1 << 20).unwrap();
        let handed = made.descriptor().expect("its own").try_clone_to_owned().unwrap();
        let received = Region::received(handed, 1 << 20).unwrap();
        assert_eq!(received.map_provided(0, 1 << 20), Ok(false));
        made.slice(0, 1 << 20).unwrap().write_from(&vec![5; 1 << 20]);
        assert_eq!(received.map_provided(0, 1 << 20), Ok(true));
        assert_eq!(received.slice(0, 1 << 20).unwrap().to_vec(), vec![5; 1 << 20]);
    }
}
