//! Layout of a slot table in memory, which both sides share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use mooncake_types::Version;

use crate::map_error::size_of;
use crate::{MapError, Region};

/// The contents of a slot: a range of a segment whose bytes can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRow {
    /// Offset of the range in its segment, in bytes.
    pub offset: u64,
    /// Length of the range, in bytes; never zero.
    pub len: u64,
    /// The version of the object in the range.
    pub version: Version,
    /// Offset of the range's bytes in the object, in bytes.
    pub object_offset: u64,
    /// The [`digest`](crate::digest) of the checksums of its chunks, if these are known.
    pub digest: Option<u32>,
}

/// Marks a word that holds a digest.
const HAS_DIGEST: u64 = 1 << 32;

/// The word of a slot for a digest.
pub(crate) fn digest_word(digest: Option<u32>) -> u64 {
    digest.map_or(0, |digest| HAS_DIGEST | u64::from(digest))
}

/// The digest in a word of a slot.
pub(crate) fn digest_of_word(word: u64) -> Option<u32> {
    (word & HAS_DIGEST != 0).then_some(word as u32)
}

/// Bytes before the first slot. The first word is non-zero once the segment is no longer lent.
const HEADER_BYTES: u64 = 4096;

/// Words of a slot, which fills one cache line: a count that is odd during changes, offset, length, epoch, counter,
/// offset in the object, and the digest, which may come later than the others.
pub(crate) const SLOT_WORDS: usize = 8;

/// Which of them holds the digest.
pub(crate) const DIGEST_WORD: usize = 6;

pub(crate) const SLOT_BYTES: u64 = 64;

/// Adjacent slots that form a set.
const WAYS: u64 = 8;

pub(crate) const SET_BYTES: u64 = WAYS * SLOT_BYTES;

/// Number of sets per level over which the ranges of a group are spread. A full set overflows to the next level.
const SETS: u64 = 8;
const LEVELS: u64 = 4;

/// Bytes of a segment whose ranges share slots. A group has 256 slots, enough for ranges of 4 KiB.
const GROUP_BYTES: u64 = 1 << 20;

/// Number of groups of a segment of this length.
fn groups(segment_len: u64) -> u64 {
    segment_len.div_ceil(GROUP_BYTES)
}

/// Length of the table for a segment of this length. Few of its pages are touched: sets of the same number lie
/// together for all groups, and large ranges use only the first sets.
pub(crate) fn table_bytes(segment_len: u64) -> Result<u64, MapError> {
    let slots = groups(segment_len).checked_mul(LEVELS * SETS * WAYS);
    let bytes = slots.and_then(|slots| slots.checked_mul(SLOT_BYTES)?.checked_add(HEADER_BYTES));
    let bytes = bytes.ok_or(MapError::TooLarge { len: segment_len })?;
    size_of(bytes).map(|_| bytes)
}

/// The sets in which a range at this offset may be, as offsets in the table, in the order in which they are tried.
/// None if the offset lies beyond the segment.
pub(crate) fn set_offsets(segment_len: u64, offset: u64) -> impl Iterator<Item = u64> {
    let (group, groups) = (offset / GROUP_BYTES, groups(segment_len));
    let (set, levels) = (offset / 4096 % SETS, if group < groups { LEVELS } else { 0 });
    (0..levels).map(move |level| {
        let plane = level * SETS + set;
        HEADER_BYTES + (plane * groups + group) * SET_BYTES
    })
}

/// A slot table, as words in a region.
#[derive(Debug)]
pub(crate) struct Words {
    region: Arc<Region>,
    groups: u64,
}

impl Words {
    /// A table for a segment of this length. The region must be at least as long as [`table_bytes`].
    pub(crate) fn new(region: Region, segment_len: u64) -> Self {
        Self { region: Arc::new(region), groups: groups(segment_len) }
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // A read-only mapping is only loaded from.
        self.region.word(index)
    }

    pub(crate) fn closed(&self) -> &AtomicU64 {
        self.word(0)
    }

    pub(crate) fn slot(&self, index: usize) -> [&AtomicU64; SLOT_WORDS] {
        std::array::from_fn(|word| self.slot_word(index, word))
    }

    /// One word of a slot. A search looks at few words of each.
    pub(crate) fn slot_word(&self, index: usize, word: usize) -> &AtomicU64 {
        self.word((HEADER_BYTES / 8) as usize + index * SLOT_WORDS + word)
    }

    /// The slots in which a range at this offset may be, in the order in which they are tried. None if the offset lies
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
            let sets: BTreeSet<u64> = set_offsets(segment_len, segment_len - 1).collect();
            let slots =
                words.places(segment_len - 1).map(|slot| HEADER_BYTES + slot as u64 * SLOT_BYTES);
            let of_slots: BTreeSet<u64> = slots.map(|at| at - at % SET_BYTES).collect();
            assert_eq!(sets, of_slots, "{segment_len}");
        }
    }

    #[test]
    fn a_table_takes_a_sixty_fourth_of_its_segment() {
        assert_eq!(table_bytes(0), Ok(HEADER_BYTES));
        assert_eq!(table_bytes(1), Ok(HEADER_BYTES + (16 << 10)));
        assert_eq!(table_bytes(1 << 46), Ok(HEADER_BYTES + (1 << 40)));
    }
}
