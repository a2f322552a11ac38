//! Removals that began under one leader and end under another: what nodes may still hold of them, or have dropped only
//! after they told of it.

use std::collections::BTreeSet;

use mooncake_types::mutation::is_broken;
use mooncake_types::{ErrorCode, RangeDrop, Reply, SegmentId, Version, mutation};

use crate::Meta;
use crate::meta::check_key;
use crate::pieces::Found;
use crate::record::ObjectState;
use crate::remains::{Gathered, MOST_LEAVING};
use crate::slab::NONE;

/// Where a range of a version lies.
type Spot = (SegmentId, u64, Version);

impl Meta {
    /// See [`mooncake_types::Request::Retract`].
    pub(crate) fn retract(
        &mut self,
        keys: &[&str],
        ranges: &[RangeDrop],
        are_dropped: bool,
    ) -> Reply {
        if let Some(code) = keys.iter().find_map(|key| check_key(key).err()) {
            return Reply::Refused(code);
        }
        let is_of_another = |range: &RangeDrop| range.grant.epoch < self.began_under;
        if keys.is_empty() && ranges.iter().any(is_of_another) {
            // What it may have found of them it could only find by their keys.
            return Reply::Refused(ErrorCode::InvalidVersion);
        }
        let spots = ranges.iter().map(|range| (range.segment, range.offset, range.version));
        let spots: BTreeSet<Spot> = spots.collect();
        for key in keys {
            self.give_up_found(key, &spots, are_dropped);
        }
        if are_dropped {
            ranges.iter().for_each(|range| self.give_up_piece(range));
            return self.dropped(ranges);
        }
        let mut gathered = Gathered::default();
        for key in keys {
            self.touch(key);
            if is_broken(mutation::Rule::RepeatsAreBounded) {
                let _ = self.remove(key, true, &mut gathered);
            }
        }
        for range in ranges {
            self.gather_again(range, &mut gathered);
        }
        gathered.into_reply(self.now, vec![Ok(()); keys.len()])
    }

    /// Gives up the replicas of an object that this leader found where these ranges are, but not what it had written
    /// there itself.
    fn give_up_found(&mut self, key: &str, spots: &BTreeSet<Spot>, are_dropped: bool) {
        let is_found = |&object: &u32| {
            let record = &self.objects[object];
            record.state == ObjectState::Complete && record.version.epoch < self.began_under
        };
        let Some(object) = self.find(key).filter(is_found) else { return };
        let version = self.objects[object].version;
        let (mut given_up, mut all) = (0u32, 0u32);
        for (id, range) in self.ranges_of(object) {
            let segment = &self.segments[range.segment];
            let spot = (segment.id, segment.allocator.range(range.handle).offset, version);
            all |= 1 << range.replica;
            if spots.contains(&spot) && !self.copied.contains(&id) {
                given_up |= 1 << range.replica;
            }
        }
        if given_up == 0 {
            return;
        }
        let is_whole = given_up == all && self.leaving.of_key(key).len() < MOST_LEAVING;
        if is_whole && !are_dropped {
            // Readers may have routes to it.
            self.leave_key(object);
            return self.retire(object);
        }
        self.free_replicas(object, given_up);
        if self.objects[object].first_range == NONE {
            self.drop_object(object);
        }
    }

    /// Gives up a stripe that was found and has not found its neighbours yet: its node has dropped it.
    fn give_up_piece(&mut self, range: &RangeDrop) {
        let Some(pieces) = self.recovery.pieces.get(&range.version) else { return };
        let is_it = |piece: &&Found| {
            let segment = &self.segments[piece.segment];
            let offset = segment.allocator.range(self.ranges[piece.range].handle).offset;
            (segment.id, offset) == (range.segment, range.offset)
        };
        if let Some(piece) = pieces.found.iter().find(is_it) {
            self.forget_piece(range.version, piece.range);
        }
    }

    /// Names what a node may still hold of a range that was named before.
    fn gather_again(&mut self, range: &RangeDrop, gathered: &mut Gathered) {
        let Some(slot) = self.segments.find(range.segment) else { return };
        if let Some(object) = self.leaving.of_version(range.version) {
            self.gather_once(object, gathered);
        }
        self.name_undropped(slot, (range.offset, range.version), gathered);
    }
}
