//! How the slots of a table lie in memory, which both sides of it must agree on.

use std::sync::atomic::AtomicU64;

use mooncake_types::Version;

use crate::map_error::size_of;
use crate::{MapError, Region};

/// What a slot says of one range of a segment: all of it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRow {
    /// Where the range starts in its segment, in bytes.
    pub offset: u64,
    /// Length of the range, in bytes; never zero.
    pub len: u64,
    /// The version of the object that lies there.
    pub version: Version,
    /// Where the range's bytes lie in the object, in bytes.
    pub object_offset: u64,
}

/// Bytes before the first slot: its first word is not zero once the segment is no longer lent.
const HEADER_BYTES: u64 = 4096;

/// A slot is a line of the cache. Its words: a count that is odd while the others change, offset, length, epoch, counter,
/// offset in the object.
pub(crate) const SLOT_WORDS: usize = 8;

const SLOT_BYTES: u64 = 64;

/// Slots that stand side by side and are tried one after the other.
const WAYS: u64 = 8;

/// Sets of slots that the ranges of a group are spread over, and further ones for each when it is full.
const SETS: u64 = 8;
const LEVELS: u64 = 4;

/// Bytes of a segment whose ranges share their slots: there are 256 of those, enough for ranges of 4 KiB each.
const GROUP_BYTES: u64 = 1 << 20;

/// Groups of a segment of that length.
fn groups(segment_len: u64) -> u64 {
    segment_len.div_ceil(GROUP_BYTES)
}

/// Bytes of the table for a segment of that length. Of those only as many pages are touched as there are ranges: sets of
/// one number lie together for all groups, and large ranges use but the first.
pub(crate) fn table_bytes(segment_len: u64) -> Result<u64, MapError> {
    let slots = groups(segment_len).checked_mul(LEVELS * SETS * WAYS);
    let bytes = slots.and_then(|slots| slots.checked_mul(SLOT_BYTES)?.checked_add(HEADER_BYTES));
    let bytes = bytes.ok_or(MapError::TooLarge { len: segment_len })?;
    size_of(bytes).map(|_| bytes)
}

/// The words of a table.
#[derive(Debug)]
pub(crate) struct Words {
    region: Region,
    groups: u64,
}

impl Words {
    /// A table for a segment of that length in memory that is as long as [`table_bytes`] says.
    pub(crate) fn new(region: Region, segment_len: u64) -> Self {
        Self { region, groups: groups(segment_len) }
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // A mapping that can only be read is only loaded from.
        self.region.word(index)
    }

    pub(crate) fn closed(&self) -> &AtomicU64 {
        self.word(0)
    }

    pub(crate) fn slot(&self, index: usize) -> [&AtomicU64; SLOT_WORDS] {
        let first = (HEADER_BYTES / 8) as usize + index * SLOT_WORDS;
        std::array::from_fn(|word| self.word(first + word))
    }

    /// The slots that a range which starts here may stand in, in the order in which they are tried; none if it starts
    /// beyond the segment.
    pub(crate) fn places(&self, offset: u64) -> impl Iterator<Item = usize> + use<> {
        let (group, groups) = (offset / GROUP_BYTES, self.groups);
        let (set, way) = (offset / 4096 % SETS, offset / 32_768 % WAYS);
        let levels = if group < groups { LEVELS } else { 0 };
        (0..levels * WAYS).map(move |step| {
            let plane = step / WAYS * SETS + set;
            ((plane * groups + group) * WAYS + (way + step) % WAYS) as usize
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn places_are_distinct_and_lie_in_the_table() {
        for segment_len in [1, 4096, GROUP_BYTES, 5 * GROUP_BYTES + 1] {
            let bytes = table_bytes(segment_len).unwrap();
            let words = Words::new(Region::anonymous(bytes).unwrap(), segment_len);
            for offset in [0, segment_len / 2, segment_len - 1] {
                let places: BTreeSet<usize> = words.places(offset).collect();
                assert_eq!(places.len() as u64, LEVELS * WAYS);
                let last = *places.last().unwrap() as u64;
                assert!(HEADER_BYTES + (last + 1) * SLOT_BYTES <= bytes, "{segment_len} {offset}");
            }
            assert_eq!(words.places(groups(segment_len) * GROUP_BYTES).count(), 0);
        }
    }

    #[test]
    fn a_table_takes_a_sixty_fourth_of_its_segment() {
        assert_eq!(table_bytes(0), Ok(HEADER_BYTES));
        assert_eq!(table_bytes(1), Ok(HEADER_BYTES + (16 << 10)));
        assert_eq!(table_bytes(1 << 46), Ok(HEADER_BYTES + (1 << 40)));
    }
}
