//! The segments of the pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use mooncake_alloc::{Allocator, Handle};
use mooncake_types::{ClientId, MountSegment, SegmentAddress, SegmentId, SegmentState, Tick};

use super::closed::{Closed, Reasons};
use super::free_room::{Cursor, Room, Rooms};
use crate::objects::{PLAIN_PLACES, Queue, SEGMENT_QUEUES};
use crate::slab::{NONE, Slab};

type FixedMap<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// One mounted segment: its allocator, and its replicas in the order in which they would be evicted.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    pub(crate) name: Arc<str>,
    pub(crate) endpoint: Arc<str>,
    pub(crate) client: ClientId,
    /// Which process lends it: see [`MountSegment::run`].
    pub(crate) run: u64,
    /// Why it takes no puts: see [`Segments::set`].
    pub(crate) closed: Reasons,
    /// While its node tells what it holds: how far that is.
    pub(crate) recovering: Option<Progress>,
    /// Its place among those that take puts, or [`NONE`].
    pub(crate) place: u32,
    /// Nothing can be evicted here before this moment.
    pub(crate) evictable_from: Tick,
    pub(crate) allocator: Allocator,
    /// The range record that each live range of the allocator had last, by its number.
    pub(crate) owners: Vec<u32>,
    pub(crate) queues: [Queue; SEGMENT_QUEUES],
}

/// How far an inventory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) next_page: u32,
    /// Where the last entry ends, in bytes.
    pub(crate) end: u64,
    /// What starts before this was known when the inventory began: it is compared.
    pub(crate) known_to: u64,
}

impl Segment {
    /// Whether a reason why it takes no puts holds.
    pub(crate) fn is(&self, reason: Closed) -> bool {
        self.closed.has(reason)
    }

    /// What operators are told.
    pub(crate) fn state(&self) -> SegmentState {
        self.closed.state()
    }

    /// Whether its bytes are there, in sight or not.
    pub(crate) fn is_mounted(&self) -> bool {
        !self.is(Closed::Unmounted)
    }

    /// Whether its bytes may be read.
    pub(crate) fn serves(&self) -> bool {
        self.is_mounted() && !self.is(Closed::OutOfSight) && !self.is(Closed::Struck)
    }

    /// Whether new objects may be put there.
    pub(crate) fn takes_puts(&self) -> bool {
        self.closed.is_empty()
    }

    /// Notes which record a range of the allocator has.
    pub(crate) fn own(&mut self, handle: Handle, id: u32) {
        let number = handle.number() as usize;
        if number >= self.owners.len() {
            // As the allocator's own tables do: space that is only reserved counts as much as space in use.
            if number >= self.owners.capacity() {
                self.owners.reserve_exact(number + number / 8 + 8 - self.owners.len());
            }
            self.owners.resize(number + 1, NONE);
        }
        self.owners[number] = id;
    }

    /// The record that a range of the allocator had last, if it had one. It may have another range by now.
    pub(crate) fn owner(&self, handle: Handle) -> Option<u32> {
        self.owners.get(handle.number() as usize).copied().filter(|&id| id != NONE)
    }

    /// The range that was used longest ago in the first queue that has any.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.queues[PLAIN_PLACES].iter().map(|queue| queue.head).find(|&head| head != NONE)
    }

    /// Reads what the eviction of a range and a put in its place will read.
    pub(crate) fn fetch_ahead(&self, victim: Handle) -> u64 {
        let address = Arc::strong_count(&self.name) ^ Arc::strong_count(&self.endpoint);
        let free = self.allocator.largest_class();
        self.allocator.range(victim).offset ^ u64::from(free) ^ address as u64
    }

    fn room(&self) -> Room {
        Room {
            class: self.allocator.largest_class(),
            capacity: self.allocator.capacity(),
            evictable_from: self.evictable_from,
        }
    }

    pub(crate) fn address(&self) -> SegmentAddress {
        SegmentAddress {
            id: self.id,
            name: Arc::clone(&self.name),
            endpoint: Arc::clone(&self.endpoint),
        }
    }
}

