use std::iter::FusedIterator;

use mooncake_types::limits::CHUNK_BYTES;

use crate::{Crc32c, RawSlice};

/// Memory in pieces, to be filled or sent in order as if it were one.
#[derive(Clone, Debug, Default)]
pub struct SliceList {
    slices: Slices,
    total_len: u64,
}

/// Most lists hold one slice; those need no allocation.
#[derive(Clone, Debug)]
enum Slices {
    One([RawSlice; 1]),
    Many(Vec<RawSlice>),
}

impl Default for Slices {
    fn default() -> Self {
        Slices::Many(Vec::new())
    }
}

impl From<RawSlice> for SliceList {
    fn from(slice: RawSlice) -> Self {
        Self { slices: Slices::One([slice]), total_len: slice.len() as u64 }
    }
}

impl From<Vec<RawSlice>> for SliceList {
    fn from(slices: Vec<RawSlice>) -> Self {
        let total_len = slices.iter().map(|slice| slice.len() as u64).sum();
        Self { slices: Slices::Many(slices), total_len }
    }
}

impl FromIterator<RawSlice> for SliceList {
    fn from_iter<I: IntoIterator<Item = RawSlice>>(slices: I) -> Self {
        let mut slices = slices.into_iter();
        match (slices.next(), slices.next()) {
            (None, _) => SliceList::default(),
            (Some(only), None) => only.into(),
            (Some(first), Some(second)) => {
                let mut all = vec![first, second];
                all.extend(slices);
                all.into()
            }
        }
    }
}

impl SliceList {
    /// Bytes in all slices together.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        self.total_len
    }

    /// The slices, in order.
    #[must_use]
    pub fn slices(&self) -> &[RawSlice] {
        match &self.slices {
            Slices::One(one) => one,
            Slices::Many(many) => many,
        }
    }

    /// The `len` bytes that start `from` bytes in, as the pieces they lie in. Finding the first one looks at every
    /// slice before it.
    ///
    /// # Panics
    /// If they do not lie within the list.
    #[must_use]
    pub fn sub(&self, from: u64, len: u64) -> Sub<'_> {
        let inside = from.checked_add(len).is_some_and(|end| end <= self.total_len);
        assert!(
            inside,
            "{len} bytes from {from} do not lie within a list of {} bytes",
            self.total_len
        );
        let mut slices = self.slices();
        let mut skip = from;
        while let Some((first, rest)) = slices.split_first() {
            if skip < first.len() as u64 {
                break;
            }
            skip -= first.len() as u64;
            slices = rest;
        }
        Sub { slices, skip: skip as usize, left: len }
    }

    /// The same bytes as [`SliceList::sub`], as a list.
    ///
    /// # Panics
    /// If they do not lie within the list.
    #[must_use]
    pub fn part(&self, from: u64, len: u64) -> SliceList {
        self.sub(from, len).collect()
    }

    /// CRC32C of each [`CHUNK_BYTES`] chunk of the bytes in order, wherever the slices are cut.
    #[must_use]
    pub fn chunk_crcs(&self) -> Vec<u32> {
        let mut sums = Vec::with_capacity(self.total_len.div_ceil(CHUNK_BYTES) as usize);
        let (mut crc, mut room) = (Crc32c::new(), CHUNK_BYTES as usize);
        for slice in self.slices() {
            let mut from = 0;
            while from < slice.len() {
                let part = slice.sub(from, room.min(slice.len() - from));
                crc.update_raw(part);
                from += part.len();
                room -= part.len();
                if room == 0 {
                    sums.push(std::mem::take(&mut crc).finish());
                    room = CHUNK_BYTES as usize;
                }
            }
        }
        if room < CHUNK_BYTES as usize {
            sums.push(crc.finish());
        }
        sums
    }

    /// Copies the bytes of `src` over the first bytes of this list.
    ///
    /// # Panics
    /// If the list is shorter.
    pub fn fill_from(&self, src: RawSlice) {
        let mut from = 0;
        for piece in self.sub(0, src.len() as u64) {
            src.sub(from, piece.len()).copy_to(piece);
            from += piece.len();
        }
    }

    /// A copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices().iter().flat_map(RawSlice::to_vec).collect()
    }
}

