//! The segments of the pool and the clients that lend them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use mooncake_alloc::{Allocator, Handle};
use mooncake_types::{ClientId, MountSegment, SegmentAddress, SegmentId, SegmentState, Tick};

use crate::queue::Queue;
use crate::record::{PLAIN_PLACES, SEGMENT_QUEUES};
use crate::rooms::{Cursor, Room, Rooms};
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
    pub(crate) state: SegmentState,
    /// Whether its client is. Out of sight its bytes are neither readable nor lost.
    pub(crate) in_sight: bool,
    /// The membership record says that it is behind: under another leader it would start empty, so nothing is put there.
    pub(crate) behind: bool,
    /// Its content is to count as lost once that is recorded, or its grace period is over and routes from within that are not:
    /// nobody is told of it any more.
    pub(crate) struck: bool,
    /// Its node has so much to drop that nothing is put there before most of it is dropped.
    pub(crate) is_choked: bool,
    /// Of what it was known to hold some may be gone: nothing is put there before that is known.
    pub(crate) is_reviewed: bool,
    /// Its node cannot be connected to where it says that it serves: nothing is put there until it can. What lies there stays
    /// readable, for those who reach it.
    pub(crate) is_unreached: bool,
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
    /// Whether its bytes are there, in sight or not.
    pub(crate) fn is_mounted(&self) -> bool {
        matches!(
            self.state,
            SegmentState::Ok
                | SegmentState::Draining
                | SegmentState::Drained
                | SegmentState::GracefullyUnmounting
                | SegmentState::Recovering
        )
    }

    /// Whether its bytes may be read.
    pub(crate) fn serves(&self) -> bool {
        self.in_sight && !self.struck && self.is_mounted()
    }

    /// Whether new objects may be put there.
    pub(crate) fn takes_puts(&self) -> bool {
        let is_well = !self.behind && !self.struck && !self.is_choked && !self.is_reviewed;
        self.in_sight && is_well && !self.is_unreached && self.state == SegmentState::Ok
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
    /// Slots above the high watermark.
    pub(crate) crowded: BTreeSet<u32>,
    /// Unmounting slots that still hold finished replicas.
    pub(crate) dying: BTreeSet<u32>,
}

