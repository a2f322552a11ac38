use mooncake_memory::{PlacedSlice, SliceList};
use mooncake_ops::Part;

use crate::drive::Memory;

/// Bytes of an object, and where they are in the caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// Offset of the first byte in the object.
    pub object_offset: u64,
    /// The memory that they come from or go to; its length is their number.
    pub slice: PlacedSlice<'a>,
}

/// Some of one object's bytes, to be read or written. Nothing touches the memory after the call has returned.
#[derive(Clone, Debug)]
pub struct Ranged<'a> {
    /// The object's key.
    pub key: &'a str,
    /// Which bytes, and where they are in memory.
    pub fragments: Vec<Fragment<'a>>,
}

impl Ranged<'_> {
    pub(super) fn parts(&self) -> Vec<Part> {
        self.fragments.iter().map(Fragment::part).collect()
    }

    /// Total length of all fragments in bytes.
    #[must_use]
    pub fn total_len(&self) -> u64 {
        self.fragments.iter().map(|fragment| fragment.slice.len() as u64).sum()
    }
}

impl Fragment<'_> {
    fn part(&self) -> Part {
        Part { from: self.object_offset, len: self.slice.len() as u64 }
    }
}

/// The memory of ranged items: the fragments of each item, one after the other.
pub(super) struct Fragments<'a, 'k> {
    items: &'a [Ranged<'k>],
    /// For each item, where each of its fragments starts among them.
    starts: Vec<Vec<u64>>,
}

impl<'a, 'k> Fragments<'a, 'k> {
    pub(super) fn new(items: &'a [Ranged<'k>]) -> Self {
        let lens = |item: &'a Ranged<'k>| {
            item.fragments.iter().map(|fragment| fragment.slice.len() as u64)
        };
        Self { items, starts: items.iter().map(|item| starts(lens(item))).collect() }
    }
}

/// Where fragments of these lengths start. Sums saturate, since callers may name more bytes than there can be.
fn starts(lens: impl Iterator<Item = u64>) -> Vec<u64> {
    lens.scan(0_u64, |at, len| Some(std::mem::replace(at, at.saturating_add(len)))).collect()
}

impl Memory for Fragments<'_, '_> {
    fn part(&self, position: usize, at: u64, len: u64, _: u64) -> Option<SliceList<'_>> {
        let (starts, fragments) = (&self.starts[position], &self.items[position].fragments);
        let first = starts.partition_point(|&start| start <= at).checked_sub(1)?;
        let (mut skip, mut left) = ((at - starts[first]) as usize, len);
        let mut slices = Vec::new();
        for fragment in &fragments[first..] {
            if left == 0 {
                break;
            }
            let here = fragment.slice.len().checked_sub(skip)?;
            let taken = usize::try_from(left).map_or(here, |left| left.min(here));
            slices.push(fragment.slice.sub(skip, taken));
            (skip, left) = (0, left - taken as u64);
        }
        (left == 0).then(|| slices.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooncake_memory::Buffer;

    #[test]
    fn fragments_of_more_bytes_than_there_can_be_have_places() {
        let half = 1 << 63;
        assert_eq!(starts([half, half, 1, 2].into_iter()), [0, half, u64::MAX, u64::MAX]);
    }

    #[test]
    fn a_place_among_fragments_is_found_wherever_they_are_cut() {
        let buffer = Buffer::from_vec(b"abcdefghij".to_vec());
        let cut =
            |from, len| Fragment { object_offset: 77, slice: buffer.raw().sub(from, len).into() };
        let fragments = vec![cut(4, 3), cut(0, 0), cut(0, 4), cut(9, 1)];
        let items = [Ranged { key: "a", fragments }, Ranged { key: "b", fragments: vec![] }];
        let memory = Fragments::new(&items);
        for (at, len, expected) in [
            (0, 8, Some("efgabcdj")),
            (0, 3, Some("efg")),
            (2, 2, Some("ga")),
            (3, 4, Some("abcd")),
            (7, 1, Some("j")),
            (7, 2, None),
            (9, 1, None),
        ] {
            let found = memory.part(0, at, len, 0).map(|part| part.to_vec());
            assert_eq!(found, expected.map(|text| text.as_bytes().to_vec()), "{len} from {at}");
        }
        assert!(memory.part(1, 0, 1, 0).is_none());
    }
}
