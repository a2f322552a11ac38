mod check;
mod classes;
mod handle_table;
mod recover;
mod slab_table;
mod slots;

use crate::{Allocation, Handle, Range, RangeAllocator};
use classes::Classes;
use handle_table::HandleTable;
use slab_table::{NIL, SlabTable, Use};
use slots::Slots;

/// Longest slab, in bytes.
pub const MAX_SLAB_BYTES: u64 = 4 << 20;

/// Shortest slab, in bytes.
pub const MIN_SLAB_BYTES: u64 = 64;

/// Allocates from slabs, each cut into slots of one length. Operators know it as `cachelib`.
///
/// The arena is divided into slabs of 4 MiB. An arena of less than 256 MiB is divided into shorter slabs: at least 64
/// of them, if it has 4 KiB or more.
///
/// A range of up to a slab takes one slot of the shortest length that holds it. All slots of a slab have one length.
/// The lengths grow by about an eighth, up to an eighth of a slab, and then are a seventh, a sixth, ... of a slab.
///
/// A longer range takes consecutive whole slabs. So the free slabs alone bound the largest object (in the C++ store,
/// 16 MiB - 16 does). A slab whose last slot is freed returns to the pool and can serve another length.
///
/// Costs:
/// - A range just longer than half a slab takes a whole slab.
/// - The arena after the last whole slab is never used.
/// - A length is refused if every slab serves other lengths, even if many of their slots are free.
///
/// Benefits: within one length, no range is lost to fragmentation, and a live range takes 8 bytes of memory.
#[derive(Clone, Debug)]
pub struct SlabAllocator {
    capacity: u64,
    slab_bytes: u64,
    classes: Classes,
    shelf: SlabTable,
    /// The slabs that are in use, in units of slabs.
    pool: RangeAllocator,
    tickets: HandleTable,
    used: u64,
}

impl SlabAllocator {
    /// An arena of `len` bytes, all free. An arena shorter than [`MIN_SLAB_BYTES`] serves nothing.
    pub fn new(len: u64) -> SlabAllocator {
        let slab_bytes = 1 << (len / 64).max(1).ilog2();
        SlabAllocator::with_slab_bytes(len, slab_bytes.clamp(MIN_SLAB_BYTES, MAX_SLAB_BYTES))
    }

    /// An arena of `len` bytes, all free, in slabs of `slab_bytes`.
    ///
    /// # Panics
    /// If `slab_bytes` is not a power of two from [`MIN_SLAB_BYTES`] to [`MAX_SLAB_BYTES`].
    pub fn with_slab_bytes(len: u64, slab_bytes: u64) -> SlabAllocator {
        assert!(
            slab_bytes.is_power_of_two() && (MIN_SLAB_BYTES..=MAX_SLAB_BYTES).contains(&slab_bytes),
            "slabs of {slab_bytes} bytes: not a power of two from {MIN_SLAB_BYTES} to {MAX_SLAB_BYTES}"
        );
        let classes = Classes::new(slab_bytes as u32);
        SlabAllocator {
            capacity: len,
            slab_bytes,
            shelf: SlabTable::new(classes.len()),
            classes,
            pool: RangeAllocator::new((len / slab_bytes).min(u64::from(NIL))),
            tickets: HandleTable::new(),
            used: 0,
        }
    }

    /// Reserves at least `len` bytes. `None` if `len` is zero, or neither a slot of its length nor a run of slabs is
    /// free.
    pub fn alloc(&mut self, len: u64) -> Option<Allocation> {
        if len == 0 || !self.tickets.has_room() {
            return None;
        }
        if len > self.slab_bytes {
            let run = self.pool.alloc_exact(len.div_ceil(self.slab_bytes))?;
            return Some(self.begin_run(run));
        }
        let class = self.classes.of(len);
        let mut slab = self.shelf.open(class);
        if slab == NIL {
            let fresh = self.pool.alloc_exact(1)?;
            slab = self.begin_slots(fresh, class);
        }
        let slot = self.shelf.slots_mut(slab).take().expect("an open slab has a free slot");
        Some(self.slot_taken(class, slab, slot))
    }

