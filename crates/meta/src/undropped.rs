//! Entries that the master forgot and that nodes may still hold: what was evicted, removed, replaced, revoked.
//!
//! Their ranges may be granted again at once, since nobody has a route to them. But a later leader would find them in an
//! inventory. So the nodes fetch them and drop them, by and by; and whoever removes or replaces a key has all that is left
//! of it dropped before it is told, and whoever reads a newer version before it reads. An entry is void once another was
//! completed in its place.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{
    ClientId, ErrorCode, Located, RangeDrop, RemainingRange, Reply, SegmentId, Tick, Version,
    limits,
};

use crate::Meta;
use crate::closed::Closed;
use crate::place::Piece;
use crate::record::{Object, ObjectState, Range};
use crate::remains::Gathered;
use crate::reply::AddressTable;
use crate::slab::NONE;
use crate::undropped_keys::UndroppedKeys;

/// An entry of a segment: where it starts, and the version that lies there.
pub(crate) type Place = (u64, Version);

/// What is undropped, by segment and by key.
#[derive(Debug, Default)]
pub(crate) struct Undropped {
    /// By slot of the segment.
    by_slot: BTreeMap<u32, Entries>,
    /// By the hash of the key: a key that shares it with another may have entries of that dropped, which harms nobody.
    by_key: UndroppedKeys,
    /// The hashes of keys of which a newer version than some entry can be read.
    preceding: HashSet<u64, FixedState>,
    /// Nothing is named as left under an older grant,
    named_from: Version,
    /// but for what lay beneath puts when that was said, which is older than they are.
    beneath: BTreeSet<(u32, Place)>,
}

#[derive(Debug, Default)]
struct Entries {
    known: BTreeMap<Place, Entry>,
    /// Where the next list begins, so that every entry gets its turn.
    next: Place,
    /// When its node last said that it dropped some, or there were none.
    confirmed_at: Tick,
}

/// What is known of an entry beside its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) len: u64,
    /// Of the key.
    pub(crate) hash: u64,
    /// The newest grant when it was left, or when it was to be named again: that version may be granted there anew.
    pub(crate) grant: Version,
}

impl Undropped {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Entries of a segment.
    pub(crate) fn count(&self, slot: u32) -> usize {
        self.by_slot.get(&slot).map_or(0, |entries| entries.known.len())
    }

    pub(crate) fn contains(&self, slot: u32, place: Place) -> bool {
        self.by_slot.get(&slot).is_some_and(|entries| entries.known.contains_key(&place))
    }

    pub(crate) fn get(&self, slot: u32, place: Place) -> Option<Entry> {
        let entry = self.by_slot.get(&slot)?.known.get(&place)?;
        Some(Entry { grant: self.named_grant(slot, place, entry), ..*entry })
    }

    fn named_grant(&self, slot: u32, place: Place, entry: &Entry) -> Version {
        match !self.beneath.is_empty() && self.beneath.contains(&(slot, place)) {
            true => entry.grant,
            false => entry.grant.max(self.named_from),
        }
    }

    pub(crate) fn insert(&mut self, slot: u32, place: Place, entry: Entry, now: Tick) {
        let none = || Entries { confirmed_at: now, ..Entries::default() };
        self.by_slot.entry(slot).or_insert_with(none).known.insert(place, entry);
        self.by_key.insert(entry.hash, (slot, place));
    }

    /// A node has dropped what lay there under this grant or an older one.
    pub(crate) fn confirm(&mut self, slot: u32, place: Place, grant: Version, now: Tick) {
        let Some(entries) = self.by_slot.get_mut(&slot) else { return };
        entries.confirmed_at = now;
        if self.get(slot, place).is_some_and(|entry| entry.grant <= grant) {
            self.remove(slot, place);
        }
    }

    /// What there is now is named by a leader with this newest grant from here on, but for what is `beneath` something.
    pub(crate) fn name_again(&mut self, grant: Version, beneath: BTreeSet<(u32, Place)>) {
        self.named_from = grant;
        self.beneath.extend(beneath);
    }

    /// Nothing else is beneath anything any more.
    pub(crate) fn retain_beneath(&mut self, beneath: &BTreeSet<(u32, Place)>) {
        self.beneath.retain(|place| beneath.contains(place));
    }

    pub(crate) fn has_some_beneath(&self) -> bool {
        !self.beneath.is_empty()
    }

