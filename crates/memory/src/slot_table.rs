use std::os::fd::BorrowedFd;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use crate::slot::{DIGEST_WORD, SLOT_WORDS, Words, digest_word, table_bytes};
use crate::{HeldSlice, MapError, Region, Registration, SlotRow};

/// A table of the ranges of a segment that can be read without asking its node. Other processes map it read-only. It
/// has a slot for each complete range.
///
/// A slot is a sequence lock. A reader loads the slot, copies the range, and loads the slot's count again. If the
/// count is unchanged, the copied bytes are those that the slot describes. For this the node must withdraw the slot
/// **before** any byte of the range can change.
///
/// A range whose slots are all taken is not in the table: readers then ask the node. Only one thread at a time may
/// change the table.
#[derive(Debug)]
pub struct SlotTable {
    words: Words,
    /// By which peers reach the segment and the table; none any more once the segment is no longer lent.
    lent: Mutex<Vec<Box<dyn Registration>>>,
}

impl SlotTable {
    /// An empty table for a segment of this length in bytes. It takes 1.6 % of that in address space, and about 64
    /// bytes of memory for each range.
    ///
    /// # Errors
    /// There is no such memory, or the kernel cannot seal it against writing (before Linux 5.1).
    pub fn new(segment_len: u64) -> Result<Self, MapError> {
        let region = Region::readable_by_others(table_bytes(segment_len)?)?;
        Ok(Self { words: Words::new(region, segment_len), lent: Mutex::default() })
    }

    /// The memory of the table, for peers that copy it.
    #[must_use]
    pub fn memory(&self) -> HeldSlice {
        HeldSlice::whole(Arc::clone(self.words.region()))
    }

    /// Keeps a registration by which peers reach the segment for as long as it is lent. Returns false if it is not lent
    /// any more; the registration is dropped then.
    pub fn keep_while_lent(&self, registration: Box<dyn Registration>) -> bool {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_closed() {
            return false;
        }
        lent.push(registration);
        true
    }

    /// Whether the segment is no longer lent.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.words.closed().load(Ordering::SeqCst) != 0
    }

    /// The descriptor that another process maps ([`crate::SlotReader::received`]).
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.words.region().descriptor().expect("a table is made with a descriptor")
    }

    /// Publishes a range, in the place of one with the same offset. Returns false if the range is empty or all its
    /// slots are taken.
    pub fn publish(&self, row: &SlotRow) -> bool {
        self.withdraw(row.offset);
        let free = |index: &usize| self.words.slot_word(*index, 2).load(Ordering::Relaxed) == 0;
        let place = self.words.places(row.offset).find(free);
        let Some(index) = place.filter(|_| row.len > 0) else { return false };
        self.set(index, row);
        true
    }

    /// Withdraws the range at this offset, if it is published.
    pub fn withdraw(&self, offset: u64) {
        if let Some(index) = self.find(offset) {
            let nothing = SlotRow {
                offset: 0,
                len: 0,
                version: mooncake_types::Version::default(),
                object_offset: 0,
                digest: None,
            };
            self.set(index, &nothing);
        }
    }

    /// Adds the digest to the range at this offset, if it is published. Its slot stays as it is for readers that have
    /// seen it.
    pub fn note_digest(&self, offset: u64, digest: u32) {
        if let Some(index) = self.find(offset) {
            let word = self.words.slot_word(index, DIGEST_WORD);
            word.store(digest_word(Some(digest)), Ordering::Release);
        }
    }

    fn find(&self, offset: u64) -> Option<usize> {
        let is_it = |index: &usize| {
            let load = |word| self.words.slot_word(*index, word).load(Ordering::Relaxed);
            load(1) == offset && load(2) > 0
        };
        self.words.places(offset).find(is_it)
    }

    /// Tells all readers, permanently, that the segment is no longer lent. Peers that reached it by a registration do
    /// not reach it any more when this returns.
    pub fn close(&self) {
        self.words.closed().store(1, Ordering::SeqCst);
        // All processes see this before any later change to the segment.
        fence(Ordering::SeqCst);
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = std::mem::take(&mut *lent);
        drop(lent);
    }

    fn set(&self, index: usize, row: &SlotRow) {
        let slot: [_; SLOT_WORDS] = self.words.slot(index);
        let count = slot[0].load(Ordering::Relaxed);
        slot[0].store(count.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let version = row.version;
        let digest = digest_word(row.digest);
        let words =
            [row.offset, row.len, version.epoch.0, version.counter, row.object_offset, digest];
        for (word, value) in slot[1..].iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        slot[0].store(count.wrapping_add(2), Ordering::Release);
        // All processes see this before any later change to the range.
        fence(Ordering::SeqCst);
    }
}
