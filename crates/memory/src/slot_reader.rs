use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, fence};

use mooncake_types::{Epoch, Version};

use crate::foreign::{check_kind, check_len};
use crate::map_error::size_of;
use crate::slot::{DIGEST_WORD, Words, digest_of_word, table_bytes};
use crate::{MapError, Region, SlotRow};

/// Reads a [`crate::SlotTable`] of this or another process.
#[derive(Debug)]
pub struct SlotReader {
    words: Words,
}

/// A slot as it was read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenSlot {
    /// The contents of the slot.
    pub row: SlotRow,
    index: usize,
    count: u64,
}

/// How often to read a slot that is being changed before it counts as empty.
const LOOKS: usize = 64;

impl SlotReader {
    /// Maps a table that another process handed over, for a segment of this length in bytes.
    ///
    /// # Errors
    /// The descriptor is no memory, is not sealed against shrinking or is too short, or a system call fails.
    pub fn received(memory: &OwnedFd, segment_len: u64) -> Result<Self, MapError> {
        let bytes = table_bytes(segment_len)?;
        check_kind(memory, bytes)?;
        check_len(memory, 0, bytes)?;
        let region = Region::read_only(memory, size_of(bytes)?)?;
        Ok(Self { words: Words::new(region, segment_len) })
    }