    /// When the node of a slot that has entries last said that it dropped some, or there were none.
    fn confirmed_at(&self, slot: u32) -> Option<Tick> {
        Some(self.by_slot.get(&slot)?.confirmed_at)
    }

    pub(crate) fn remove(&mut self, slot: u32, place: Place) {
        let Some(entries) = self.by_slot.get_mut(&slot) else { return };
        let Some(Entry { hash, .. }) = entries.known.remove(&place) else { return };
        if entries.known.is_empty() {
            self.by_slot.remove(&slot);
        }
        self.forget_key(hash, slot, place);
    }

    fn forget_key(&mut self, hash: u64, slot: u32, place: Place) {
        self.by_key.remove(hash, (slot, place));
        if !self.preceding.is_empty() && self.of_key(hash).next().is_none() {
            self.preceding.remove(&hash);
        }
    }

    /// An entry is complete in this range: its node has dropped what overlapped it. One that begins before another that
    /// does may be passed over; it is dropped like any other.
    pub(crate) fn void(&mut self, slot: u32, offset: u64, len: u64) {
        for place in self.overlapping(slot, offset, len) {
            self.remove(slot, place);
        }
    }

    /// The entries that lie in this range, and the last of those that begin before it, if that reaches into it.
    pub(crate) fn overlapping(&self, slot: u32, offset: u64, len: u64) -> Vec<Place> {
        let Some(entries) = self.by_slot.get(&slot) else { return Vec::new() };
        let (start, end) = (place_at(offset), place_at(offset.saturating_add(len)));
        let before = entries.known.range(..start).next_back();
        let before = before.filter(|&(&(at, _), it)| at.saturating_add(it.len) > offset);
        let inside = entries.known.range(start..end).chain(before);
        inside.map(|(&place, _)| place).collect()
    }

    /// The segment is gone, and its entries with it.
    pub(crate) fn forget(&mut self, slot: u32) {
        let Some(entries) = self.by_slot.remove(&slot) else { return };
        for (place, entry) in entries.known {
            self.forget_key(entry.hash, slot, place);
        }
    }

    /// Whether a newer version than some entry of a key with this hash can be read.
    pub(crate) fn precedes(&self, hash: u64) -> bool {
        self.preceding.contains(&hash)
    }

    /// The entries of a key with this hash, by segment.
    pub(crate) fn of_key(&self, hash: u64) -> impl Iterator<Item = (u32, Place)> {
        self.by_key.of_key(hash)
    }

    /// Up to `limit` entries of a segment: the next ones, from the first on again after the last.
    fn next_of(&mut self, slot: u32, limit: usize) -> Vec<(Place, Version)> {
        let Some(entries) = self.by_slot.get(&slot) else { return Vec::new() };
        let (next, known) = (entries.next, &entries.known);
        let behind = known.range(next..).chain(known.range(..next)).take(limit);
        let named = |(&place, entry)| (place, self.named_grant(slot, place, entry));
        let found: Vec<(Place, Version)> = behind.map(named).collect();
        if let (Some(&((offset, version), _)), Some(entries)) =
            (found.last(), self.by_slot.get_mut(&slot))
        {
            let counter = version.counter.saturating_add(1);
            entries.next = (offset, Version { counter, ..version });
        }
        found
    }

    /// Every entry, with its slot and place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Place, Entry)> {
        self.by_slot.iter().flat_map(|(&slot, entries)| {
            entries.known.iter().map(move |(&place, &entry)| (slot, place, entry))
        })
    }

    /// The places from an offset of a slot on, in the order of slots and places.
    pub(crate) fn from(&self, slot: u32, offset: u64) -> impl Iterator<Item = (u32, Place)> {
        self.by_slot.range(slot..).flat_map(move |(&at, entries)| {
            let first = if at == slot { place_at(offset) } else { Place::default() };
            entries.known.range(first..).map(move |(&place, _)| (at, place))
        })
    }

    /// Whether the entries by key are just those by segment.
    pub(crate) fn is_sound(&self) -> bool {
        let mut count = 0;
        let known = self.iter().all(|(slot, place, entry)| {
            count += 1;
            self.by_key.contains(entry.hash, (slot, place))
        });
        known && count == self.by_key.len()
    }
}

/// The first place at an offset.
fn place_at(offset: u64) -> Place {
    (offset, Version::default())
}