    /// Frees a range.
    ///
    /// # Panics
    /// If `handle` names no live range.
    pub fn free(&mut self, handle: Handle) {
        let offset = self.tickets.remove(handle);
        let slab = self.slab_at(offset);
        match *self.shelf.usage(slab) {
            Use::Empty => unreachable!("a live range lies in the empty slab {slab}"),
            Use::Run { pool } => {
                self.used -= self.pool.range(pool).len * self.slab_bytes;
                self.pool.free(pool);
                self.shelf.set_usage(slab, Use::Empty);
            }
            Use::Slots { pool, class, .. } => self.free_slot(pool, class, offset),
        }
    }

    /// The reserved range of `handle`, at least as long as requested.
    ///
    /// # Panics
    /// If `handle` names no live range.
    pub fn range(&self, handle: Handle) -> Range {
        let offset = self.tickets.offset(handle);
        Range { offset, len: self.reserved_at(offset) }
    }

    /// A length that [`alloc`](Self::alloc) can serve now; 0 if it can serve none. While a slab is free, `alloc`
    /// serves every shorter length too. Without a free slab, only lengths that take the same slots are certain.
    pub fn largest_free(&self) -> u64 {
        let run = self.pool.largest_free();
        if run > 0 {
            return run * self.slab_bytes;
        }
        let open = (0..self.classes.len() as u8).rev().find(|&class| self.shelf.open(class) != NIL);
        open.map_or(0, |class| self.classes.slot_len(class))
    }

    /// Bytes of the reserved slots and runs.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Length of the arena, in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Number of live ranges.
    pub fn allocations(&self) -> usize {
        self.tickets.len()
    }

    /// Bytes of heap memory that the allocator itself uses. Takes a time that grows with the number of slabs.
    pub fn heap_bytes(&self) -> usize {
        self.classes.heap_bytes()
            + self.shelf.heap_bytes()
            + self.pool.heap_bytes()
            + self.tickets.heap_bytes()
    }

    fn slab_at(&self, offset: u64) -> u32 {
        (offset / self.slab_bytes) as u32
    }

    /// Bytes reserved for the live range at `offset`.
    fn reserved_at(&self, offset: u64) -> u64 {
        let slab = self.slab_at(offset);
        match *self.shelf.usage(slab) {
            Use::Empty => unreachable!("a live range lies in the empty slab {slab}"),
            Use::Run { pool } => self.pool.range(pool).len * self.slab_bytes,
            Use::Slots { class, .. } => self.classes.slot_len(class),
        }
    }

    /// Makes a run of slabs from the pool one range.
    fn begin_run(&mut self, run: Allocation) -> Allocation {
        self.shelf.set_usage(run.offset as u32, Use::Run { pool: run.handle });
        self.used += self.pool.range(run.handle).len * self.slab_bytes;
        let offset = run.offset * self.slab_bytes;
        Allocation { handle: self.tickets.insert(offset), offset }
    }

    /// Cuts a slab from the pool into slots.
    fn begin_slots(&mut self, fresh: Allocation, class: u8) -> u32 {
        let slab = fresh.offset as u32;
        let slots = Slots::new((self.slab_bytes / self.classes.slot_len(class)) as u32);
        self.shelf.set_usage(slab, Use::Slots { pool: fresh.handle, class, slots });
        self.shelf.link(class, slab);
        slab
    }

    /// Records that a slot of an open slab was taken.
    fn slot_taken(&mut self, class: u8, slab: u32, slot: u32) -> Allocation {
        if self.shelf.slots_mut(slab).is_full() {
            self.shelf.unlink(class, slab);
        }
        let len = self.classes.slot_len(class);
        self.used += len;
        let offset = u64::from(slab) * self.slab_bytes + u64::from(slot) * len;
        Allocation { handle: self.tickets.insert(offset), offset }
    }

    fn free_slot(&mut self, pool: Handle, class: u8, offset: u64) {
        let slab = self.slab_at(offset);
        let len = self.classes.slot_len(class);
        self.used -= len;
        let slots = self.shelf.slots_mut(slab);
        let was_full = slots.is_full();
        slots.release((offset % self.slab_bytes / len) as u32);
        if slots.taken() > 0 {
            if was_full {
                self.shelf.link(class, slab);
            }
            return;
        }
        if !was_full {
            self.shelf.unlink(class, slab);
        }
        self.shelf.set_usage(slab, Use::Empty);
        self.pool.free(pool);
    }
}
