//! Inventories: what nodes say that their segments hold, page by page, as the ground on which a new leader stands.
//!
//! What a page reports is reserved and can be read at once. Nothing is granted on a segment before its last page. So
//! nothing new can lie there if the inventory is begun anew: what was reported is compared (see `review`), and the rest
//! follows. A page that makes no sense has its segment struck: then nothing of it may be trusted.

use mooncake_alloc::Handle;
use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{
    ClientId, EntryState, ErrorCode, InventoryEntry, InventoryPage, PutMode, Tick, Version, limits,
};
use smallvec::smallvec;

use super::attributes::Attributes;
use super::pieces::{Found, Pieces};
use crate::Meta;
use crate::eviction::{Class, Stamp};
use crate::meta::check_key;
use crate::objects::{Asked, Object, ObjectState, Pin, QueueKind, Range};
use crate::placement::Piece;
use crate::segments::{Closed, Progress};
use crate::slab::NONE;

/// What makes no sense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nonsense;

/// Entries whose keys are looked up ahead of them.
const AHEAD: usize = 256;

/// Whether an entry is one that some leader can have granted.
pub(crate) fn read_entry<'a>(entry: &InventoryEntry<'a>) -> Result<Attributes<'a>, Nonsense> {
    let end = entry.object_offset.checked_add(entry.len);
    let is_sound = check_key(entry.key).is_ok()
        && entry.len > 0
        && entry.offset.checked_add(entry.len).is_some()
        && entry.object_len <= limits::MAX_OBJECT_BYTES
        && end.is_some_and(|end| end <= entry.object_len)
        && entry.version <= entry.grant;
    is_sound.then(|| Attributes::decode(entry.attributes)).flatten().ok_or(Nonsense)
}

/// A version of an object of which something was found.
#[derive(Clone, Copy)]
struct Recovered<'a> {
    key: &'a str,
    hash: u64,
    version: Version,
    /// Length of the object, in bytes.
    len: u64,
    attributes: Attributes<'a>,
}

impl Meta {
    pub(crate) fn report_inventory(
        &mut self,
        from: ClientId,
        page: &InventoryPage<'_>,
    ) -> Result<(), ErrorCode> {
        let slot = self.segments.find(page.segment).ok_or(ErrorCode::SegmentNotFound)?;
        let segment = &self.segments[slot];
        if segment.client != from {
            return Err(ErrorCode::IllegalClient);
        }
        // What a process tells that has given the memory to the next is past.
        let is_expected = !segment.is(Closed::Struck) && segment.run == page.run;
        let progress = segment.recovering.filter(|_| is_expected);
        let progress = progress.ok_or(ErrorCode::UnavailableInCurrentStatus)?;
        if page.page == 0 {
            self.recovery.shadows.forget(page.segment);
            self.compare(slot, progress);
        }
        match self.take_page(slot, page) {
            Ok(()) => Ok(()),
            Err(Nonsense) => {
                self.strike(slot);
                Err(ErrorCode::InvalidParams)
            }
        }
    }

    pub(crate) fn take_page(
        &mut self,
        slot: u32,
        page: &InventoryPage<'_>,
    ) -> Result<(), Nonsense> {
        let mut progress = self.segments[slot].recovering.ok_or(Nonsense)?;
        if page.page != progress.next_page {
            return Err(Nonsense);
        }
        for (place, entry) in page.entries.iter().enumerate() {
            if place % AHEAD == 0 {
                let soon = page.entries[place..].iter().take(AHEAD);
                self.index.fetch_ahead(&self.objects, &self.ranges, soon.map(|it| it.key));
            }
            let attributes = self.check_entry(entry, slot, &progress)?;
            progress.end = entry.offset + entry.len;
            if entry.offset < progress.known_to {
                self.review_entry(slot, entry);
                continue;
            }
            let free_until = match page.entries.get(place + 1) {
                Some(next) => next.offset.max(progress.end),
                None if page.last => self.segments[slot].allocator.capacity(),
                None => progress.end,
            };
            let allocator = &mut self.segments[slot].allocator;
            let reserved = allocator.occupy(entry.offset, entry.len, free_until);
            let handle = reserved.ok_or(Nonsense)?.handle;
            self.segments.note_room(slot);
            self.recover_entry(slot, entry, handle, attributes)?;
        }
        progress.next_page = progress.next_page.checked_add(1).ok_or(Nonsense)?;
        self.segments[slot].recovering = Some(progress);
        if page.last {
            self.end_inventory(slot);
        }
        Ok(())
    }