impl Meta {
    /// A node may hold this entry, and nobody else knows of it.
    pub(crate) fn leave_undropped(&mut self, slot: u32, place: Place, len: u64, hash: u64) {
        if self.segments[slot].is_mounted() {
            let grant = self.newest_grant();
            self.undropped.insert(slot, place, Entry { len, hash, grant }, self.now);
            let is_newer =
                |record: &Object| record.state == ObjectState::Complete && record.version > place.1;
            if self.index.has_hashed(&self.objects, hash, is_newer) {
                self.undropped.preceding.insert(hash);
            }
            if self.undropped.count(slot) > self.config.most_undropped {
                self.segments.set(slot, Closed::Choked, true);
            }
        }
    }

    /// What the nodes hold of an object that will never be read becomes undropped. Its ranges stay as they are.
    pub(crate) fn leave_object_undropped(&mut self, object: u32) {
        let record = &self.objects[object];
        let of = (self.index.hash(&record.key), record.version);
        let piece =
            |range: &Range| Piece { segment: range.segment, handle: range.handle, len: range.len };
        let pieces: Vec<Piece> = self.ranges_of(object).map(|(_, range)| piece(range)).collect();
        for piece in &pieces {
            self.leave_piece_undropped(piece, of);
        }
    }

    /// What a node holds in a range of a version, of a key with this hash, becomes undropped.
    pub(crate) fn leave_piece_undropped(&mut self, piece: &Piece, (hash, version): (u64, Version)) {
        let offset = self.segments[piece.segment].allocator.range(piece.handle).offset;
        self.leave_undropped(piece.segment, (offset, version), piece.len, hash);
    }

    /// The replicas of an object are complete: what was undropped in their places is void.
    pub(crate) fn void_beneath(&mut self, object: u32) {
        if self.undropped.len() == 0 {
            return;
        }
        let mut at = self.objects[object].first_range;
        while at != NONE {
            let range = self.ranges[at];
            let place = self.segments[range.segment].allocator.range(range.handle);
            self.undropped.void(range.segment, place.offset, range.len);
            at = range.sibling;
        }
    }

    /// Entries of the very version that is written again in the same places are no longer to be dropped.
    pub(crate) fn expect_anew(&mut self, object: u32) {
        let version = self.objects[object].version;
        let place = |(_, range): (u32, &Range)| {
            let offset = self.segments[range.segment].allocator.range(range.handle).offset;
            (range.segment, (offset, version))
        };
        let places: Vec<(u32, Place)> = self.ranges_of(object).map(place).collect();
        for (slot, place) in places {
            self.undropped.remove(slot, place);
        }
    }

    /// Names what is undropped of a key, of versions below the one given if there is one. Segments that would start empty
    /// are left out; those whose nodes cannot be asked are marked so that they would.
    pub(crate) fn gather_undropped(
        &mut self,
        key: &str,
        below: Option<Version>,
        gathered: &mut Gathered,
    ) {
        if self.undropped.len() == 0 || is_broken(Rule::RemovalsReachTheNodes) {
            return;
        }
        let is_older = |version: Version| below.is_none_or(|below| version < below);
        let of_key = self.undropped.of_key(self.index.hash(key));
        let found: Vec<(u32, Place)> = of_key
            .filter(|&(slot, (_, version))| is_older(version) && !self.is_forgiven(slot))
            .collect();
        for (slot, place) in found {
            self.name_undropped(slot, place, gathered);
        }
    }

    /// Names what is undropped of a key, of these versions, wherever it is.
    pub(crate) fn gather_versions(
        &mut self,
        key: &str,
        versions: &BTreeSet<Version>,
        gathered: &mut Gathered,
    ) {
        let of_key = self.undropped.of_key(self.index.hash(key));
        let found: Vec<_> = of_key.filter(|(_, (_, at))| versions.contains(at)).collect();
        for (slot, place) in found {
            self.name_undropped(slot, place, gathered);
        }
    }

    /// Names an entry if it is undropped, and must be waited for.
    pub(crate) fn name_undropped(&mut self, slot: u32, place: Place, gathered: &mut Gathered) {
        if let Some(grant) = self.must_be_dropped(slot, place) {
            gathered.add(&self.segments, slot, place, grant);
        }
    }

    /// The newest grant that an entry can have been written under, if it is undropped and must be waited for.
    pub(crate) fn must_be_dropped(&mut self, slot: u32, place: Place) -> Option<Version> {
        let entry = self.undropped.get(slot, place)?;
        if self.segments[slot].is(Closed::OutOfSight) {
            self.leave_behind(slot);
        }
        (!self.is_forgiven(slot)).then_some(entry.grant)
    }

