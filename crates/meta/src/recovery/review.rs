//! Reviews: the leader checks whether a segment still holds the entries that the leader knows.
//!
//! A restarted node takes over the memory of the process before it, and may hold fewer entries. It has dropped
//! half-written entries, and entries that found no room in the rows that outlive a process. The earlier process may
//! also have dropped entries without telling this leader. So the leader asks for the inventory, as a new leader does,
//! and compares it with its own records. It also does so when a node begins its inventory again, since the node may
//! have dropped entries that it reported.
//!
//! During a review:
//!
//! - Known objects stay readable: a node refuses to read an entry that it does not hold.
//! - The leader grants nothing on the segment.
//! - If the inventory does not name a known entry, that entry is lost. If it names an unknown one, the leader leaves a
//!   tombstone.
//! - When a put or a copy ends, only its named ranges count: the earlier process may have written the others.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{EntryState, InventoryEntry, Version};

use crate::Meta;
use crate::effort::CHANGE;
use crate::objects::{ObjectState, Range};
use crate::segments::{Closed, ReportProgress};

impl Meta {
    /// Another process has taken over the memory of a segment and must report its inventory. A process that was still
    /// reporting begins again.
    pub(crate) fn begin_review(&mut self, slot: u32) {
        if is_broken(Rule::RestartedNodesAreReviewed) {
            return;
        }
        let segment = &self.segments[slot];
        let all =
            ReportProgress { known_to: segment.allocator.capacity(), ..ReportProgress::default() };
        // If the segment was still reporting, only the part that it has reported is compared.
        self.compare(slot, segment.recovering.unwrap_or(all));
    }

    /// An inventory begins, for the first time or again. If the leader knows entries of the segment, it compares them.
    pub(super) fn compare(&mut self, slot: u32, progress: ReportProgress) {
        let known_to = progress.known_to.max(progress.end);
        self.segments
            .set_progress(slot, Some(ReportProgress { known_to, ..ReportProgress::default() }));
        self.segments.set(slot, Closed::Reviewed, known_to > 0);
        if known_to == 0 {
            return self.reviews.forget(slot);
        }
        self.reviews.begin(slot, known_to);
    }

    /// Compares a reported entry with the records of the leader.
    pub(super) fn review_entry(&mut self, slot: u32, entry: &InventoryEntry<'_>) {
        if entry.state == EntryState::Writing {
            // An entry that is still being written does not count as named. Its put or copy has not ended, so it gets
            // no tombstone.
            return;
        }
        let Some(id) = self.find_named(slot, entry) else {
            let (hash, place) = (self.index.hash(entry.key), (entry.offset, entry.version));
            return self.leave_tombstone(slot, place, entry.len, hash);
        };
        if let Some(review) = self.reviews.by_slot.get_mut(&slot) {
            review.named.insert(id);
        }
    }

    /// The known range at the same place with the same key and version, if there is one.
    fn find_named(&self, slot: u32, entry: &InventoryEntry<'_>) -> Option<u32> {
        let found = self.range_at(slot, entry.offset, entry.key, entry.version);
        found.filter(|&id| self.ranges[id].len == entry.len)
    }

    /// The known range of a version of a key that begins at an offset of a segment, if there is one.
    pub(crate) fn range_at(
        &self,
        slot: u32,
        offset: u64,
        key: &str,
        version: Version,
    ) -> Option<u32> {
        let is_same = |object: &u32| {
            let record = &self.objects[*object];
            record.version == version && *record.key == *key
        };
        let holder = self.find(key);
        let copy = holder.and_then(|object| self.copy_of(object));
        let pieces = self.recovery.waiting.get(&version).map(|pieces| pieces.object);
        let beside = self.find_beside(key, version);
        let leased = self.tombstones.leased().of_version(version);
        let known = [holder, copy, beside, leased, pieces].into_iter().flatten().filter(is_same);
        let is_there = |range: &Range| range.segment == slot && self.offset_of(range) == offset;
        let mut ranges = known.flat_map(|object| self.ranges_of(object));
        ranges.find(|(_, range)| is_there(range)).map(|(id, _)| id)
    }

    /// The inventory of a segment under review is complete. The leader now looks for ranges that it did not name, a
    /// bounded step at a time.
    pub(super) fn end_naming(&mut self, slot: u32) {
        if let Some(review) = self.reviews.by_slot.get_mut(&slot) {
            review.next = Some(0);
        }
    }

    /// Does a bounded step of the first review whose inventory is complete.
    pub(crate) fn advance_reviews(&mut self) {
        let mut named =
            self.reviews.by_slot.iter().filter_map(|(&slot, it)| Some((slot, it.next?)));
        let Some((slot, from)) = named.next() else { return };
        let (end, mut next) = (self.segments[slot].owners.len(), from);
        while next < end && self.effort.spend(1) {
            self.review_range(slot, next);
            next += 1;
        }
        if next == end {
            return self.end_review(slot);
        }
        let review = self.reviews.by_slot.get_mut(&slot).expect("it has not ended");
        review.next = Some(next);
    }

    /// Checks the range with this number on its segment, if there is one.
    fn review_range(&mut self, slot: u32, number: usize) {
        let id = self.segments[slot].owners[number];
        let is_there =
            |range: &&Range| range.segment == slot && range.handle.number() as usize == number;
        let Some(range) = self.ranges.get(id).filter(is_there) else { return };
        let &Range { object, replica, .. } = range;
        let review = &self.reviews.by_slot[&slot];
        if self.offset_of(range) >= review.known_to || review.named.contains(&id) {
            return;
        }
        match self.objects[object].state {
            ObjectState::Complete | ObjectState::Tombstone => {
                self.effort.spend(CHANGE);
                // It is gone already, so this may come too late for the next leader.
                self.may_be_evicted(object);
                self.lose_replica(object, replica);
            }
            ObjectState::Processing
            | ObjectState::Waiting
            | ObjectState::Overtaken
            | ObjectState::Copying => {
                self.reviews.missed.insert(id);
            }
            ObjectState::Gathering => self.forget_piece(self.objects[object].version, id),
        }
    }

    fn end_review(&mut self, slot: u32) {
        self.reviews.forget(slot);
        self.segments.set(slot, Closed::Reviewed, false);
        self.catch_up(slot);
    }

    /// The replicas of a put or a copy that restarted nodes have lost, as bits.
    pub(crate) fn missed_replicas(&self, object: u32) -> u32 {
        if self.reviews.by_slot.is_empty() && self.reviews.missed.is_empty() {
            return 0;
        }
        let missed = self.ranges_of(object).filter(|(id, range)| self.reviews.misses(*id, range));
        missed.fold(0, |set, (_, range)| set | 1 << range.replica)
    }
}
