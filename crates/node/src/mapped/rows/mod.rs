//! What of a segment outlives its process: its complete entries, in the record of a named segment.
//!
//! An entry of the ledger is kept as a row of the record from the moment at which it is complete until just before anybody
//! may change a byte of its range. So the order is, in each change:
//!
//! - **begin**: the rows of all entries that the writer takes the place of are withdrawn, the grant is noted, and only then
//!   may a byte change (L1). Nothing else is kept of a write that has begun.
//! - **complete**: all bytes are in place before the row is added (L2), and the row before the writer hears of it.
//! - **drop**: the row is withdrawn before whoever asked for it hears of it.
//!
//! Whatever was not complete is gone after a restart, and with it the fences that keep older writers out of a range (L7). One
//! number stands for all of them: the highest grant that had begun, or was dropped, anywhere in the segment. None up to it is
//! taken any more.
//! Nobody who had begun before is still at work: the memory of a named segment is handed to no other process (only what is
//! sealed is), so writers reach it through its process, and the next has the file only when that is gone.
//!
//! The highest epoch is kept as well, before anything is done that it allows (L3).

mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;

use mooncake_memory::{MappedWords, NamedSegmentError, Record, RowId, WordMemory};
use mooncake_types::{Epoch, SegmentId, Version};

use crate::ledger::{Entry, Ledger};

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

    /// Notes an epoch that is about to be obeyed.
    pub(super) fn note_epoch(&self, epoch: Epoch) {
        self.record.raise_epoch(epoch);
    }

    /// A writer with this grant has begun, in the place of the entries that started here. Called before it, or a reader
    /// of what it writes, can do anything.
    pub(super) fn begin(&mut self, dropped: &[u64], grant: Version) {
        dropped.iter().for_each(|&offset| self.withdraw(offset));
        self.record.raise_floor(grant);
        self.record.barrier();
    }

    /// An entry is complete. Whether it is kept: if there is no room, it ends with the process.
    pub(super) fn complete(&mut self, offset: u64, entry: &Entry) -> bool {
        row::write(&mut self.row, offset, entry);
        let Some(id) = self.record.put(&self.row) else {
            if !std::mem::replace(&mut self.has_told_of_no_room, true) {
                tracing::warn!(
                    "there is no room to remember more objects: a restart of this node loses some"
                );
            }
            return false;
        };
        let before = self.rows.insert(offset, id);
        assert!(before.is_none(), "an entry is dropped before another takes its place");
        true
    }

    /// Something is not wanted any more that was granted up to here: the entries that started at these places are dropped,
    /// and their writers are not to begin any more.
    pub(super) fn drop_entries(&mut self, dropped: &[u64], grant: Version) {
        dropped.iter().for_each(|&offset| self.withdraw(offset));
        self.record.raise_floor(grant);
        self.record.barrier();
    }

    /// All entries are dropped, and it is another segment from now on. That comes last: the new one has nothing of the old.
    pub(super) fn start_empty(&mut self, segment: SegmentId) {
        for (_, id) in std::mem::take(&mut self.rows) {
            self.record.withdraw(id);
        }
        self.record.rename(segment);
        self.record.barrier();
    }

    fn withdraw(&mut self, offset: u64) {
        if let MapEntry::Occupied(row) = self.rows.entry(offset) {
            self.record.withdraw(row.remove());
        }
    }
}
