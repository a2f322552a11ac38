//! What becomes a tombstone, and what is none any more because something else is written there.

use mooncake_types::Version;

use super::{Entry, EntryId};
use crate::Meta;
use crate::objects::{Object, ObjectState, Range};
use crate::segments::Closed;
use crate::segments::Piece;
use crate::slab::NONE;

impl Meta {
    /// A node may hold this entry, which is nobody's: it gets a tombstone.
    pub(crate) fn leave_tombstone(&mut self, slot: u32, place: EntryId, len: u64, hash: u64) {
        if self.segments[slot].is_mounted() {
            let grant = self.term.newest_grant();
            self.tombstones.insert(slot, place, Entry { len, hash, grant }, self.now);
            let is_newer =
                |record: &Object| record.state == ObjectState::Complete && record.version > place.1;
            if self.index.has_hashed(&self.objects, hash, is_newer) {
                self.tombstones.preceding.insert(hash);
            }
            if self.tombstones.count(slot) > self.config.most_tombstones {
                self.segments.set(slot, Closed::Choked, true);
            }
        }
    }

    /// The entries of an object that will never be read get tombstones. Its ranges stay as they are.
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

    /// The entry of a version, of a key with this hash, that may lie in a range gets a tombstone.
    pub(crate) fn leave_tombstone_in(&mut self, piece: &Piece, (hash, version): (u64, Version)) {
        let offset = self.segments[piece.segment].allocator.range(piece.handle).offset;
        self.leave_tombstone(piece.segment, (offset, version), piece.len, hash);
    }

    /// The replicas of an object are complete: the tombstones in their places are void.
    pub(crate) fn void_beneath(&mut self, object: u32) {
        if self.tombstones.len() == 0 {
            return;
        }
        let mut at = self.objects[object].first_range;
        while at != NONE {
            let range = self.ranges[at];
            let place = self.segments[range.segment].allocator.range(range.handle);
            self.tombstones.void(range.segment, place.offset, range.len);
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
        let places: Vec<(u32, EntryId)> = self.ranges_of(object).map(place).collect();
        for (slot, place) in places {
            self.tombstones.remove(slot, place);
        }
    }
}
