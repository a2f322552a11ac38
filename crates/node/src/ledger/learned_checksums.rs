use std::ops::Range;
use std::sync::Arc;

use mooncake_types::limits::CHUNK_BYTES;

use super::coverage::Coverage;

/// Checksums of a complete entry that was written without: those of the chunks that readers have computed so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LearnedChecksums {
    /// The numbers of the chunks whose checksums are known.
    known: Coverage,
    sums: Vec<u32>,
}

/// The numbers of the chunks in `len` bytes from `from` on. `None` unless these bytes are whole chunks of an entry of
/// `entry_len` bytes.
pub(super) fn whole_chunks(from: u64, len: u64, entry_len: u64) -> Option<Range<u64>> {
    let end = from.checked_add(len)?;
    let ends_with_chunk = end.is_multiple_of(CHUNK_BYTES) || end == entry_len;
    let is_whole = from.is_multiple_of(CHUNK_BYTES) && ends_with_chunk && end <= entry_len;
    is_whole.then(|| from / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES))
}

impl LearnedChecksums {
    /// For an entry of this many bytes. No checksum is known yet.
    pub(super) fn of(entry_len: u64) -> Self {
        let chunks = usize::try_from(entry_len.div_ceil(CHUNK_BYTES));
        let chunks = chunks.expect("an entry lies in memory");
        Self { known: Coverage::default(), sums: vec![0; chunks] }
    }

    /// Keeps the checksums of these chunks.
    pub(super) fn learn(&mut self, chunks: Range<u64>, sums: &[u32]) {
        self.sums[chunks.start as usize..chunks.end as usize].copy_from_slice(sums);
        self.known.insert(chunks);
    }

    /// The checksums of these chunks, if all of them are known.
    pub(super) fn find(&self, chunks: &Range<u64>) -> Option<Arc<[u32]>> {
        let known = self.known.holds(chunks);
        known.then(|| Arc::from(&self.sums[chunks.start as usize..chunks.end as usize]))
    }

    /// The checksums of all chunks, if all of them are known.
    pub(super) fn all(&self) -> Option<Arc<[u32]>> {
        self.find(&(0..self.sums.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_whole_if_they_end_with_one_or_with_the_entry() {
        let entry_len = 3 * CHUNK_BYTES + 5;
        for (from, len, expected) in [
            (0, entry_len, Some(0..4)),
            (0, CHUNK_BYTES, Some(0..1)),
            (CHUNK_BYTES, 2 * CHUNK_BYTES, Some(1..3)),
            (3 * CHUNK_BYTES, 5, Some(3..4)),
            (3 * CHUNK_BYTES, 4, None),
            (1, CHUNK_BYTES, None),
            (0, 5, None),
            (0, 4 * CHUNK_BYTES, None),
            (CHUNK_BYTES, u64::MAX, None),
        ] {
            assert_eq!(whole_chunks(from, len, entry_len), expected, "{len} from {from}");
        }
    }

    #[test]
    fn sums_are_found_once_all_that_are_wanted_are_known() {
        let mut sums = LearnedChecksums::of(3 * CHUNK_BYTES + 1);
        assert_eq!((sums.find(&(0..1)), sums.all()), (None, None));
        sums.learn(2..4, &[7, 8]);
        assert_eq!(sums.find(&(2..4)), Some([7, 8].into()));
        assert_eq!((sums.find(&(3..4)), sums.find(&(1..3))), (Some([8].into()), None));
        sums.learn(0..2, &[5, 6]);
        assert_eq!(sums.all(), Some([5, 6, 7, 8].into()));
    }
}
