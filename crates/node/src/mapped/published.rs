use std::sync::Arc;

use mooncake_memory::{Region, SlotRow, SlotTable, digest};

use super::rows::EntryRows;
use crate::locked_machine::{EffectCarrier, HostEffect};
use crate::machine::Effect;

/// Publishes the entries of a segment to processes that do not ask its node. Other processes of this host map a table
/// of slots; the next process reads the rows in a named segment's file. Both change only under the lock of the
/// machine.
pub(super) struct Published {
    slots: Option<Arc<SlotTable>>,
    /// Rows for the next process, if the segment is named.
    rows: Option<EntryRows>,
}

impl Published {
    pub(super) fn new(region: &Region, rows: Option<EntryRows>) -> Self {
        Self { slots: new_slots(region), rows }
    }

    pub(super) fn slots(&self) -> Option<Arc<SlotTable>> {
        self.slots.clone()
    }

    /// Publishes in a new slot table from now on. The old one must be closed.
    pub(super) fn renew_slots(&mut self, region: &Region) {
        self.slots = new_slots(region);
    }

    /// Tells other processes that the memory they have mapped is no longer lent.
    pub(super) fn close_slots(&self) {
        if let Some(slots) = &self.slots {
            slots.close();
        }
    }
}

impl EffectCarrier for Published {
    fn carry_out(&mut self, effect: &HostEffect<'_>) {
        // The next process could not check an entry without checksums.
        let is_uncheckable = |effect: &HostEffect<'_>| matches!(effect, Effect::AddRow { entry, .. } if entry.checksums.is_none());
        if let Some(rows) = self.rows.as_mut().filter(|_| !is_uncheckable(effect)) {
            rows.carry_out(effect);
        }
        match *effect {
            Effect::Interrupt(whom) => whom.interrupt(),
            Effect::AddSlot { offset, entry } => {
                if let Some(slots) = &self.slots {
                    let (len, version, object_offset) =
                        (entry.len, entry.version, entry.object_offset);
                    let digest = entry.checksums.as_deref().map(digest);
                    slots.publish(&SlotRow { offset, len, version, object_offset, digest });
                }
            }
            // It comes before the slot, or once readers have computed the checksums.
            Effect::AddRow { offset, entry } => {
                if let (Some(slots), Some(checksums)) = (&self.slots, &entry.checksums) {
                    slots.note_digest(offset, digest(checksums));
                }
            }
            Effect::RemoveSlot { offset } => {
                if let Some(slots) = &self.slots {
                    slots.withdraw(offset);
                }
            }
            Effect::CloseSlots => self.close_slots(),
            _ => {}
        }
    }
}

fn new_slots(region: &Region) -> Option<Arc<SlotTable>> {
    let slots = SlotTable::new(region.len()).inspect_err(|error| {
        tracing::info!(%error, "other processes of this host read this segment by message");
    });
    slots.ok().map(Arc::new)
}