/// See [`SliceList::sub`]. No piece is empty.
#[derive(Clone, Debug)]
pub struct Sub<'a> {
    slices: &'a [RawSlice],
    skip: usize,
    left: u64,
}

impl Iterator for Sub<'_> {
    type Item = RawSlice;

    fn next(&mut self) -> Option<RawSlice> {
        while self.left > 0 {
            let (first, rest) =
                self.slices.split_first().expect("the list holds `left` bytes more");
            let here = first.len() - self.skip;
            let len = usize::try_from(self.left).map_or(here, |left| left.min(here));
            let piece = first.sub(self.skip, len);
            self.slices = rest;
            self.skip = 0;
            self.left -= len as u64;
            if len > 0 {
                return Some(piece);
            }
        }
        None
    }
}

impl FusedIterator for Sub<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, crc32c};

    fn list(buffer: &Buffer, lens: &[usize]) -> SliceList {
        let mut from = 0;
        let cut = |&len: &usize| {
            from += len;
            buffer.raw().sub(from - len, len)
        };
        lens.iter().map(cut).collect()
    }

    #[test]
    fn parts_cross_slices() {
        let buffer = Buffer::from_vec(b"abcdefghij".to_vec());
        let list = list(&buffer, &[3, 0, 4, 1, 2]);
        assert_eq!((list.total_len(), list.to_vec().as_slice()), (10, &b"abcdefghij"[..]));
        let cases: [(u64, u64, &[&str]); 7] = [
            (0, 10, &["abc", "defg", "h", "ij"]),
            (2, 3, &["c", "de"]),
            (3, 4, &["defg"]),
            (7, 1, &["h"]),
            (6, 4, &["g", "h", "ij"]),
            (10, 0, &[]),
            (0, 0, &[]),
        ];
        for (from, len, expected) in cases {
            let pieces: Vec<Vec<u8>> = list.sub(from, len).map(|piece| piece.to_vec()).collect();
            let expected: Vec<Vec<u8>> = expected.iter().map(|s| s.as_bytes().to_vec()).collect();
            assert_eq!(pieces, expected, "{len} bytes from {from}");
            assert_eq!(list.part(from, len).to_vec(), expected.concat());
        }
    }

    #[test]
    #[should_panic(expected = "2 bytes from 9 do not lie within a list of 10 bytes")]
    fn a_part_beyond_the_end_panics() {
        let buffer = Buffer::zeroed(10);
        let _ = list(&buffer, &[5, 5]).sub(9, 2);
    }

    #[test]
    fn checksums_do_not_depend_on_the_cuts() {
        let chunk = CHUNK_BYTES as usize;
        let bytes: Vec<u8> = (0..2 * chunk + 100).map(|i| (i * 11 + i / 253) as u8).collect();
        let expected: Vec<u32> = bytes.chunks(chunk).map(crc32c).collect();
        let buffer = Buffer::from_vec(bytes);
        let cuts: [&[usize]; 3] =
            [&[2 * chunk + 100], &[1, chunk, chunk - 1, 100], &[chunk, chunk, 50, 50]];
        for cut in cuts {
            assert_eq!(list(&buffer, cut).chunk_crcs(), expected, "{cut:?}");
        }
        assert_eq!(SliceList::default().chunk_crcs(), Vec::<u32>::new());
    }

    #[test]
    fn a_list_is_filled_across_its_slices() {
        let (src, dst) = (Buffer::from_vec(b"12345".to_vec()), Buffer::zeroed(7));
        list(&dst, &[2, 0, 1, 4]).fill_from(src.raw());
        assert_eq!(dst.as_slice(), b"12345\0\0");
    }
}
