use std::os::fd::BorrowedFd;
use std::sync::atomic::{Ordering, fence};

use crate::slot::{SLOT_WORDS, Words, table_bytes};
use crate::{MapError, Region, SlotRow};

/// What can be read of a segment without asking its node: a table in memory that other processes map and only read, with
/// a slot for each range that is complete.
///
/// A slot is a sequence lock: whoever read it, and then the range, and finds the slot's count unchanged afterwards has
/// read the bytes that it stood for, provided that the node takes the slot away **before** it lets anybody change a byte
/// of the range. A range that finds all of its slots taken is not in the table; readers ask the node.
///
/// Changes come from one thread at a time.
#[derive(Debug)]
pub struct SlotTable {
    words: Words,
}

impl SlotTable {
    /// An empty table for a segment of that length in bytes. It takes 1.6 % of that in address space, and 64 bytes of memory
    /// for each range, more or less.
    ///
    /// # Errors
    /// If the system has no such memory, or cannot seal it against writing (Linux 5.1).
    pub fn new(segment_len: u64) -> Result<Self, MapError> {
        let region = Region::readable_by_others(table_bytes(segment_len)?)?;
        Ok(Self { words: Words::new(region, segment_len) })
    }

    /// What another process maps ([`crate::SlotReader::received`]).
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.words.region().descriptor().expect("a table is made with a descriptor")
    }

    /// Puts a range in; whatever stood there for its start is replaced. False if there is no room for it, or it is
    /// empty.
    pub fn publish(&self, row: &SlotRow) -> bool {
        self.withdraw(row.offset);
        let free = |index: &usize| self.words.slot(*index)[2].load(Ordering::Relaxed) == 0;
        let place = self.words.places(row.offset).find(free);
        let Some(index) = place.filter(|_| row.len > 0) else { return false };
        self.set(index, row);
        true
    }

    /// Takes the range that starts here out, if it is in.
    pub fn withdraw(&self, offset: u64) {
        let is_it = |index: &usize| {
            let slot = self.words.slot(*index);
            slot[1].load(Ordering::Relaxed) == offset && slot[2].load(Ordering::Relaxed) > 0
        };
        if let Some(index) = self.words.places(offset).find(is_it) {
            let nothing = SlotRow {
                offset: 0,
                len: 0,
                version: mooncake_types::Version::default(),
                object_offset: 0,
            };
            self.set(index, &nothing);
        }
    }

    /// Says to all readers, for good, that the segment is no longer lent.
    pub fn close(&self) {
        self.words.closed().store(1, Ordering::SeqCst);
        // What the caller lets happen to the segment comes after this for everybody.
        fence(Ordering::SeqCst);
    }

    fn set(&self, index: usize, row: &SlotRow) {
        let slot: [_; SLOT_WORDS] = self.words.slot(index);
        let count = slot[0].load(Ordering::Relaxed);
        slot[0].store(count.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let version = row.version;
        let words = [row.offset, row.len, version.epoch.0, version.counter, row.object_offset];
        for (word, value) in slot[1..].iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        slot[0].store(count.wrapping_add(2), Ordering::Release);
        // What the caller lets happen to the range comes after all of this for everybody.
        fence(Ordering::SeqCst);
    }
}
