//! The segments of the pool.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;
use mooncake_alloc::{Handle, Neighbour};
use mooncake_types::{ClientId, Medium, MountSegment, SegmentId, Tick};

use super::closed::Closed;
use super::domains::{DomainIds, Domains, host_of};
use super::free_room::{Cursor, Room, Rooms};
use super::ramp::Ramp;
use super::segment::{ReportProgress, Segment};
use super::slots_by_name::SlotsByName;
use crate::objects::{PINNED_PLACES, Queue, Range, Records, SINKING_PLACE, Side};
use crate::slab::{NONE, Slab};
use crate::tenants::NO_LANE;

type FixedMap<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// All segments by slot, by id, by name and by client.
#[derive(Debug)]
pub(crate) struct Segments {
    slots: Slab<Segment>,
    /// Segments that are mounted.
    by_id: FixedMap<SegmentId, u32>,
    by_name: SlotsByName,
    by_host: SlotsByName,
    /// The failure domains in which they lie.
    pub(super) domains: Domains,
    /// The slots of each client in growing order, without unmounted segments.
    by_client: FixedMap<ClientId, Vec<u32>>,
    /// Slots that take puts, in no order. Each segment knows its place here.
    grantable: Vec<u32>,
    /// The place in `grantable` whose turn it was last: see [`Segments::next_turn`].
    turn: usize,
    ramp: Ramp,
    /// The room and the length of each of these, by its place in `grantable`.
    rooms: Rooms,
    /// The slot whose room is still to be noted: before a search, or when the room of another slot changes.
    unnoted: u32,
    /// A segment is crowded if more than this share of it is reserved.
    high_watermark: f64,
    /// Slots that take puts and are crowded, or were recently.
    pub(super) crowded: BTreeSet<u32>,
    /// Unmounted slots that may still have ranges in their queues.
    dying: BTreeSet<u32>,
    /// Number of mounted segments whose nodes are reporting their entries.
    reporting: usize,
    /// Bytes of the mounted segments of memory.
    memory_bytes: u64,
    /// By lane, the slots that have it.
    with_lane: BTreeMap<u32, BTreeSet<u32>>,
    /// Names of segments that left the pool because their clients were silent: see
    /// [`Meta::take_expired_segments`](crate::Meta::take_expired_segments).
    pub(super) expired: Vec<Arc<str>>,
}

