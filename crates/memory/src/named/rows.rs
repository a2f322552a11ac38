use std::collections::{BTreeMap, BTreeSet};

use super::header::HEADER_WORDS;
use super::words::WordMemory;
use crate::crc32c;

/// Bytes of a slot. Most rows fit into one slot; a longer row chains several.
pub(super) const SLOT_BYTES: u64 = 256;

const SLOT_WORDS: usize = (SLOT_BYTES / 8) as usize;

/// Bytes of a row in one slot, behind its two words: the mark, and the number of the next slot.
const PAYLOAD_BYTES: usize = (SLOT_WORDS - 2) * 8;

/// Longest row, in bytes.
pub const MAX_ROW_BYTES: usize = 8 << 10;

/// Slots for which space is reserved at a time: 1 MiB.
const STEP: usize = 4096;

/// Marks the last slot of a row.
const END: u64 = u64::MAX;

/// A bit in the mark of a row's first slot, so that the mark is never zero.
const LIVE: u64 = 1 << 31;

/// The id of a row until it is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowId(u32);

/// Rows of bytes in slots of one size.
///
/// A row exists from the store of its first slot's mark until the mark is set to zero. Both are single stores. The
/// mark holds the length and the checksum of the row. Its bytes and its next slots are stored before the mark.
///
/// The mark of any other slot is zero, so recovery does not take it for a row. In the place of a mark, only marks of
/// rows that begin there are ever stored.
#[derive(Debug)]
pub(super) struct Rows {
    /// Most slots that the memory can hold.
    capacity: usize,
    /// Slots with reserved space; all used slots are among them. The word that holds their number is stored before the
    /// first of them is touched.
    provided: usize,
    /// Slots from this number on were never used.
    fresh: usize,
    free: Vec<u32>,
    /// The further slots of rows that take several, by their first slot.
    chains: BTreeMap<u32, Vec<u32>>,
    /// The word that holds the number of provided slots.
    provided_word: usize,
}

impl Rows {
    /// No rows. The memory must be zero.
    pub(super) fn empty(capacity: usize, provided_word: usize) -> Self {
        let (free, chains) = (Vec::new(), BTreeMap::new());
        Self { capacity, provided: 0, fresh: 0, free, chains, provided_word }
    }

    /// Recovers the rows of an earlier process, and passes each to `found`. Fails if the words are inconsistent, or if
    /// `found` does.
    pub(super) fn recover<E: From<&'static str>>(
        words: &impl WordMemory,
        capacity: usize,
        provided_word: usize,
        mut found: impl FnMut(RowId, &[u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut rows = Self::empty(capacity, provided_word);
        rows.provided = usize::try_from(words.load(provided_word)).unwrap_or(usize::MAX);
        if rows.provided > capacity {
            return Err("the number of rows is out of bounds".into());
        }
        rows.fresh = rows.provided;
        let (mut bytes, mut further) = (Vec::new(), BTreeSet::new());
        let is_row = |slot: usize| words.load(word_of(slot)) != 0;
        for first in (0..rows.provided).filter(|&slot| is_row(slot)) {
            let chain = rows.read(words, first, &mut bytes)?;
            if !chain.iter().all(|&slot| !is_row(slot as usize) && further.insert(slot)) {
                return Err("two rows share a slot".into());
            }
            if !chain.is_empty() {
                rows.chains.insert(first as u32, chain);
            }
            found(RowId(first as u32), &bytes)?;
        }
        let is_free = |slot: &u32| !is_row(*slot as usize) && !further.contains(slot);
        rows.free = (0..rows.provided as u32).rev().filter(is_free).collect();
        Ok(rows)
    }

    /// Reads the row that begins in this slot, and returns its further slots.
    fn read(
        &self,
        words: &impl WordMemory,
        first: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<Vec<u32>, &'static str> {
        let mark = words.load(word_of(first));
        let len = (mark & (LIVE - 1)) as usize;
        if mark & LIVE == 0 || len > MAX_ROW_BYTES {
            return Err("a slot has no mark that was ever stored");
        }
        bytes.clear();
        let (mut slot, mut chain) = (first, Vec::new());
        loop {
            let from = word_of(slot) + 2;
            let held = PAYLOAD_BYTES.min(len - bytes.len());
            for at in 0..held.div_ceil(8) {
                bytes.extend_from_slice(&words.load(from + at).to_le_bytes());
            }
            let next = words.load(word_of(slot) + 1);
            bytes.truncate(len);
            match (bytes.len() == len, next == END) {
                (true, true) => break,
                (false, false) if next < self.provided as u64 => slot = next as usize,
                _ => return Err("a row ends in the wrong slot"),
            }
            chain.push(slot as u32);
        }
        if u64::from(crc32c(bytes)) != mark >> 32 {
            return Err("the checksum of a row is not that of its bytes");
        }
        Ok(chain)
    }

    /// Adds a row. `None` if there is no space for it.
    pub(super) fn put(&mut self, words: &impl WordMemory, row: &[u8]) -> Option<RowId> {
        if row.len() > MAX_ROW_BYTES {
            return None;
        }
        let first = self.take(words)?;
        let mut further = Vec::new();
        for _ in 1..row.len().div_ceil(PAYLOAD_BYTES) {
            let Some(slot) = self.take(words) else {
                self.free.extend(further);
                self.free.push(first);
                return None;
            };
            further.push(slot);
        }
        let slots = std::iter::once(first).chain(further.iter().copied());
        let nexts = further.iter().map(|&slot| u64::from(slot)).chain(std::iter::once(END));
        let mut pieces = row.chunks(PAYLOAD_BYTES);
        for (slot, next) in slots.zip(nexts) {
            let from = word_of(slot as usize);
            words.store(from + 1, next);
            for (at, piece) in pieces.next().unwrap_or_default().chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..piece.len()].copy_from_slice(piece);
                words.store(from + 2 + at, u64::from_le_bytes(word));
            }
        }
        let mark = u64::from(crc32c(row)) << 32 | LIVE | row.len() as u64;
        words.store(word_of(first as usize), mark);
        if !further.is_empty() {
            self.chains.insert(first, further);
        }
        Some(RowId(first))
    }

    /// Removes a row. It does not exist any more when this returns.
    pub(super) fn withdraw(&mut self, words: &impl WordMemory, RowId(first): RowId) {
        words.store(word_of(first as usize), 0);
        self.free.extend(self.chains.remove(&first).unwrap_or_default());
        self.free.push(first);
    }

    /// Takes a slot that belongs to no row.
    fn take(&mut self, words: &impl WordMemory) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if self.fresh == self.provided {
            let provided = (self.provided + STEP).min(self.capacity);
            if provided == self.provided || !words.provide(word_of(provided)) {
                return None;
            }
            words.store(self.provided_word, provided as u64);
            self.provided = provided;
        }
        self.fresh += 1;
        u32::try_from(self.fresh - 1).ok()
    }
}

/// Index of a slot's first word.
pub(super) const fn word_of(slot: usize) -> usize {
    HEADER_WORDS + slot * SLOT_WORDS
}
