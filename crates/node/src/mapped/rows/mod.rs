//! What of a segment outlives its process: its complete entries, in the record of a named segment.
//!
//! An entry of the ledger is kept as a row of the record from the moment at which it is complete until just before anybody
//! may change a byte of its range. The machine says when and in which order ([`crate::machine::SegmentMachine`]).
//!
//! Whatever was not complete is gone after a restart, and with it the fences that keep older writers out of a range (L7). One
//! number stands for all of them: the highest grant that had begun, or was dropped, anywhere in the segment. None up to it is
//! taken any more.
//! Nobody who had begun before is still at work: the memory of a named segment is handed to no other process (only what is
//! sealed is), so writers reach it through its process, and the next has the file only when that is gone.

mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use mooncake_memory::{MappedWords, NamedSegmentError, Record, RowId, WordMemory};
use mooncake_types::{Epoch, SegmentId};

use crate::ledger::{Entry, Ledger};
use crate::machine::Effect;

/// The rows of one ledger.
#[derive(Debug)]
pub(super) struct EntryRows<W = MappedWords> {
    record: Record<W>,
    /// The rows, by where their entries start.
    rows: BTreeMap<u64, RowId>,
    /// The row that is written next; kept for its memory.
    row: Vec<u8>,
    has_told_of_no_room: bool,
}

impl<W: WordMemory> EntryRows<W> {
    /// Keeps an empty ledger.
    pub(super) fn empty(words: W, segment: SegmentId) -> Self {
        Self::new(Record::empty(words, segment), BTreeMap::new())
    }

    const fn new(record: Record<W>, rows: BTreeMap<u64, RowId>) -> Self {
        Self { record, rows, row: Vec::new(), has_told_of_no_room: false }
    }

    /// Goes on with what was kept of a segment of `len` bytes; gives its ledger too.
    ///
    /// # Errors
    /// [`NamedSegmentError::Damaged`] if it is not what was written.
    pub(super) fn restore(words: W, len: u64) -> Result<(Self, Ledger), NamedSegmentError> {
        let (mut ledger, mut rows) = (Ledger::new(len), BTreeMap::new());
        let record = Record::recover(words, |id, bytes| {
            let kept = row::read(bytes).ok_or("a row is no entry")?;
            let restored = ledger.restore(&kept.range, kept.checksums);
            restored.map_err(|_| "an entry is out of bounds")?;
            rows.insert(kept.range.offset, id);
            Ok::<(), NamedSegmentError>(())
        })?;
        ledger.refuse_up_to(record.floor());
        Ok((Self::new(record, rows), ledger))
    }

    /// Which segment it is.
    pub(super) fn segment(&self) -> SegmentId {
        self.record.segment()
    }

    /// The highest epoch that was noted.
    pub(super) fn epoch(&self) -> Epoch {
        self.record.epoch()
    }

    /// Does what an effect says of rows.
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

    /// Keeps an entry, if there is room; it ends with the process otherwise.
    fn add(&mut self, offset: u64, entry: &Entry) {
        row::write(&mut self.row, offset, entry);
        let Some(id) = self.record.put(&self.row) else {
            if !std::mem::replace(&mut self.has_told_of_no_room, true) {
                tracing::warn!(
                    "there is no room to remember more objects: a restart of this node loses some"
                );
            }
            return;
        };
        let before = self.rows.insert(offset, id);
        assert!(before.is_none(), "an entry is dropped before another takes its place");
    }

    fn remove(&mut self, offset: u64) {
        if let Some(row) = self.rows.remove(&offset) {
            self.record.withdraw(row);
        }
    }
}