/// All segments by slot, by id, by name and by client.
#[derive(Debug)]
pub(crate) struct Segments {
    slots: Slab<Segment>,
    /// Segments that are not unmounting.
    by_id: FixedMap<SegmentId, u32>,
    by_name: BTreeMap<Arc<str>, Vec<u32>>,
    /// The slots of each client, in their order, but for those that are unmounting.
    by_client: FixedMap<ClientId, Vec<u32>>,
    /// Slots that take puts, in no order; each segment knows its place here.
    grantable: Vec<u32>,
    /// What room these have, by their places there.
    rooms: Rooms,
    /// The one of them of which that may not be true: it is noted when another changes, or when it is asked for.
    unnoted: u32,
    /// A segment is crowded if more than this share of it is reserved.
    high_watermark: f64,
    /// Of those that take puts, the ones that are crowded, or were lately.
    pub(crate) crowded: BTreeSet<u32>,
    /// Unmounting slots that still hold finished replicas.
    pub(crate) dying: BTreeSet<u32>,
}

impl Segments {
    /// `high_watermark` says from which share of its bytes on a segment evicts without waiting for a put.
    pub(crate) fn new(high_watermark: f64) -> Self {
        Self {
            slots: Slab::new(),
            by_id: FixedMap::default(),
            by_name: BTreeMap::new(),
            by_client: FixedMap::default(),
            grantable: Vec::new(),
            rooms: Rooms::new(),
            unnoted: NONE,
            high_watermark,
            crowded: BTreeSet::new(),
            dying: BTreeSet::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn find(&self, id: SegmentId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn named(&self, name: &str) -> &[u32] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn grantable(&self) -> &[u32] {
        &self.grantable
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        self.slots.iter()
    }

    /// Slots lent by `client` that are not unmounting.
    pub(crate) fn of_client(&self, client: ClientId) -> Vec<u32> {
        self.by_client.get(&client).cloned().unwrap_or_default()
    }

    /// Mounts a segment that takes no puts yet. Gives its slot.
    pub(crate) fn mount(&mut self, segment: Segment) -> u32 {
        let (id, name) = (segment.id, Arc::clone(&segment.name));
        let slot = self.slots.insert(segment);
        self.by_id.insert(id, slot);
        self.by_name.entry(name).or_default().push(slot);
        self.note_client(slot);
        slot
    }

    /// The slot has another host, process, endpoint or name.
    pub(crate) fn take_over(&mut self, slot: u32, by: &MountSegment<'_>, client: ClientId) {
        self.forget_name(slot);
        self.forget_client(slot);
        let segment = &mut self.slots[slot];
        (segment.client, segment.run) = (client, by.run);
        (segment.name, segment.endpoint) = (by.name.into(), by.endpoint.into());
        let name = Arc::clone(&segment.name);
        self.by_name.entry(name).or_default().push(slot);
        self.note_client(slot);
    }

    fn note_client(&mut self, slot: u32) {
        let slots = self.by_client.entry(self.slots[slot].client).or_default();
        let place = slots.partition_point(|&other| other < slot);
        slots.insert(place, slot);
    }

    fn forget_client(&mut self, slot: u32) {
        let client = self.slots[slot].client;
        let Some(slots) = self.by_client.get_mut(&client) else { return };
        slots.retain(|&other| other != slot);
        if slots.is_empty() {
            self.by_client.remove(&client);
        }
    }

    fn forget_name(&mut self, slot: u32) {
        let name = Arc::clone(&self.slots[slot].name);
        if let Some(slots) = self.by_name.get_mut(&name) {
            slots.retain(|&other| other != slot);
            if slots.is_empty() {
                self.by_name.remove(&name);
            }
        }
    }

    /// A reason why the slot takes no puts holds from now on, or does so no longer.
    pub(crate) fn set(&mut self, slot: u32, reason: Closed, holds: bool) {
        let segment = &mut self.slots[slot];
        segment.closed = segment.closed.with(reason, holds);
        let is_granted = segment.place != NONE;
        match segment.takes_puts() {
            true if !is_granted => self.begin_granting(slot),
            false if is_granted => self.stop_granting(slot),
            _ => {}
        }
    }

    fn begin_granting(&mut self, slot: u32) {
        self.slots[slot].place = self.grantable.len() as u32;
        self.grantable.push(slot);
        self.note_room(slot);
        self.note_use(slot);
    }

    fn stop_granting(&mut self, slot: u32) {
        self.crowded.remove(&slot);
        let place = std::mem::replace(&mut self.slots[slot].place, NONE);
        self.rooms.clear(self.grantable.len() - 1);
        self.grantable.swap_remove(place as usize);
        if let Some(&moved) = self.grantable.get(place as usize) {
            let segment = &mut self.slots[moved];
            segment.place = place;
            self.rooms.set(place as usize, segment.room());
        }
    }

    /// A range of the slot was reserved: it may be crowded now.
    pub(crate) fn note_use(&mut self, slot: u32) {
        if self.is_above_watermark(slot) && self.slots[slot].takes_puts() {
            self.crowded.insert(slot);
        }
    }

    /// Whether a slot holds so much that it evicts without waiting for a put.
    pub(crate) fn is_above_watermark(&self, slot: u32) -> bool {
        let allocator = &self.slots[slot].allocator;
        allocator.used() as f64 > allocator.capacity() as f64 * self.high_watermark
    }

    /// A slot may have more or less room than before.
    pub(crate) fn note_room(&mut self, slot: u32) {
        if self.unnoted != slot {
            self.settle_room();
            self.unnoted = slot;
        }
    }

    /// Something can be evicted from a slot from this moment on.
    pub(crate) fn note_evictable(&mut self, slot: u32, from: Tick) {
        if from < self.slots[slot].evictable_from {
            self.set_evictable_from(slot, from);
        }
    }

    /// Nothing can be evicted from a slot before this moment.
    pub(crate) fn set_evictable_from(&mut self, slot: u32, from: Tick) {
        self.slots[slot].evictable_from = from;
        self.note_room(slot);
    }

    fn settle_room(&mut self) {
        let slot = std::mem::replace(&mut self.unnoted, NONE);
        let Some(segment) = self.slots.get(slot).filter(|it| it.place != NONE) else { return };
        self.rooms.set(segment.place as usize, segment.room());
    }

    /// The next slot that takes puts and whose room is `wanted`.
    pub(crate) fn next_with_room(
        &mut self,
        cursor: &mut Cursor,
        wanted: impl Fn(&Room) -> bool,
    ) -> Option<u32> {
        self.settle_room();
        let place = self.rooms.next(cursor, wanted)?;
        Some(self.grantable[place])
    }

    /// What room is noted of a slot, and what it has; nothing if that is to be noted yet.
    pub(crate) fn noted_room(&self, slot: u32) -> Option<(Room, Room)> {
        let segment = &self.slots[slot];
        let is_noted = segment.place != NONE && self.unnoted != slot;
        is_noted.then(|| (self.rooms.get(segment.place as usize), segment.room()))
    }

    /// Its bytes count as lost from here on; its records go as they are met.
    pub(crate) fn start_unmounting(&mut self, slot: u32) {
        self.set(slot, Closed::Unmounted, true);
        let segment = &mut self.slots[slot];
        segment.recovering = None;
        self.by_id.remove(&segment.id);
        self.forget_name(slot);
        self.forget_client(slot);
        self.dying.insert(slot);
        self.forget_if_empty(slot);
    }

    /// An unmounting slot is free once none of its ranges is left.
    pub(crate) fn forget_if_empty(&mut self, slot: u32) {
        let segment = &self.slots[slot];
        if !segment.is_mounted() && segment.allocator.allocations() == 0 {
            self.dying.remove(&slot);
            self.slots.remove(slot);
        }
    }
}

impl std::ops::Index<u32> for Segments {
    type Output = Segment;

    fn index(&self, slot: u32) -> &Segment {
        &self.slots[slot]
    }
}

impl std::ops::IndexMut<u32> for Segments {
    fn index_mut(&mut self, slot: u32) -> &mut Segment {
        &mut self.slots[slot]
    }
}