impl Segments {
    pub(crate) fn new() -> Self {
        Self {
            slots: Slab::new(),
            by_id: FixedMap::default(),
            by_name: BTreeMap::new(),
            by_client: FixedMap::default(),
            grantable: Vec::new(),
            rooms: Rooms::new(),
            unnoted: NONE,
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

    /// Mounts a segment. Gives its slot.
    pub(crate) fn mount(&mut self, segment: Segment) -> u32 {
        let (id, name) = (segment.id, Arc::clone(&segment.name));
        let slot = self.slots.insert(segment);
        self.by_id.insert(id, slot);
        self.by_name.entry(name).or_default().push(slot);
        self.note_client(slot);
        self.begin_granting(slot);
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

    /// The slot is behind, or no longer. True if it takes puts from now on and did not before.
    pub(crate) fn set_behind(&mut self, slot: u32, behind: bool) -> bool {
        self.slots[slot].behind = behind;
        match behind {
            true => {
                self.stop_granting(slot);
                false
            }
            false => self.begin_granting(slot),
        }
    }

    /// Puts may go to the slot again, if nothing else is in the way. True if they do.
    pub(crate) fn begin_granting(&mut self, slot: u32) -> bool {
        let segment = &mut self.slots[slot];
        let begins = segment.takes_puts() && segment.place == NONE;
        if begins {
            segment.place = self.grantable.len() as u32;
            self.grantable.push(slot);
            self.note_room(slot);
        }
        begins
    }

    /// The slot's node can be connected to, or not. True if it takes puts from now on and did not before.
    pub(crate) fn set_reached(&mut self, slot: u32, is_reached: bool) -> bool {
        self.slots[slot].is_unreached = !is_reached;
        if !is_reached {
            self.stop_granting(slot);
        }
        is_reached && self.begin_granting(slot)
    }

    /// The slot is out of sight: no puts, no reads, no evictions.
    pub(crate) fn hide(&mut self, slot: u32) {
        self.slots[slot].in_sight = false;
        self.stop_granting(slot);
    }

    /// The slot is in sight again. True if it takes puts.
    pub(crate) fn show(&mut self, slot: u32) -> bool {
        self.slots[slot].in_sight = true;
        self.begin_granting(slot)
    }

    /// The slot takes no puts until [`Segments::relieve`].
    pub(crate) fn choke(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.slots[slot].is_choked, true) {
            self.stop_granting(slot);
        }
    }

    /// The slot is choked no longer. True if it takes puts.
    pub(crate) fn relieve(&mut self, slot: u32) -> bool {
        self.slots[slot].is_choked = false;
        self.begin_granting(slot)
    }

    /// No more puts go to the slot.
    pub(crate) fn stop_granting(&mut self, slot: u32) {
        self.crowded.remove(&slot);
        let place = std::mem::replace(&mut self.slots[slot].place, NONE);
        if place == NONE {
            return;
        }
        self.rooms.clear(self.grantable.len() - 1);
        self.grantable.swap_remove(place as usize);
        if let Some(&moved) = self.grantable.get(place as usize) {
            let segment = &mut self.slots[moved];
            segment.place = place;
            self.rooms.set(place as usize, segment.room());
        }
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
        self.stop_granting(slot);
        let segment = &mut self.slots[slot];
        (segment.state, segment.recovering) = (SegmentState::Unmounting, None);
        self.by_id.remove(&segment.id);
        self.forget_name(slot);
        self.forget_client(slot);
        self.dying.insert(slot);
        self.forget_if_empty(slot);
    }

    /// An unmounting slot is free once none of its ranges is left.
    pub(crate) fn forget_if_empty(&mut self, slot: u32) {
        let segment = &self.slots[slot];
        if segment.state == SegmentState::Unmounting && segment.allocator.allocations() == 0 {
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

/// A client that was heard of within its time to live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// Stands for the client in the object records; never used again after the client's death.
    pub(crate) number: u32,
    /// Which of its processes it is, as far as one has mounted something: see [`MountSegment::run`].
    pub(crate) run: u64,
    pub(crate) last_heard: Tick,
    /// It was silent for its whole time to live and got another one.
    spared: bool,
    /// The connection of its last ping is open, as far as the master knows.
    pub(crate) in_sight: bool,
    /// When that changed last.
    pub(crate) sight_changed: Tick,
    /// Others could not reach it: when it is out of sight unless it pings.
    pub(crate) doubted_until: Option<Tick>,
}

/// All living clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    known: FixedMap<ClientId, Client>,
    /// How many of them are in sight.
    in_sight: usize,
    next_number: u32,
    /// When any of them was last heard of.
    last_heard: Tick,
}

impl Clients {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// How many of them are in sight.
    pub(crate) fn in_sight(&self) -> usize {
        self.in_sight
    }

    pub(crate) fn get(&self, id: ClientId) -> Option<Client> {
        self.known.get(&id).copied()
    }

    /// Notes a sign of life. True if the client was not known.
    pub(crate) fn hear(&mut self, id: ClientId, now: Tick) -> bool {
        self.last_heard = now;
        if let Some(client) = self.known.get_mut(&id) {
            (client.last_heard, client.spared) = (now, false);
            return false;
        }
        self.next_number = self.next_number.wrapping_add(1);
        let number = self.next_number;
        let (spared, in_sight, doubted_until) = (false, true, None);
        let (last_heard, sight_changed) = (now, now);
        let client =
            Client { number, run: 0, last_heard, spared, in_sight, sight_changed, doubted_until };
        self.known.insert(id, client);
        self.in_sight += 1;
        true
    }

    /// Notes which of its processes a client is.
    pub(crate) fn set_run(&mut self, id: ClientId, run: u64) {
        if let Some(client) = self.known.get_mut(&id) {
            client.run = run;
        }
    }

    /// Notes whether a client is in sight. True if it was not so before.
    pub(crate) fn set_in_sight(&mut self, id: ClientId, in_sight: bool, now: Tick) -> bool {
        let other = |client: &&mut Client| client.in_sight != in_sight;
        let Some(client) = self.known.get_mut(&id).filter(other) else { return false };
        (client.in_sight, client.sight_changed) = (in_sight, now);
        match in_sight {
            true => self.in_sight += 1,
            false => self.in_sight -= 1,
        }
        true
    }

    /// Doubts a client that is in sight and not doubted yet. True if it was one.
    pub(crate) fn doubt(&mut self, id: ClientId, until: Tick) -> bool {
        let unsuspected = |client: &&mut Client| client.in_sight && client.doubted_until.is_none();
        let client = self.known.get_mut(&id).filter(unsuspected);
        client.map(|client| client.doubted_until = Some(until)).is_some()
    }

    /// Doubts a client no longer. Gives the end of the doubt, if there was one.
    pub(crate) fn believe(&mut self, id: ClientId) -> Option<Tick> {
        self.known.get_mut(&id)?.doubted_until.take()
    }

    /// Whether there are several, and none was heard of for this long.
    pub(crate) fn all_silent_for(&self, now: Tick, ms: u64) -> bool {
        self.known.len() > 1 && now.since_ms(self.last_heard) >= ms
    }

    /// Spares a silent client. False if it has been spared since it was last heard of.
    pub(crate) fn spare(&mut self, id: ClientId) -> bool {
        self.known.get_mut(&id).is_some_and(|client| !std::mem::replace(&mut client.spared, true))
    }

    pub(crate) fn forget(&mut self, id: ClientId) {
        if self.known.remove(&id).is_some_and(|client| client.in_sight) {
            self.in_sight -= 1;
        }
    }
}
