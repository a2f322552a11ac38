use crate::{PlacedSlice, RawSlice};

/// Pieces of memory that are filled or sent in order, like one contiguous range.
///
/// Pieces may lie in devices, unless [`SliceList::is_host`]. Pass a list with such pieces only to code that uses the
/// device's driver. Methods that return a [`RawSlice`] or read bytes panic on it.
#[derive(Clone, Debug, Default)]
pub struct SliceList<'m> {
    slices: Slices<'m>,
    total_len: u64,
}

/// Most lists hold one slice, which needs no allocation.
#[derive(Clone, Debug)]
enum Slices<'m> {
    One([RawSlice<'m>; 1]),
    Many(Vec<RawSlice<'m>>),
    /// Pieces of which at least one lies in a device.
    Placed(Vec<PlacedSlice<'m>>),
}

impl Default for Slices<'_> {
    fn default() -> Self {
        Slices::Many(Vec::new())
    }
}

impl<'m> From<RawSlice<'m>> for SliceList<'m> {
    fn from(slice: RawSlice<'m>) -> Self {
        Self { slices: Slices::One([slice]), total_len: slice.len() as u64 }
    }
}

impl<'m> From<Vec<RawSlice<'m>>> for SliceList<'m> {
    fn from(slices: Vec<RawSlice<'m>>) -> Self {
        let total_len = slices.iter().map(|slice| slice.len() as u64).sum();
        Self { slices: Slices::Many(slices), total_len }
    }
}

impl<'m> FromIterator<RawSlice<'m>> for SliceList<'m> {
    fn from_iter<I: IntoIterator<Item = RawSlice<'m>>>(slices: I) -> Self {
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

impl<'m> From<PlacedSlice<'m>> for SliceList<'m> {
    fn from(slice: PlacedSlice<'m>) -> Self {
        std::iter::once(slice).collect()
    }
}

impl<'m> FromIterator<PlacedSlice<'m>> for SliceList<'m> {
    fn from_iter<I: IntoIterator<Item = PlacedSlice<'m>>>(slices: I) -> Self {
        let mut slices = slices.into_iter();
        let mut host = Vec::with_capacity(slices.size_hint().0);
        while let Some(slice) = slices.next() {
            match slice.host() {
                Some(slice) => host.push(slice),
                None => {
                    let all = host.into_iter().map(PlacedSlice::from);
                    return SliceList::placed(all.chain([slice]).chain(slices).collect());
                }
            }
        }
        match host[..] {
            [only] => only.into(),
            _ => host.into(),
        }
    }
}

impl<'m> SliceList<'m> {
    fn placed(slices: Vec<PlacedSlice<'m>>) -> SliceList<'m> {
        let total_len = slices.iter().map(|slice| slice.len() as u64).sum();
        Self { slices: Slices::Placed(slices), total_len }
    }

    /// Whether all pieces are host memory.
    #[must_use]
    pub fn is_host(&self) -> bool {
        !matches!(self.slices, Slices::Placed(_))
    }

    /// All pieces in order, of host and devices.
    pub fn pieces(&self) -> impl Iterator<Item = PlacedSlice<'m>> + '_ {
        let (host, placed): (&[RawSlice<'m>], &[PlacedSlice<'m>]) = match &self.slices {
            Slices::One(one) => (one, &[]),
            Slices::Many(many) => (many, &[]),
            Slices::Placed(placed) => (&[], placed),
        };
        host.iter().copied().map(PlacedSlice::from).chain(placed.iter().copied())
    }

    /// Total length of all pieces, in bytes.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        self.total_len
    }

    /// The slices in order.
    ///
    /// # Panics
    /// If a piece lies in a device.
    #[must_use]
    pub fn slices(&self) -> &[RawSlice<'m>] {
        match &self.slices {
            Slices::One(one) => one,
            Slices::Many(many) => many,
            Slices::Placed(_) => panic!("memory of a device is not for the processor"),
        }
    }

    /// The `len` bytes at offset `from`, as pieces. Finding the first one takes time proportional to the slices before
    /// it.
    ///
    /// # Panics
    /// If the bytes do not lie within the list, or any piece of the list lies in a device.
    pub fn sub(&self, from: u64, len: u64) -> impl Iterator<Item = RawSlice<'m>> {
        self.check(from, len);
        cut(self.slices(), (from, len), RawSlice::len, RawSlice::sub)
    }

    fn check(&self, from: u64, len: u64) {
        let inside = from.checked_add(len).is_some_and(|end| end <= self.total_len);
        assert!(
            inside,
            "{len} bytes from {from} do not lie within a list of {} bytes",
            self.total_len
        );
    }

    /// The same bytes as [`SliceList::sub`], as a list. Its pieces may lie in devices.
    ///
    /// # Panics
    /// If the bytes do not lie within the list.
    #[must_use]
    pub fn part(&self, from: u64, len: u64) -> SliceList<'m> {
        match &self.slices {
            Slices::Placed(placed) => {
                self.check(from, len);
                cut(placed, (from, len), PlacedSlice::len, PlacedSlice::sub).collect()
            }
            _ => self.sub(from, len).collect(),
        }
    }

    /// A copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices().iter().flat_map(RawSlice::to_vec).collect()
    }
}

/// The `len` bytes at offset `from` of these slices, as non-empty pieces.
fn cut<T: Copy>(
    slices: &[T],
    (from, len): (u64, u64),
    len_of: impl Fn(&T) -> usize,
    part: impl Fn(&T, usize, usize) -> T,
) -> impl Iterator<Item = T> {
    let (mut skip, mut left) = (from, len);
    let pieces = slices.iter().map_while(move |slice| {
        let here = len_of(slice) as u64;
        let start = skip.min(here);
        let taken = left.min(here - start);
        let is_over = left == 0;
        (skip, left) = (skip - start, left - taken);
        // Both fit into `usize`, because the slice's length does.
        let piece = (taken > 0).then(|| part(slice, start as usize, taken as usize));
        (!is_over).then_some(piece)
    });
    pieces.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    fn list<'m>(buffer: &'m Buffer, lens: &[usize]) -> SliceList<'m> {
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

    fn mixed(buffer: &Buffer) -> SliceList<'_> {
        // SAFETY: nothing accesses the memory.
        let device = |at, len| unsafe { PlacedSlice::of_device(1, at, len) };
        let host = |from, len| PlacedSlice::from(buffer.raw().sub(from, len));
        [host(0, 3), device(0x1000, 4), host(3, 2), device(0x2000, 6)].into_iter().collect()
    }

    #[test]
    fn parts_of_lists_keep_their_places() {
        let buffer = Buffer::zeroed(5);
        let list = mixed(&buffer);
        assert_eq!((list.total_len(), list.is_host()), (15, false));
        let device = |list: &SliceList<'_>| -> Vec<(u64, usize)> {
            let pieces = list.pieces();
            pieces.filter_map(|piece| Some((piece.device()?.1, piece.len()))).collect()
        };
        assert_eq!(device(&list.part(5, 7)), [(0x1002, 2), (0x2000, 3)]);
        assert_eq!(device(&list.part(12, 3)), [(0x2003, 3)]);
        assert!(list.part(0, 3).is_host() && list.part(7, 2).is_host());
        assert_eq!(list.part(0, 2).slices().len(), 1);
    }

    #[test]
    #[should_panic(expected = "memory of a device is not for the processor")]
    fn the_processor_is_not_given_memory_of_a_device() {
        let _ = mixed(&Buffer::zeroed(5)).to_vec();
    }
}
