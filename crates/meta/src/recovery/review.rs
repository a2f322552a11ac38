//! Reviews: whether a segment still holds what the master knows of it.
//!
//! A restarted node has the memory of the process before it, and may hold fewer entries than that: half-written ones are
//! gone, and those that found no room in the rows that outlive a process. The earlier process may also have dropped entries
//! without telling this leader. So the leader asks for the inventory, as a new leader does, and compares it with what it
//! knows. It does the same when a node begins its inventory anew, since the node may have dropped some of what it told.
//!
//! Entries stay readable during a review, since nodes refuse to read what they do not hold. An entry that the inventory does
//! not name is lost; one that it names and the leader does not know gets a tombstone. When a put or a copy ends, only its
//! named ranges count, since the earlier process may have written the others. Nothing is granted on the segment meanwhile.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{EntryState, InventoryEntry};

use crate::Meta;
use crate::objects::{ObjectState, Range};
use crate::segments::{Closed, ReportProgress};

/// Ranges that are looked at between two requests.
const RANGES_PER_TURN: usize = 4_096;

impl Meta {
    /// The memory of a segment has passed to another process, which is to tell what it has. One that did not come to the end of
    /// its inventory begins that anew.
    pub(crate) fn begin_review(&mut self, slot: u32) {
        if is_broken(Rule::RestartedNodesAreReviewed) {
            return;
        }
        let segment = &self.segments[slot];
        let all =
            ReportProgress { known_to: segment.allocator.capacity(), ..ReportProgress::default() };
        // If the segment was still reporting, only what it has reported so far is compared.
        self.compare(slot, segment.recovering.unwrap_or(all));
    }

    /// An inventory begins, for the first time or not: what is known by now, if anything is, is compared with it.
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

    /// Compares an entry that is named with what is known.
    pub(super) fn review_entry(&mut self, slot: u32, entry: &InventoryEntry<'_>) {
        if entry.state == EntryState::Writing {
            // Whoever writes it ends it, or gives it up, as always.
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

    /// The range that the master knows at the same place, with the same key and version, if there is one.
    fn find_named(&self, slot: u32, entry: &InventoryEntry<'_>) -> Option<u32> {
        let is_same = |object: &u32| {
            let record = &self.objects[*object];
            record.version == entry.version && *record.key == *entry.key
        };
        let holder = self.find(entry.key);
        let copy = holder.and_then(|object| self.copy_of(object));
        let pieces = self.recovery.waiting.get(&entry.version).map(|pieces| pieces.object);
        let beside = self.find_beside(entry.key, entry.version);
        let leased = self.tombstones.leased().of_version(entry.version);
        let known = [holder, copy, beside, leased, pieces].into_iter().flatten().filter(is_same);
        let is_there = |range: &Range| {
            range.segment == slot && range.len == entry.len && self.offset_of(range) == entry.offset
        };
        let mut ranges = known.flat_map(|object| self.ranges_of(object));
        ranges.find(|(_, range)| is_there(range)).map(|(id, _)| id)
    }

    /// All that lies on a segment under review was named: what was not is looked for, a bounded step at a time.
    pub(super) fn end_naming(&mut self, slot: u32) {
        if let Some(review) = self.reviews.by_slot.get_mut(&slot) {
            review.next = Some(0);
        }
    }

    /// A bounded step of the review whose turn it is.
    pub(crate) fn advance_reviews(&mut self) {
        let mut named =
            self.reviews.by_slot.iter().filter_map(|(&slot, it)| Some((slot, it.next?)));
        let Some((slot, from)) = named.next() else { return };
        let end = self.segments[slot].owners.len();
        let last = end.min(from + RANGES_PER_TURN);
        for number in from..last {
            self.review_range(slot, number);
        }
        if last == end {
            return self.end_review(slot);
        }
        let review = self.reviews.by_slot.get_mut(&slot).expect("it has not ended");
        review.next = Some(last);
    }

    /// Looks at the range that has this number on its segment, if there is one.
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
            ObjectState::Complete | ObjectState::Tombstone => self.lose_replica(object, replica),
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

    /// The replicas of a put or a copy, of which nodes that were started again meanwhile hold nothing that counts, as bits.
    pub(crate) fn missed_replicas(&self, object: u32) -> u32 {
        if self.reviews.by_slot.is_empty() && self.reviews.missed.is_empty() {
            return 0;
        }
        let missed = self.ranges_of(object).filter(|(id, range)| self.reviews.misses(*id, range));
        missed.fold(0, |set, (_, range)| set | 1 << range.replica)
    }
}