    /// Whether the next entry is one that can have been granted: by an earlier leader, if it is not compared.
    fn check_entry<'a>(
        &self,
        entry: &InventoryEntry<'a>,
        slot: u32,
        progress: &Progress,
    ) -> Result<Attributes<'a>, Nonsense> {
        let end = entry.offset.checked_add(entry.len);
        let capacity = self.segments[slot].allocator.capacity();
        let is_placed = entry.offset >= progress.end && end.is_some_and(|end| end <= capacity);
        let is_granted = match entry.offset < progress.known_to {
            true => entry.grant <= self.newest_grant(),
            false => entry.grant.epoch < self.epoch,
        };
        match is_placed && is_granted {
            true => read_entry(entry),
            false => Err(Nonsense),
        }
    }

    /// The segment has reported all. It takes puts from now on, unless it is marked behind, or under review.
    pub(crate) fn end_inventory(&mut self, slot: u32) {
        let segment = &mut self.segments[slot];
        segment.recovering = None;
        let id = segment.id;
        self.segments.set(slot, Closed::Recovering, false);
        self.end_naming(slot);
        self.advance_reviews();
        self.repair.wake();
        self.catch_up(slot);
        self.on_reported(id);
        self.begin_to_serve_if_all_are_known();
    }

    fn recover_entry(
        &mut self,
        slot: u32,
        entry: &InventoryEntry<'_>,
        handle: Handle,
        attributes: Attributes<'_>,
    ) -> Result<(), Nonsense> {
        let (key, version, len) = (entry.key, entry.version, entry.object_len);
        let found = Recovered { key, hash: self.index.hash(key), version, len, attributes };
        let piece = Piece { segment: slot, handle, len: entry.len };
        if entry.state == EntryState::Writing {
            self.hold_back(&found, piece);
            return Ok(());
        }
        let holder = self.index.get_hashed(&self.objects, key, found.hash).unwrap_or(NONE);
        if self.gives_way(found.hash, holder, version) {
            self.drop_found(&found, &[piece]);
            return Ok(());
        }
        match entry.len == entry.object_len {
            true => self.recover_replica(&found, &[piece]),
            false => self.gather_piece(&found, piece, entry),
        }
    }

    /// Reserves a range that was being written for as long as its writer may be at work, like one of a put that was given
    /// up now. What it writes must not be found by a later leader either.
    fn hold_back(&mut self, found: &Recovered<'_>, piece: Piece) {
        if is_broken(Rule::WritersAreWaitedFor) {
            return self.unreserve(&[piece]);
        }
        self.reserve_until(self.end_of_writers(), (found.hash, found.version), smallvec![piece]);
    }

    /// Has what was found dropped by its node, since nobody may read it.
    fn drop_found(&mut self, found: &Recovered<'_>, pieces: &[Piece]) {
        for piece in pieces {
            self.free_piece(piece, (found.hash, found.version));
        }
    }

    /// Takes up a whole replica.
    fn recover_replica(&mut self, found: &Recovered<'_>, pieces: &[Piece]) -> Result<(), Nonsense> {
        let holder = self.index.get_hashed(&self.objects, found.key, found.hash);
        let same = holder.filter(|&holder| self.objects[holder].version == found.version);
        if let Some(object) = same.or_else(|| self.leaving.of_version(found.version)) {
            return self.add_replica(object, found, pieces);
        }
        let newer = holder.filter(|&holder| {
            self.objects[holder].version > found.version && !is_broken(Rule::HighestVersionWins)
        });
        if newer.is_some() && self.recovery.has_settled() {
            // Nobody has a route to it any more.
            self.drop_found(found, pieces);
            return Ok(());
        }
        let until = self.now.after_ms(self.config.lease_ttl_ms);
        let object = self.insert_found(found, ObjectState::Complete, until, pieces);
        if newer.is_some() {
            self.retire(object);
            return Ok(());
        }
        if let Some(older) = holder {
            self.index.remove(&self.objects, older);
            self.lose_task(older);
            self.retire(older);
        }
        self.index.insert_hashed(&self.objects, object, found.hash);
        self.begin_found(object, &found.attributes);
        self.note_replicas(object);
        self.note_predecessors(object);
        Ok(())
    }

    /// The record of something that was found.
    fn insert_found(
        &mut self,
        found: &Recovered<'_>,
        state: ObjectState,
        touched: Tick,
        pieces: &[Piece],
    ) -> u32 {
        let object = self.objects.insert(Object {
            key: found.key.into(),
            version: found.version,
            len: found.len,
            touched,
            first_range: NONE,
            writer: 0,
            group: NONE,
            state,
            pin: Pin::None,
            data_type: found.attributes.data_type,
            asked: Asked::new(PutMode::Insert, found.attributes.replicas),
        });
        self.attach(object, Class::new(found.hash, 0, false), std::iter::once((0, pieces)));
        object
    }

    /// Makes an object that was found readable, as if it had just been read: there may be routes from under the last
    /// leader.
    fn begin_found(&mut self, object: u32, attributes: &Attributes<'_>) {
        let soft_pin = attributes.soft_pin.filter(|&(ttl_ms, _)| ttl_ms > 0);
        self.objects[object].pin = match soft_pin {
            _ if attributes.hard_pin => Pin::Hard,
            Some(_) => Pin::Soft,
            None => Pin::None,
        };
        self.join_group(object, attributes.group);
        self.count_in_group(object);
        if let Some((ttl_ms, slides)) = soft_pin.filter(|_| !attributes.hard_pin) {
            self.note_soft_pin(object, (ttl_ms.min(self.config.max_soft_pin_ttl_ms), slides));
            self.begin_soft_pin(object);
        }
        if attributes.replaces {
            self.note_replacing(object);
        }
        self.lease_found(object);
    }

    /// Leases an object from now on.
    pub(crate) fn lease_found(&mut self, object: u32) {
        let until = self.now.after_ms(self.config.lease_ttl_ms);
        let record = &mut self.objects[object];
        record.touched = until;
        if record.group != NONE {
            let group = &mut self.groups.slots[record.group];
            group.leased_until = group.leased_until.max(until);
        }
        self.requeue(object, self.queue_after(object, true));
    }

    /// A further replica of a version that is known. What makes no sense is not reserved any more. One that shares a segment with another, or is one too many, is
    /// dropped.
    fn add_replica(
        &mut self,
        object: u32,
        found: &Recovered<'_>,
        pieces: &[Piece],
    ) -> Result<(), Nonsense> {
        let record = &self.objects[object];
        let state = record.state;
        let is_same = record.len == found.len && *record.key == *found.key;
        if !is_same || !matches!(state, ObjectState::Complete | ObjectState::Replaced) {
            self.unreserve(pieces);
            return Err(Nonsense);
        }
        let known = || [Some(object), self.copy_of(object)].into_iter().flatten();
        let shares = |piece: &Piece| {
            let mut ranges = known().flat_map(|of| self.ranges_of(of));
            ranges.any(|(_, range)| range.segment == piece.segment)
        };
        let number = self.free_replica_numbers(object).next();
        let Some(number) = number.filter(|_| !pieces.iter().any(shares)) else {
            self.drop_found(found, pieces);
            return Ok(());
        };
        let added = self.append(object, number, pieces);
        match state {
            ObjectState::Complete => self.lease_found(object),
            _ => added.into_iter().for_each(|range| self.enqueue(range, QueueKind::Replaced)),
        }
        self.note_replicas(object);
        Ok(())
    }

    /// Makes ranges of the pieces of one replica, behind those that the object has.
    fn append(&mut self, object: u32, replica: usize, pieces: &[Piece]) -> Vec<u32> {
        let class = self.class_of(object);
        let stamp = Stamp::at(self.uses);
        let mut last = self.ranges_of(object).last().expect("an object has a range").0;
        let mut added = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let (segment, handle, len) = (piece.segment, piece.handle, piece.len);
            let (sibling, prev, next, queue) = (NONE, NONE, NONE, QueueKind::Out);
            let replica = replica as u8;
            let range = Range {
                len,
                object,
                segment,
                handle,
                sibling,
                prev,
                next,
                replica,
                queue,
                class,
                stamp,
            };
            let id = self.ranges.insert(range);
            self.segments[range.segment].own(range.handle, id);
            self.ranges[last].sibling = id;
            last = id;
            added.push(id);
        }
        added
    }

    /// Keeps a stripe until its neighbours are there, and makes a replica of them once they are.
    fn gather_piece(
        &mut self,
        found: &Recovered<'_>,
        piece: Piece,
        entry: &InventoryEntry<'_>,
    ) -> Result<(), Nonsense> {
        let range = match self.recovery.pieces.get(&found.version).map(|pieces| pieces.object) {
            Some(object) => {
                let record = &self.objects[object];
                if record.len != found.len || *record.key != *found.key {
                    self.unreserve(&[piece]);
                    return Err(Nonsense);
                }
                self.append(object, 0, &[piece])[0]
            }
            None => {
                let object = self.insert_found(found, ObjectState::Gathering, self.now, &[piece]);
                let attributes = entry.attributes.to_vec();
                let pieces = Pieces { object, found: Vec::new(), attributes };
                self.recovery.pieces.insert(found.version, pieces);
                self.objects[object].first_range
            }
        };
        let object_offset = entry.object_offset;
        let piece = Found { object_offset, len: piece.len, segment: piece.segment, range };
        let pieces = self.recovery.pieces.get_mut(&found.version).expect("it was just put in");
        pieces.found.push(piece);
        let Some(chain) = pieces.replica(found.len) else { return Ok(()) };
        let attributes = pieces.attributes.clone();
        let whole: Vec<Found> = chain.iter().map(|&place| pieces.found[place]).collect();
        let pieces: Vec<Piece> =
            whole.iter().map(|it| self.take_piece(found.version, it.range)).collect();
        let attributes = Attributes::decode(&attributes).unwrap_or_default();
        self.recover_replica(&Recovered { attributes, ..*found }, &pieces)
    }

    /// Takes a stripe from those that wait. Its range stays reserved.
    fn take_piece(&mut self, version: Version, range: u32) -> Piece {
        let pieces = self.recovery.pieces.get_mut(&version).expect("the piece is one of some");
        pieces.found.retain(|piece| piece.range != range);
        let (object, is_last) = (pieces.object, pieces.found.is_empty());
        let piece = self.take_range(object, range);
        if is_last {
            self.recovery.pieces.remove(&version);
            self.objects.remove(object);
        }
        piece
    }

    /// Forgets the stripes that wait on a segment.
    pub(crate) fn forget_pieces_on(&mut self, slot: u32) {
        let waiting = self.recovery.pieces.iter().flat_map(|(&version, pieces)| {
            let here = pieces.found.iter().filter(|piece| piece.segment == slot);
            here.map(move |piece| (version, piece.range)).collect::<Vec<_>>()
        });
        let waiting: Vec<(Version, u32)> = waiting.collect();
        for (version, range) in waiting {
            self.forget_piece(version, range);
        }
    }

    /// Forgets a stripe that waits.
    pub(crate) fn forget_piece(&mut self, version: Version, range: u32) {
        let piece = self.take_piece(version, range);
        self.unreserve(&[piece]);
    }
}
