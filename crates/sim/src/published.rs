//! Where entries are found without asking the node, as its machine has it changed: slots that other processes of the host
//! read, and rows that the next process reads.

use std::collections::BTreeMap;

use mooncake_node::{Effect, Entry, Ledger};
use mooncake_types::{Epoch, RangeRead, RangeWrite, SegmentId, Version};

/// The table that other processes map.
#[derive(Default)]
pub(crate) struct Slots {
    /// By where the entries start.
    shown: BTreeMap<u64, Slot>,
    is_closed: bool,
    /// How many slots were filled.
    filled: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    version: Version,
    object_offset: u64,
    len: u64,
    /// No other slot ever has it.
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

    /// There is a new table, and nothing in it.
    pub(crate) fn open(&mut self) {
        self.is_closed = false;
    }

    /// The number of the slot that stands for a range; `None` if there is none for its start.
    pub(crate) fn find(&self, range: &RangeRead) -> Option<Result<u64, Stale>> {
        let slot = self.shown.get(&range.offset)?;
        let is_it = (slot.version, slot.object_offset) == (range.version, range.object_offset);
        Some(if is_it { Ok(slot.number) } else { Err(Stale) })
    }

    /// Whether a slot has said the same all the time since it was found.
    pub(crate) fn still_holds(&self, offset: u64, number: u64) -> bool {
        self.shown.get(&offset).is_some_and(|slot| slot.number == number)
    }

    /// A slot that stands for some of these bytes.
    pub(crate) fn overlapping(&self, offset: u64, len: u64) -> Option<Slot> {
        let (&at, slot) = self.shown.range(..offset + len).next_back()?;
        (offset < at + slot.len).then_some(*slot)
    }
}

/// Another version lies there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stale;

/// What the file of a named segment says.
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

    /// Nothing that outlives the process keeps older writers out.
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

    /// What the next process begins with, in a segment of `len` bytes.
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
            };
            ledger.restore(&range, None).expect("it was there before");
        }
        ledger.refuse_up_to(self.floor);
        ledger
    }
}
