//! Entries as the segment machine publishes them, readable without a question to the node. Other processes of the host
//! read the slots; the next process reads the rows.

use std::collections::BTreeMap;

use mooncake_node::{Effect, Entry, Ledger};
use mooncake_types::{Epoch, RangeRead, RangeWrite, Seal, SegmentId, Version};

/// The shared table of slots that other processes map.
#[derive(Default)]
pub(crate) struct Slots {
    /// By the offset of the entry.
    shown: BTreeMap<u64, Slot>,
    is_closed: bool,
    /// How many slots were ever filled.
    filled: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    version: Version,
    object_offset: u64,
    len: u64,
    /// Unique within the table.
    number: u64,
}

impl Slots {
    pub(crate) fn carry_out<H>(&mut self, effect: &Effect<'_, H>) {
        match *effect {
            Effect::AddSlot { offset, entry } if !self.is_closed => {
                self.filled += 1;
                let Entry { version, object_offset, len, .. } = *entry;
                self.shown
                    .insert(offset, Slot { version, object_offset, len, number: self.filled });
            }
            Effect::RemoveSlot { offset } => drop(self.shown.remove(&offset)),
            Effect::CloseSlots => {
                self.shown.clear();
                self.is_closed = true;
            }
            _ => {}
        }
    }

    /// Opens a new, empty table.
    pub(crate) fn open(&mut self) {
        self.is_closed = false;
    }

    /// The number of the slot at the range's offset. `None` if there is no slot, [`Stale`] if it belongs to another
    /// version.
    pub(crate) fn find(&self, range: &RangeRead) -> Option<Result<u64, Stale>> {
        let slot = self.shown.get(&range.offset)?;
        let is_it = (slot.version, slot.object_offset) == (range.version, range.object_offset);
        Some(if is_it { Ok(slot.number) } else { Err(Stale) })
    }

    /// Whether the slot is still the same as when it was found.
    pub(crate) fn still_holds(&self, offset: u64, number: u64) -> bool {
        self.shown.get(&offset).is_some_and(|slot| slot.number == number)
    }

    /// A slot that covers some of these bytes.
    pub(crate) fn overlapping(&self, offset: u64, len: u64) -> Option<Slot> {
        let (&at, slot) = self.shown.range(..offset + len).next_back()?;
        (offset < at + slot.len).then_some(*slot)
    }
}

/// The slot belongs to another version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stale;

/// The content of the file that outlives the process of a named segment.
pub(crate) struct Rows {
    pub(crate) segment: SegmentId,
    pub(crate) epoch: Epoch,
    pub(crate) entries: BTreeMap<u64, Entry>,
    floor: Option<Version>,
    has_floor: bool,
}

impl Rows {
    pub(crate) fn of(segment: SegmentId) -> Self {
        Self { segment, epoch: Epoch(0), entries: BTreeMap::new(), floor: None, has_floor: true }
    }

    /// Rows that do not record a floor, so that the next process refuses no older writers.
    pub(crate) fn without_floor(self) -> Self {
        Self { has_floor: false, ..self }
    }

    pub(crate) fn carry_out<H>(&mut self, effect: &Effect<'_, H>) {
        match *effect {
            Effect::AddRow { offset, entry } => drop(self.entries.insert(offset, entry.clone())),
            Effect::RemoveRow { offset } => drop(self.entries.remove(&offset)),
            Effect::RefuseGrants { up_to } if self.has_floor => {
                self.floor = self.floor.max(Some(up_to));
            }
            Effect::Rename { id } => self.segment = id,
            Effect::NoteEpoch { epoch } => self.epoch = epoch,
            _ => {}
        }
    }

    /// The ledger that the next process begins with, in a segment of `len` bytes.
    pub(crate) fn ledger(&self, len: u64) -> Ledger {
        let mut ledger = Ledger::new(len);
        for (&offset, entry) in &self.entries {
            let range = RangeWrite {
                segment: self.segment,
                offset,
                from: 0,
                len: entry.len,
                entry_len: entry.len,
                key: &entry.key,
                version: entry.version,
                grant: entry.grant,
                object_len: entry.object_len,
                object_offset: entry.object_offset,
                attributes: &entry.attributes,
                seal: Seal::NONE,
            };
            ledger.restore(&range, None).expect("it was there before");
        }
        ledger.refuse_up_to(self.floor);
        ledger
    }
}