    /// Whether the segment is no longer lent.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let closed = self.words.closed().load(Ordering::Relaxed) != 0;
        fence(Ordering::Acquire);
        closed
    }

    /// The slot of the range at this offset, if it has one.
    #[must_use]
    pub fn find(&self, offset: u64) -> Option<SeenSlot> {
        self.words.places(offset).find_map(|index| self.look(index, offset))
    }

    fn look(&self, index: usize, offset: u64) -> Option<SeenSlot> {
        let load = |word| self.words.slot_word(index, word).load(Ordering::Relaxed);
        for _ in 0..LOOKS {
            let count = load(0);
            fence(Ordering::Acquire);
            if load(1) != offset || load(2) == 0 {
                return None;
            }
            let [len, epoch, counter, object_offset] = std::array::from_fn(|word| load(word + 2));
            let version = Version { epoch: Epoch(epoch), counter };
            let digest = digest_of_word(load(DIGEST_WORD));
            let row = SlotRow { offset, len, version, object_offset, digest };
            let seen = SeenSlot { row, index, count };
            if count.is_multiple_of(2) && self.is_unchanged(&seen) {
                return Some(seen);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Whether the slot is unchanged since it was read, and the segment is still lent. Call it after the bytes were
    /// copied.
    #[must_use]
    pub fn still_holds(&self, seen: &SeenSlot) -> bool {
        self.is_unchanged(seen) && !self.is_closed()
    }

    fn is_unchanged(&self, seen: &SeenSlot) -> bool {
        // All earlier loads come before this one.
        fence(Ordering::Acquire);
        self.words.slot_word(seen.index, 0).load(Ordering::Relaxed) == seen.count
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::SlotTable;

    fn pair(segment_len: u64) -> (SlotTable, SlotReader) {
        let table = SlotTable::new(segment_len).unwrap();
        let handed = table.descriptor().try_clone_to_owned().unwrap();
        (table, SlotReader::received(&handed, segment_len).unwrap())
    }

    fn row(offset: u64, len: u64, counter: u64) -> SlotRow {
        let version = Version { epoch: Epoch(counter ^ 5), counter };
        let digest = counter.is_multiple_of(2).then_some(counter as u32);
        SlotRow { offset, len, version, object_offset: counter * 3, digest }
    }

    #[test]
    fn a_row_is_seen_until_it_is_withdrawn() {
        let (table, reader) = pair(10 << 20);
        let (first, second) = (row(0, 10, 1), row(7 << 20, 3 << 20, 2));
        assert!(table.publish(&first) && table.publish(&second));
        let seen = [reader.find(0).unwrap(), reader.find(7 << 20).unwrap()];
        assert_eq!(seen.map(|seen| seen.row), [first, second]);
        assert_eq!([reader.find(1), reader.find(8 << 20), reader.find(u64::MAX)], [None; 3]);
        table.withdraw(0);
        assert_eq!(seen.map(|seen| reader.still_holds(&seen)), [false, true]);
        assert_eq!(reader.find(0), None);
        assert!(!table.publish(&row(0, 0, 3)), "an empty range has no slot");
    }

    #[test]
    fn a_digest_that_comes_later_leaves_the_slot_as_it_is() {
        let (table, reader) = pair(4096);
        assert!(table.publish(&row(0, 10, 1)));
        let seen = reader.find(0).unwrap();
        assert_eq!(seen.row.digest, None);
        table.note_digest(0, u32::MAX);
        table.note_digest(1, 5);
        assert!(reader.still_holds(&seen));
        assert_eq!(reader.find(0).unwrap().row, SlotRow { digest: Some(u32::MAX), ..seen.row });
        assert!(table.publish(&row(0, 10, 1)), "another range of the same place");
        assert_eq!(reader.find(0).unwrap().row.digest, None);
    }

    #[test]
    fn the_same_row_again_is_another() {
        let (table, reader) = pair(4096);
        assert!(table.publish(&row(0, 10, 1)));
        let seen = reader.find(0).unwrap();
        assert!(table.publish(&row(0, 10, 1)));
        assert!(!reader.still_holds(&seen), "the bytes may have changed in between");
        assert_eq!(reader.find(0).unwrap().row, row(0, 10, 1));
        table.withdraw(0);
        assert_eq!(reader.find(0), None, "there was only one of it");
    }

    #[test]
    fn a_closed_table_holds_nothing_any_more() {
        let (table, reader) = pair(4096);
        assert!(table.publish(&row(0, 10, 1)));
        let seen = reader.find(0).unwrap();
        assert!(reader.still_holds(&seen) && !reader.is_closed());
        table.close();
        assert!(!reader.still_holds(&seen) && reader.is_closed());
    }

    #[test]
    fn ranges_side_by_side_all_have_slots() {
        for len in [4096, 8192, 16 << 10, 64 << 10, 96 << 10, 1 << 20] {
            let (table, reader) = pair(8 << 20);
            let offsets: Vec<u64> = (0..(8 << 20) / len).map(|index| index * len).collect();
            assert!(offsets.iter().all(|&offset| table.publish(&row(offset, len, offset + 1))));
            for &offset in &offsets {
                assert_eq!(reader.find(offset).unwrap().row, row(offset, len, offset + 1));
            }
        }
    }

    #[test]
    fn a_range_without_a_free_slot_is_not_in_the_table() {
        let (table, reader) = pair(1 << 20);
        let held: Vec<u64> = (0..4096).filter(|&at| table.publish(&row(at, 1, at + 1))).collect();
        assert_eq!(held.len(), 32);
        for at in 0..4096 {
            let expected = held.contains(&at).then(|| row(at, 1, at + 1));
            assert_eq!(reader.find(at).map(|seen| seen.row), expected, "{at}");
        }
        table.withdraw(held[3]);
        assert!(table.publish(&row(4095, 1, 7)));
        assert_eq!(reader.find(4095).unwrap().row, row(4095, 1, 7));
    }

    #[test]
    fn what_was_handed_over_cannot_be_written_and_must_be_long_enough() {
        let table = SlotTable::new(1 << 20).unwrap();
        let handed = || table.descriptor().try_clone_to_owned().unwrap();
        assert!(Region::received(handed(), 4096).is_err(), "a mapping that can be written");
        let file = std::fs::File::from(handed());
        std::os::unix::fs::FileExt::write_at(&file, b"x", 0).expect_err("it is sealed");
        let error = SlotReader::received(&handed(), 2 << 20).unwrap_err();
        assert!(matches!(error, MapError::TooShort { .. }), "{error}");
    }

    /// Each row's fields depend on each other, so a torn read shows.
    #[test]
    fn readers_never_see_a_torn_row() {
        let (table, reader) = pair(1 << 20);
        let (stop, rounds) = (AtomicBool::new(false), 50_000);
        std::thread::scope(|scope| {
            let read = || {
                let mut seen = 0;
                while !stop.load(Ordering::Relaxed) || seen == 0 {
                    let Some(found) = reader.find(4096) else { continue };
                    assert_eq!(found.row, row(4096, found.row.len, found.row.len));
                    seen += 1;
                }
            };
            let readers = [scope.spawn(read), scope.spawn(read)];
            for counter in 1..=rounds {
                assert!(table.publish(&row(4096, counter, counter)));
                if counter % 3 == 0 && counter < rounds {
                    table.withdraw(4096);
                }
            }
            stop.store(true, Ordering::Relaxed);
            for reader in readers {
                reader.join().unwrap();
            }
        });
    }
}
