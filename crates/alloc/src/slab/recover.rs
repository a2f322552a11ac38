use super::SlabAllocator;
use super::slab_table::Use;
use crate::Allocation;

impl SlabAllocator {
    /// Reserves the slot or the run of slabs at `offset` that [`alloc`](Self::alloc) chose for `len` bytes. `len` may
    /// be the requested or the reserved length. Calls in any order rebuild every layout of an allocator of the same
    /// arena. `None` if the slot or the run is not free, or none starts at `offset`.
    pub fn alloc_at(&mut self, offset: u64, len: u64) -> Option<Allocation> {
        let end = offset.checked_add(len)?;
        if len == 0 || end > self.capacity || !self.tickets.has_room() {
            return None;
        }
        let (slab, within) = (offset / self.slab_bytes, offset % self.slab_bytes);
        if len > self.slab_bytes {
            if within != 0 {
                return None;
            }
            let run = self.pool.alloc_at(slab, len.div_ceil(self.slab_bytes))?;
            return Some(self.begin_run(run));
        }
        let class = self.classes.of(len);
        let slot_len = self.classes.slot_len(class);
        let slot = (within / slot_len) as u32;
        if within % slot_len != 0 || within + slot_len > self.slab_bytes {
            return None;
        }
        let slab = match *self.shelf.usage(u32::try_from(slab).ok()?) {
            Use::Slots { class: own, .. } if own == class => slab as u32,
            Use::Slots { .. } | Use::Run { .. } => return None,
            Use::Empty => {
                let fresh = self.pool.alloc_at(slab, 1)?;
                self.begin_slots(fresh, class)
            }
        };
        let taken = self.shelf.slots_mut(slab).take_at(slot);
        taken.then(|| self.slot_taken(class, slab, slot))
    }

    /// As [`alloc_at`](Self::alloc_at): the requested length determines the slot. Also `None` if the bytes reach past
    /// `free_until`, where the next range in use starts.
    pub fn occupy(&mut self, offset: u64, len: u64, free_until: u64) -> Option<Allocation> {
        let room = free_until.checked_sub(offset)?;
        if room < len { None } else { self.alloc_at(offset, len) }
    }
}