impl Segments {
    /// `high_watermark` is the used share of a segment above which it evicts without waiting for a put.
    pub(crate) fn new(high_watermark: f64) -> Self {
        Self {
            slots: Slab::default(),
            by_id: FixedMap::default(),
            by_name: SlotsByName::default(),
            by_host: SlotsByName::default(),
            domains: Domains::default(),
            by_client: FixedMap::default(),
            grantable: Vec::new(),
            turn: 0,
            ramp: Ramp::default(),
            rooms: Rooms::new(),
            unnoted: NONE,
            high_watermark,
            crowded: BTreeSet::new(),
            dying: BTreeSet::new(),
            reporting: 0,
            memory_bytes: 0,
            with_lane: BTreeMap::new(),
            expired: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn find(&self, id: SegmentId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn named(&self, name: &str) -> &[u32] {
        self.by_name.get(name)
    }

    /// All slots: first those on this host, then those on the hosts that follow by name, then the others.
    pub(crate) fn nearest_to(&self, host: &str) -> impl Iterator<Item = u32> {
        self.by_host.all_from(host)
    }

    pub(crate) fn grantable(&self) -> &[u32] {
        &self.grantable
    }

    /// One more than the largest slot ever used.
    pub(crate) fn end(&self) -> u32 {
        self.slots.end()
    }

    /// Bytes of the mounted segments of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The slots that have a lane, each once, from the slot `begin` on.
    pub(crate) fn with_lane(&self, lane: u32, begin: u32) -> impl Iterator<Item = u32> {
        let slots = self.with_lane.get(&lane);
        let from = |range: (Bound<u32>, Bound<u32>)| {
            slots.into_iter().flat_map(move |slots| slots.range(range)).copied()
        };
        from((Bound::Included(begin), Bound::Unbounded))
            .chain(from((Bound::Unbounded, Bound::Excluded(begin))))
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Segment> {
        self.slots.get(slot)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        self.slots.iter()
    }

    /// The mounted slots that `client` lends.
    pub(crate) fn of_client(&self, client: ClientId) -> &[u32] {
        self.by_client.get(&client).map_or(&[], Vec::as_slice)
    }

    /// Mounts a segment that takes no puts yet. `domains` are the failure domains that its node named. Gives the
    /// slot.
    pub(crate) fn mount(&mut self, mut segment: Segment, domains: &[String]) -> u32 {
        let id = segment.id;
        segment.most_quiet = (segment.allocator.capacity() as f64 * self.high_watermark) as u64;
        segment.domains = self.domains.join(&segment.host, domains);
        if segment.medium == Medium::Memory {
            self.memory_bytes += segment.allocator.capacity();
        }
        let slot = self.slots.insert(segment);
        self.by_id.insert(id, slot);
        self.note_names(slot);
        self.note_client(slot);
        slot
    }

    /// Gives a slot the client, process, endpoint, name and failure domains of a new mount.
    pub(super) fn take_over(&mut self, slot: u32, by: &MountSegment<'_>, client: ClientId) {
        self.forget_names(slot);
        self.forget_client(slot);
        let segment = &mut self.slots[slot];
        (segment.client, segment.run) = (client, by.run);
        (segment.name, segment.endpoint) = (by.name.into(), by.endpoint.into());
        segment.host = host_of(by.endpoint).into();
        self.note_names(slot);
        self.note_client(slot);
        self.set_domains(slot, by.domains);
    }

    /// Notes the failure domains that the node of a slot names now.
    pub(super) fn set_domains(&mut self, slot: u32, named: &[String]) {
        let segment = &mut self.slots[slot];
        let domains = self.domains.join(&segment.host, named);
        let before = std::mem::replace(&mut segment.domains, domains);
        if segment.place != NONE {
            self.domains.set_grantable(&before, false);
            self.domains.set_grantable(&segment.domains, true);
        }
        self.domains.leave(&before);
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

    fn note_names(&mut self, slot: u32) {
        self.by_name.insert(&self.slots[slot].name, slot);
        self.by_host.insert(&self.slots[slot].host, slot);
    }

    fn forget_names(&mut self, slot: u32) {
        self.by_name.remove(&self.slots[slot].name, slot);
        self.by_host.remove(&self.slots[slot].host, slot);
    }

    /// Notes whether a reason why the slot takes no puts holds.
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
        let segment = &mut self.slots[slot];
        (segment.place, segment.granted_since) = (self.grantable.len() as u32, self.ramp.now);
        self.domains.set_grantable(&segment.domains, true);
        self.rooms.set_len(self.grantable.len(), segment.allocator.capacity());
        self.grantable.push(slot);
        self.ramp.begin(self.grantable.len());
        self.note_room(slot);
        self.note_reserved(slot);
    }

    fn stop_granting(&mut self, slot: u32) {
        self.crowded.remove(&slot);
        let segment = &mut self.slots[slot];
        let place = std::mem::replace(&mut segment.place, NONE);
        self.domains.set_grantable(&segment.domains, false);
        self.ramp.end(segment.granted_since);
        self.rooms.clear(self.grantable.len() - 1);
        self.grantable.swap_remove(place as usize);
        if let Some(&moved) = self.grantable.get(place as usize) {
            let segment = &mut self.slots[moved];
            segment.place = place;
            self.rooms.set(place as usize, segment.room());
            self.rooms.set_len(place as usize, segment.allocator.capacity());
        }
    }

    /// Sets the clock by which segments ramp up.
    pub(crate) fn set_clock(&mut self, now: Tick) {
        self.ramp.now = now;
    }

    /// Whether any segment may be held back.
    pub(crate) fn is_ramping(&self) -> bool {
        self.ramp.is_on()
    }

    /// Whether a new segment must leave a replica to others, because the search for its room began at the place
    /// `start`.
    pub(crate) fn is_held_back(&self, slot: u32, start: usize) -> bool {
        let segment = &self[slot];
        let count = self.grantable.len();
        let distance = (segment.place as usize + count - start % count) % count;
        distance >= self.ramp.reach_of(segment.granted_since)
    }

    /// A place among the slots that take puts, each in its turn. There must be some.
    pub(crate) fn next_turn(&mut self) -> usize {
        self.turn = (self.turn + 1) % self.grantable.len();
        self.turn
    }

    /// A slot that takes puts, drawn by the random number `part` in proportion to its length.
    pub(crate) fn by_share(&self, part: u64) -> Option<u32> {
        self.rooms.at_share(part).map(|place| self.grantable[place])
    }

    /// Notes that a range of the slot was reserved: the slot may be crowded now.
    pub(crate) fn note_reserved(&mut self, slot: u32) {
        if self.is_above_watermark(slot) && self.slots[slot].takes_puts() {
            self.crowded.insert(slot);
        }
    }

    /// Whether a slot is above the high watermark, so that it evicts without waiting for a put.
    pub(crate) fn is_above_watermark(&self, slot: u32) -> bool {
        let segment = &self.slots[slot];
        segment.kept() > segment.most_quiet
    }

    /// Reserves a range for `len` bytes.
    pub(crate) fn alloc(&mut self, slot: u32, len: u64) -> Option<Handle> {
        let len = self.slots[slot].reserved_len(len);
        let allocation = self.slots[slot].allocator.alloc(len)?;
        self.note_room(slot);
        Some(allocation.handle)
    }

    /// Reserves the range at an offset. Bytes from there up to `free_until` are free.
    pub(crate) fn occupy(
        &mut self,
        slot: u32,
        (offset, len): (u64, u64),
        free_until: u64,
    ) -> Option<Handle> {
        let room = free_until.saturating_sub(offset);
        let slot_of = &mut self.slots[slot];
        let reserved = slot_of.reserved_len(len);
        // It tries three lengths:
        // 1. the reserved length, cut off where the next entry begins;
        // 2. the whole reserved length, which slabs need;
        // 3. the exact length, because older masters reserved no more.
        let (capped, past) = (reserved.min(room).max(len), offset.saturating_add(reserved));
        let tries = [(capped, free_until), (reserved, past), (len, free_until)];
        let mut tries = tries.into_iter();
        let allocation =
            tries.find_map(|(len, until)| slot_of.allocator.occupy(offset, len, until))?;
        self.note_room(slot);
        Some(allocation.handle)
    }

    /// Frees a range.
    pub(crate) fn free(&mut self, slot: u32, handle: Handle) {
        self.slots[slot].allocator.free(handle);
        self.note_room(slot);
        self.forget_if_empty(slot);
    }

    /// The free bytes and the ranges on both sides of a range.
    pub(crate) fn neighbours(&mut self, slot: u32, handle: Handle) -> [Neighbour; 2] {
        self.slots[slot].allocator.neighbours(handle)
    }

    /// Notes which range record a range of a slot has.
    pub(crate) fn own(&mut self, slot: u32, handle: Handle, id: u32) {
        let (owners, number) = (&mut self.slots[slot].owners, handle.number() as usize);
        if number >= owners.len() {
            // Grows slowly, as the allocator's own tables do: memory for later ranges costs as much as memory in use.
            if number >= owners.capacity() {
                owners.reserve_exact(number + number / 8 + 8 - owners.len());
            }
            owners.resize(number + 1, NONE);
        }
        owners[number] = id;
    }

    /// Adds a range to the end of a queue of its slot and lane. The range can be evicted from `evictable_from` on.
    pub(crate) fn join_queue(
        &mut self,
        slot: u32,
        (lane, place, evictable_from): (u32, usize, Tick),
        (ranges, id): (&mut Records<Range>, u32),
    ) {
        if lane == NO_LANE || place >= PINNED_PLACES.end {
            self.slots[slot].queues[place].push_back(ranges, id);
        } else {
            let lanes = &mut self.slots[slot].lanes;
            if !lanes.contains_key(&lane) {
                self.with_lane.entry(lane).or_default().insert(slot);
            }
            lanes.entry(lane).or_default().queues[place].push_back(ranges, id);
        }
        let segment = &mut self.slots[slot];
        if place == SINKING_PLACE {
            segment.sinking += segment.allocator.range(ranges[id].handle).len;
            return self.note_room(slot);
        }
        if evictable_from < segment.evictable_from {
            self.set_evictable_from(slot, evictable_from);
        }
    }

    /// Removes a range from its queue of a slot.
    pub(crate) fn leave_queue(
        &mut self,
        slot: u32,
        (lane, place): (u32, usize),
        (ranges, id): (&mut Records<Range>, u32),
    ) {
        let segment = &mut self.slots[slot];
        if lane == NO_LANE || place >= PINNED_PLACES.end {
            segment.queues[place].remove(ranges, id);
        } else {
            let of_lane =
                segment.lanes.get_mut(&lane).expect("a range is in a lane of its segment");
            of_lane.queues[place].remove(ranges, id);
            if of_lane.is_empty() {
                segment.lanes.remove(&lane);
                self.forget_lane(slot, lane);
            }
        }
        let segment = &mut self.slots[slot];
        if place == SINKING_PLACE {
            segment.sinking -= segment.allocator.range(ranges[id].handle).len;
            self.note_room(slot);
            self.note_reserved(slot);
        }
    }

    fn forget_lane(&mut self, slot: u32, lane: u32) {
        let Some(slots) = self.with_lane.get_mut(&lane) else { return };
        slots.remove(&slot);
        if slots.is_empty() {
            self.with_lane.remove(&lane);
        }
    }

    /// Sets when the grace period of a slot ends. An earlier end does not count any more.
    pub(super) fn set_grace_end(&mut self, slot: u32, end: Tick) {
        self.slots[slot].grace_end = end;
    }

    /// Sets the progress of a slot's inventory; none: there is no inventory.
    pub(crate) fn set_progress(&mut self, slot: u32, progress: Option<ReportProgress>) {
        let before = std::mem::replace(&mut self.slots[slot].recovering, progress);
        self.reporting += usize::from(progress.is_some());
        self.reporting -= usize::from(before.is_some());
    }

    /// Number of mounted segments whose nodes are reporting their entries.
    pub(crate) fn reporting(&self) -> usize {
        self.reporting
    }

    /// Whether there are crowded slots, or unmounted ones that may still have ranges in their queues.
    pub(crate) fn has_work(&self) -> bool {
        !self.crowded.is_empty() || !self.dying.is_empty()
    }

    /// A slot that is crowded, or was recently.
    pub(crate) fn first_crowded(&self) -> Option<u32> {
        self.crowded.first().copied()
    }

    /// Notes that a slot is not crowded, or that nothing can be evicted there.
    pub(crate) fn forget_crowded(&mut self, slot: u32) {
        self.crowded.remove(&slot);
    }

    /// A range in a queue of an unmounted slot. Forgets the slots whose queues are empty.
    pub(super) fn next_dying(&mut self) -> Option<u32> {
        while let Some(&slot) = self.dying.first() {
            let segment = &self.slots[slot];
            let of_lanes = segment.lanes.values().flat_map(|lane| &lane.queues);
            let mut heads = segment.queues.iter().chain(of_lanes).map(Queue::head);
            if let Some(head) = heads.find(|&head| head != NONE) {
                return Some(head);
            }
            self.dying.remove(&slot);
        }
        None
    }

    /// Notes that the room of a slot may have changed.
    fn note_room(&mut self, slot: u32) {
        if self.unnoted != slot {
            self.settle_room();
            self.unnoted = slot;
        }
    }

    /// Sets the side on which eviction looks next in a lane of a slot.
    pub(crate) fn set_hand(&mut self, slot: u32, lane: u32, hand: Side) {
        let segment = &mut self.slots[slot];
        match segment.lanes.get_mut(&lane) {
            Some(of_lane) => of_lane.hand = hand,
            None => segment.hand = hand,
        }
    }

    /// Notes that nothing can be evicted from a slot before this time.
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

    /// The noted room of a slot, and its room; none if its room is still to be noted.
    pub(super) fn noted_room(&self, slot: u32) -> Option<(Room, Room)> {
        let segment = &self.slots[slot];
        let is_noted = segment.place != NONE && self.unnoted != slot;
        is_noted.then(|| (self.rooms.get(segment.place as usize), segment.room()))
    }

    /// Unmounts a slot: its bytes count as lost, and its records are removed as they are met.
    pub(super) fn start_unmounting(&mut self, slot: u32) {
        self.set(slot, Closed::Unmounted, true);
        self.set_progress(slot, None);
        let segment = &mut self.slots[slot];
        if segment.medium == Medium::Memory {
            self.memory_bytes -= segment.allocator.capacity();
        }
        let domains = std::mem::replace(&mut segment.domains, DomainIds::new());
        self.domains.leave(&domains);
        self.by_id.remove(&segment.id);
        self.forget_names(slot);
        self.forget_client(slot);
        self.dying.insert(slot);
        self.forget_if_empty(slot);
    }

    /// Frees an unmounted slot that has no range left.
    fn forget_if_empty(&mut self, slot: u32) {
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