    /// An object can be read from now on: what is undropped of older versions precedes it.
    pub(crate) fn note_predecessors(&mut self, object: u32) {
        if self.undropped.len() == 0 {
            return;
        }
        let record = &self.objects[object];
        let hash = self.index.hash(&record.key);
        let mut of_key = self.undropped.of_key(hash);
        if of_key.any(|(_, (_, version))| version < record.version) {
            drop(of_key);
            self.undropped.preceding.insert(hash);
        }
    }

    /// Names what readers of these keys have dropped before they read. Of a key that has too much of it nothing can be read
    /// yet.
    pub(crate) fn gather_predecessors(
        &mut self,
        keys: &[&str],
        results: &mut [Result<Located, ErrorCode>],
        table: &mut AddressTable,
    ) -> Vec<(u32, RemainingRange)> {
        let mut ranges = Vec::new();
        // Where nobody keeps what may be read as L8 has it, readers would make up for it.
        let hides = is_broken(Rule::LeavingRangesAreReserved) || is_broken(Rule::ReadsGrantLeases);
        let may_be_left = is_broken(Rule::RemovalsReachTheNodes) || hides;
        if self.undropped.preceding.is_empty() || may_be_left {
            return ranges;
        }
        for ((key, position), result) in keys.iter().zip(0..).zip(results) {
            let hash = self.index.hash(key);
            if result.is_err() || !self.undropped.precedes(hash) {
                continue;
            }
            let Some(newest) = self.find(key).map(|object| self.objects[object].version) else {
                continue;
            };
            let of_key = self.undropped.of_key(hash);
            let older: Vec<_> = of_key.filter(|(_, (_, version))| *version < newest).collect();
            let before = ranges.len();
            for (slot, place) in older {
                ranges.extend(self.must_be_dropped(slot, place).map(|grant| {
                    let ((offset, version), segment) =
                        (place, table.position(&self.segments, slot));
                    (position, RemainingRange { segment, offset, version, grant })
                }));
            }
            if ranges.len() > limits::MAX_PREDECESSORS {
                ranges.truncate(before);
                *result = Err(ErrorCode::ObjectReplicaBusy);
            }
        }
        ranges
    }

    /// Hands a client what its nodes are to drop, and forgets what they have dropped.
    pub(crate) fn fetch_drops(
        &mut self,
        from: ClientId,
        dropped: &[RangeDrop],
        limit: u32,
    ) -> Reply {
        for range in dropped {
            let slot = self.segments.find(range.segment);
            let own = slot.filter(|&slot| self.segments[slot].client == from);
            if let Some(slot) = own {
                let place = (range.offset, range.version);
                self.undropped.confirm(slot, place, range.grant, self.now);
                self.catch_up(slot);
            }
        }
        let mut slots = self.segments.of_client(from);
        slots.retain(|&slot| !self.segments[slot].is(Closed::Struck));
        let limit = limit.min(limits::MAX_FETCHED_DROPS) as usize;
        let mut drops: Vec<RangeDrop> = Vec::new();
        for slot in slots {
            let segment = self.segments[slot].id;
            let found = self.undropped.next_of(slot, limit - drops.len());
            let drop = |((offset, version), grant)| RangeDrop { segment, offset, version, grant };
            drops.extend(found.into_iter().map(drop));
        }
        Reply::Drops(drops)
    }

    /// Whether a client has something to drop on one of these segments.
    pub(crate) fn has_drops(&mut self, hosted: &[SegmentId]) -> bool {
        let mut has_some = false;
        for &id in hosted {
            let Some(slot) = self.segments.find(id) else { continue };
            has_some |= self.undropped.count(slot) > 0;
            match self.segments[slot].is(Closed::Choked) {
                true => self.relieve_choked(slot),
                false => self.catch_up(slot),
            }
        }
        has_some
    }

    /// A segment of which too much was undropped takes puts again once its node has dropped half of that. A node that
    /// drops nothing at all is struck.
    fn relieve_choked(&mut self, slot: u32) {
        let since = self.undropped.confirmed_at(slot).unwrap_or(self.now);
        if self.undropped.count(slot) <= self.config.most_undropped / 2 {
            self.segments.set(slot, Closed::Choked, false);
        } else if self.now.since_ms(since) >= self.config.client_ttl_ms {
            self.strike(slot);
        }
    }
}
