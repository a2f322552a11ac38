use std::sync::Arc;

use mooncake_memory::{Region, SlotRow, SlotTable};

use super::rows::EntryRows;
use crate::locked_machine::{EffectCarrier, HostEffect};
use crate::machine::Effect;

/// Where a segment's entries are found without asking its node: in a table that other processes of this host map, and in the
/// rows of a named segment's file, by the next process. Both change under the lock of the machine only.
pub(super) struct Published {
    slots: Option<Arc<SlotTable>>,
    /// What outlives this process, if anything does.
    rows: Option<EntryRows>,
}

impl Published {
    pub(super) fn new(region: &Region, rows: Option<EntryRows>) -> Self {
        Self { slots: new_slots(region), rows }
    }

    pub(super) const fn has_rows(&self) -> bool {
        self.rows.is_some()
    }

    pub(super) fn slots(&self) -> Option<Arc<SlotTable>> {
        self.slots.clone()
    }

    /// Publishes from now on in a new table. The last one is closed.
    pub(super) fn renew_slots(&mut self, region: &Region) {
        self.slots = new_slots(region);
    }

    /// Tells other processes that what they have mapped is no longer lent.
    pub(super) fn close_slots(&self) {
        if let Some(slots) = &self.slots {
            slots.close();
        }
    }
}

impl EffectCarrier for Published {
    fn carry_out(&mut self, effect: &HostEffect<'_>) {
        if let Some(rows) = &mut self.rows {
            rows.carry_out(effect);
        }
        match *effect {
            Effect::Interrupt(whom) => whom.interrupt(),
            Effect::AddSlot { offset, entry } => {
                if let Some(slots) = &self.slots {
                    let (len, version, object_offset) =
                        (entry.len, entry.version, entry.object_offset);
                    slots.publish(&SlotRow { offset, len, version, object_offset });
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
