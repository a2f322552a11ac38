//! The complete entries of a named segment, as rows in its record, for the next process.
//!
//! A row exists from the moment at which its entry is complete until just before any byte of the range may change.
//! The machine says when and in which order ([`crate::machine::SegmentMachine`]).
//!
//! After a restart, incomplete entries are gone, and so are the fences that refuse older writers (L7). One number
//! replaces all of them: the highest grant that had begun, or was dropped, anywhere in the segment. All grants up to
//! it are refused.
//!
//! No writer that had begun before the restart is still at work. The memory of a named segment is handed to no other
//! process (only sealed memory is), so writers reach it through its process. The next process gets the file only when
//! that process is gone.

mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use mooncake_memory::{MappedWords, NamedSegmentError, Record, RowId, WordMemory};
use mooncake_types::{Epoch, SegmentId, Version};

use super::inherited::Unchecked;
use crate::ledger::{Entry, Ledger};
use crate::machine::Effect;

/// What an earlier process left.
#[derive(Debug)]
pub(super) struct RestoredRows<W = MappedWords> {
    pub(super) rows: EntryRows<W>,
    pub(super) ledger: Ledger,
    /// All entries of the ledger, by offset: nobody has checked their bytes yet.
    pub(super) unchecked: BTreeMap<u64, Unchecked>,
}

impl<W: WordMemory> RestoredRows<W> {
    /// What a new segment of `len` bytes begins with.
    pub(super) fn empty(words: W, segment: SegmentId, len: u64) -> Self {
        let rows = EntryRows::empty(words, segment);
        Self { rows, ledger: Ledger::new(len), unchecked: BTreeMap::new() }
    }
}

/// The rows of one ledger.
#[derive(Debug)]
pub(super) struct EntryRows<W = MappedWords> {
    record: Record<W>,
    /// The rows and the grants of their entries, by the offsets of these.
    rows: BTreeMap<u64, (RowId, Version)>,
    /// Buffer for the next row, kept for its memory.
    row: Vec<u8>,
    has_told_of_no_room: bool,
}

impl<W: WordMemory> EntryRows<W> {
    /// The rows of an empty ledger.
    pub(super) fn empty(words: W, segment: SegmentId) -> Self {
        Self::new(Record::empty(words, segment), BTreeMap::new())
    }

    const fn new(record: Record<W>, rows: BTreeMap<u64, (RowId, Version)>) -> Self {
        Self { record, rows, row: Vec::new(), has_told_of_no_room: false }
    }

    /// Restores the rows of a segment of `len` bytes, and its ledger.
    ///
    /// # Errors
    /// [`NamedSegmentError::Damaged`] if the record is not as it was written.
    pub(super) fn restore(words: W, len: u64) -> Result<RestoredRows<W>, NamedSegmentError> {
        let (mut ledger, mut rows) = (Ledger::new(len), BTreeMap::new());
        let mut unchecked = BTreeMap::new();
        let record = Record::recover(words, |id, bytes| {
            let kept = row::read(bytes).ok_or("a row is no entry")?;
            let restored = ledger.restore(&kept.range, kept.checksums);
            restored.map_err(|_| "an entry is out of bounds")?;
            rows.insert(kept.range.offset, (id, kept.range.grant));
            let entry = Unchecked { grant: kept.range.grant, kept: kept.kept };
            unchecked.insert(kept.range.offset, entry);
            Ok::<(), NamedSegmentError>(())
        })?;
        ledger.refuse_up_to(record.floor());
        Ok(RestoredRows { rows: Self::new(record, rows), ledger, unchecked })
    }

    /// The id of the segment.
    pub(super) fn segment(&self) -> SegmentId {
        self.record.segment()
    }

    /// The highest epoch that was noted.
    pub(super) fn epoch(&self) -> Epoch {
        self.record.epoch()
    }

    /// Carries out an effect on rows. Ignores other effects.
    pub(super) fn carry_out<H>(&mut self, effect: &Effect<'_, H>) {
        match *effect {
            Effect::RemoveRow { offset } => self.remove(offset),
            Effect::RefuseGrants { up_to } => {
                self.record.raise_floor(up_to);
                self.record.barrier();
            }
            Effect::AddRow { offset, entry } => self.add(offset, entry),
            Effect::Rename { id } => {
                self.record.rename(id);
                self.record.barrier();
            }
            Effect::NoteEpoch { epoch } => self.record.raise_epoch(epoch),
            Effect::AddSlot { .. }
            | Effect::RemoveSlot { .. }
            | Effect::CloseSlots
            | Effect::Interrupt(_) => {}
        }
    }

    /// Adds the row of an entry. If there is no room, the entry ends with the process.
    fn add(&mut self, offset: u64, entry: &Entry) {
        if self.rows.get(&offset).is_some_and(|&(_, grant)| grant == entry.grant) {
            return;
        }
        row::write(&mut self.row, offset, entry);
        let Some(id) = self.record.put(&self.row) else {
            if !std::mem::replace(&mut self.has_told_of_no_room, true) {
                tracing::warn!(
                    "there is no room to remember more objects: a restart of this node loses some"
                );
            }
            return;
        };
        let before = self.rows.insert(offset, (id, entry.grant));
        assert!(before.is_none(), "an entry is dropped before another takes its place");
    }

    fn remove(&mut self, offset: u64) {
        if let Some((row, _)) = self.rows.remove(&offset) {
            self.record.withdraw(row);
        }
    }
}
