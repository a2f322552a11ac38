use mooncake_types::{Epoch, Version};

use crate::slot::{DIGEST_WORD, SET_BYTES, SLOT_BYTES, digest_of_word, set_offsets, table_bytes};
use crate::{MapError, SlotRow};

/// Where the slots of a [`crate::SlotTable`] lie, for a reader that copies them out of the memory of another host.
///
/// The proof is that of [`crate::SlotReader`], with copies in place of loads. Each copy has to be complete before the
/// next begins: a slot, the bytes of the range, the slot again. Copies must read the words of a slot in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSlots {
    segment_len: u64,
    table_bytes: u64,
}

/// A slot as it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedSlot {
    /// The contents of the slot.
    pub row: SlotRow,
    /// Where it lies in the table, in bytes.
    pub offset: u64,
    words: [u64; DIGEST_WORD],
}

impl RemoteSlots {
    /// Length of a copy in which [`RemoteSlots::find`] looks.
    pub const SET_BYTES: usize = SET_BYTES as usize;

    /// Length of the copy of a slot.
    pub const SLOT_BYTES: usize = SLOT_BYTES as usize;

    /// The table of a segment of this length in bytes.
    ///
    /// # Errors
    /// The segment is too long for a table.
    pub fn new(segment_len: u64) -> Result<Self, MapError> {
        Ok(Self { segment_len, table_bytes: table_bytes(segment_len)? })
    }

    /// Length of the table in bytes. Its first word is not zero once the segment is no longer lent.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// Offsets in the table of the sets that may hold the slot of a range at this offset, likely ones first.
    pub fn sets(&self, offset: u64) -> impl Iterator<Item = u64> + use<> {
        set_offsets(self.segment_len, offset)
    }

    /// The slot of the range at `offset`, if it is in the copy of a set.
    #[must_use]
    pub fn find(copy: &[u8; Self::SET_BYTES], set: u64, offset: u64) -> Option<CopiedSlot> {
        let (slots, _) = copy.as_chunks::<{ Self::SLOT_BYTES }>();
        slots.iter().zip(0..).find_map(|(slot, way)| {
            let (words, digest) = words(slot);
            let [count, at, len, epoch, counter, object_offset] = words;
            if at != offset || len == 0 || !count.is_multiple_of(2) {
                return None;
            }
            let version = Version { epoch: Epoch(epoch), counter };
            let row = SlotRow { offset, len, version, object_offset, digest };
            Some(CopiedSlot { row, offset: set + way * SLOT_BYTES, words })
        })
    }
}

impl CopiedSlot {
    /// Whether a later copy of the slot shows that it did not change between the two.
    #[must_use]
    pub fn is_unchanged(&self, again: &[u8; RemoteSlots::SLOT_BYTES]) -> bool {
        words(again).0 == self.words
    }
}

/// The words that change together, and the digest, which may come later.
fn words(slot: &[u8; RemoteSlots::SLOT_BYTES]) -> ([u64; DIGEST_WORD], Option<u32>) {
    let (all, _) = slot.as_chunks::<8>();
    let word = |at: usize| u64::from_ne_bytes(all[at]);
    (std::array::from_fn(word), digest_of_word(word(DIGEST_WORD)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SlotTable;

    fn row(offset: u64, counter: u64) -> SlotRow {
        let version = Version { epoch: Epoch(3), counter };
        SlotRow { offset, len: 10, version, object_offset: 77, digest: Some(5) }
    }

    /// A copy of bytes of the table.
    fn copy<const LEN: usize>(table: &SlotTable, at: u64) -> [u8; LEN] {
        let bytes = table.memory().sub(at as usize, LEN);
        bytes.raw().to_vec().try_into().expect("as long as the slice")
    }

    fn find(table: &SlotTable, slots: &RemoteSlots, offset: u64) -> Option<CopiedSlot> {
        slots.sets(offset).find_map(|set| RemoteSlots::find(&copy(table, set), set, offset))
    }

    #[test]
    fn a_slot_is_found_in_copies_until_it_changes() {
        const SEGMENT: u64 = 5 << 20;
        let table = SlotTable::new(SEGMENT).unwrap();
        let slots = RemoteSlots::new(SEGMENT).unwrap();
        assert_eq!(table.memory().len() as u64, slots.table_bytes());
        let rows: Vec<SlotRow> = (0..100).map(|at| row(at * 4096 * 11, at + 1)).collect();
        assert!(rows.iter().all(|row| table.publish(row)));
        for row in &rows {
            let found = find(&table, &slots, row.offset).unwrap();
            assert_eq!(found.row, *row);
            assert!(found.is_unchanged(&copy(&table, found.offset)));
            assert!(table.publish(row), "the same again");
            assert!(!found.is_unchanged(&copy(&table, found.offset)));
            table.withdraw(row.offset);
            assert_eq!(find(&table, &slots, row.offset), None);
        }
        assert_eq!(slots.sets(SEGMENT).count(), 0);
    }

    #[test]
    fn a_slot_that_is_being_changed_is_no_slot() {
        let mut set = [0; RemoteSlots::SET_BYTES];
        let words = [3_u64, 4096, 10, 1, 1, 0].map(u64::to_ne_bytes);
        set[64..64 + 48].copy_from_slice(words.as_flattened());
        assert_eq!(RemoteSlots::find(&set, 0, 4096), None);
        set[64] = 4;
        assert_eq!(RemoteSlots::find(&set, 512, 4096).unwrap().offset, 512 + 64);
    }
}
