//! Creates tombstones, and voids them when another entry is written in their place.

use std::sync::Arc;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{Tick, Version};

use super::{EntryId, Tombstone};
use crate::Meta;
use crate::notice::Notice;
use crate::objects::{Object, ObjectState, Range};
use crate::segments::{Closed, Piece};
use crate::slab::NONE;
use crate::timer::Timer;

impl Meta {
    /// Leaves a tombstone for an entry that a node may hold and that belongs to no object, put or copy.
    pub(crate) fn leave_tombstone(&mut self, slot: u32, place: EntryId, len: u64, hash: u64) {
        if self.segments[slot].is_mounted() {
            let grant = self.term.newest_grant();
            let tombstones = self.tombstones.insert(slot, place, Tombstone { len, hash, grant });
            let is_newer =
                |record: &Object| record.state == ObjectState::Complete && record.version > place.1;
            if self.index.has_hashed(&self.objects, hash, is_newer) {
                self.tombstones.preceding.insert(hash);
            }
            if tombstones > self.config.most_tombstones {
                self.choke(slot, tombstones);
            }
        }
    }

    /// A segment has so many tombstones that it takes no puts until its node has dropped half of them.
    #[cold]
    fn choke(&mut self, slot: u32, tombstones: usize) {
        if !self.segments[slot].is(Closed::Choked) {
            self.segments.set(slot, Closed::Choked, true);
            let name = Arc::clone(&self.segments[slot].name);
            self.notify(Notice::TooMuchToDrop { name, tombstones });
        }
    }

    /// Leaves tombstones for the entries of an object that no reader will get. Its ranges stay as they are.
    pub(crate) fn leave_tombstones_of(&mut self, object: u32) {
        let record = &self.objects[object];
        let of = (self.index.hash(&record.key), record.version);
        let piece =
            |range: &Range| Piece { segment: range.segment, handle: range.handle, len: range.len };
        let pieces: Vec<Piece> = self.ranges_of(object).map(|(_, range)| piece(range)).collect();
        for piece in &pieces {
            self.leave_tombstone_in(piece, of);
        }
    }

    /// Leaves a tombstone for the entry of this version that may lie in a range. `hash` is that of its key.
    pub(crate) fn leave_tombstone_in(&mut self, piece: &Piece, (hash, version): (u64, Version)) {
        let offset = self.segments[piece.segment].allocator.range(piece.handle).offset;
        self.leave_tombstone(piece.segment, (offset, version), piece.len, hash);
    }

    /// The replicas of an object are complete: voids the tombstones in their places.
    pub(crate) fn void_beneath(&mut self, object: u32) {
        if self.tombstones.len() == 0 {
            return;
        }
        let mut at = self.objects[object].first_range;
        while at != NONE {
            let range = self.ranges[at];
            self.tombstones.void(range.segment, self.offset_of(&range), range.len);
            at = range.sibling;
        }
    }

    /// A copy writes the same version again, and nodes must not drop its entries. So tombstones of this version in the
    /// same places go.
    pub(crate) fn remove_tombstones_of_copy(&mut self, object: u32) {
        let version = self.objects[object].version;
        let place = |(_, range): (u32, &Range)| (range.segment, (self.offset_of(range), version));
        let places: Vec<(u32, EntryId)> = self.ranges_of(object).map(place).collect();
        for (slot, place) in places {
            self.tombstones.remove(slot, place);
        }
    }

    /// Removes a finished object that has just lost its key. While readers may have routes to it, it stays as a leased
    /// tombstone.
    pub(crate) fn leave_leased_tombstone(&mut self, object: u32) {
        let stays = self.is_leased(object) && self.lives(object);
        let stays = stays && !is_broken(Rule::LeavingRangesAreReserved);
        self.set_tombstone(object);
        if !stays {
            self.free_replicas(object, u32::MAX);
            return self.forget_empty(object);
        }
        self.timers.insert(self.leased_timer(object));
        let (version, grant) = (self.objects[object].version, self.term.newest_grant());
        self.tombstones.leased.by_version.insert(version, (object, grant));
        self.tombstones.leased.by_key.insert(&self.objects, object);
    }

    /// The timer of a leased tombstone. No reader has a route to it once its lease is over.
    fn leased_timer(&self, object: u32) -> (Tick, Timer) {
        (self.objects[object].leased_until(), Timer::LeasedTombstone(object))
    }

    /// Takes an object from the leased tombstones.
    pub(crate) fn forget_leased(&mut self, object: u32) {
        self.timers.remove(&self.leased_timer(object));
        self.tombstones.leased.by_version.remove(&self.objects[object].version);
        self.tombstones.leased.by_key.remove(&self.objects, object);
    }
}
