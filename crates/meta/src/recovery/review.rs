//! Reviews: whether what is known to lie on a segment still does.
//!
//! A node that was started again has the memory of the process before, and may have less in it: what was being written is
//! gone, and so is what found no room in the record that outlives a process; and what that process had dropped for an
//! earlier leader it may not have told. So a leader that stays asks for the inventory as one that is new does, and compares.
//! The same is done when a node begins its inventory anew: of what it has told before some may have been dropped.
//!
//! What is named is as readable as it was all the while: nodes refuse to read what they do not hold. What is not named
//! is lost; what is named and not known is to be dropped. Of a put or a copy that has not ended only what is named counts
//! at its end: nobody knows under which process it was written. Nothing is granted on the segment meanwhile.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{EntryState, InventoryEntry};

use crate::Meta;
use crate::objects::{ObjectState, Range};
use crate::segments::{Closed, Progress};

/// Ranges that are looked at between two requests.
const RANGES_PER_TURN: usize = 4_096;

/// The segments that are under review, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    by_slot: BTreeMap<u32, Review>,
    /// Ranges of puts and copies that had not ended and were not named.
    missed: HashSet<u32, FixedState>,
}

#[derive(Debug)]
struct Review {
    /// What starts before this is compared.
    known_to: u64,
    /// The ranges that were named.
    named: HashSet<u32, FixedState>,
    /// Once all that there is was named: the range of the segment that is looked at next, by its number.
    next: Option<usize>,
}

impl Reviews {
    fn begin(&mut self, slot: u32, known_to: u64) {
        let review = Review { known_to, named: HashSet::default(), next: None };
        self.by_slot.insert(slot, review);
    }

    /// Whether ranges wait to be looked at.
    pub(crate) fn has_work(&self) -> bool {
        self.by_slot.values().any(|review| review.next.is_some())
    }

    /// The segment is gone.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.by_slot.remove(&slot);
    }

    /// The range is free.
    pub(crate) fn forget_range(&mut self, id: u32) {
        self.missed.remove(&id);
    }

    /// Whether a put or copy that ends now must do without a range of it.
    fn misses(&self, id: u32, range: &Range) -> bool {
        match self.by_slot.get(&range.segment) {
            Some(review) => !review.named.contains(&id),
            None => self.missed.contains(&id),
        }
    }

    /// The slots under review.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.by_slot.keys().copied()
    }

    /// The ranges that were missed.
    pub(crate) fn missed(&self) -> impl Iterator<Item = u32> {
        self.missed.iter().copied()
    }
}

impl Meta {
    /// The memory of a segment has passed to another process, which is to tell what it has. One that did not come to the end of
    /// its inventory begins that anew.
    pub(crate) fn begin_review(&mut self, slot: u32) {
        if is_broken(Rule::RestartedNodesAreReviewed) {
            return;
        }
        let segment = &self.segments[slot];
        let all = Progress { known_to: segment.allocator.capacity(), ..Progress::default() };
        // Of one that was telling already no more is known than it has told.
        self.compare(slot, segment.recovering.unwrap_or(all));
    }

    /// An inventory begins, for the first time or not: what is known by now, if anything is, is compared with it.
    pub(crate) fn compare(&mut self, slot: u32, progress: Progress) {
        let known_to = progress.known_to.max(progress.end);
        let segment = &mut self.segments[slot];
        segment.recovering = Some(Progress { known_to, ..Progress::default() });
        self.segments.set(slot, Closed::Reviewed, known_to > 0);
        if known_to == 0 {
            return self.reviews.forget(slot);
        }
        self.reviews.begin(slot, known_to);
    }

    /// Compares an entry that is named with what is known.
    pub(crate) fn review_entry(&mut self, slot: u32, entry: &InventoryEntry<'_>) {
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

    /// The range of an entry, if anything is known of it that may be read, or once its put has ended.
    fn find_named(&self, slot: u32, entry: &InventoryEntry<'_>) -> Option<u32> {
        let is_same = |object: &u32| {
            let record = &self.objects[*object];
            record.version == entry.version && *record.key == *entry.key
        };
        let holder = self.find(entry.key);
        let copy = holder.and_then(|object| self.copy_of(object));
        let pieces = self.recovery.pieces.get(&entry.version).map(|pieces| pieces.object);
        let beside = self.find_beside(entry.key, entry.version);
        let leaving = self.leaving.of_version(entry.version);
        let known = [holder, copy, beside, leaving, pieces].into_iter().flatten().filter(is_same);
        let is_there = |range: &Range| {
            let offset = || self.segments[slot].allocator.range(range.handle).offset;
            range.segment == slot && range.len == entry.len && offset() == entry.offset
        };
        let mut ranges = known.flat_map(|object| self.ranges_of(object));
        ranges.find(|(_, range)| is_there(range)).map(|(id, _)| id)
    }

    /// All that lies on a segment under review was named: what was not is looked for, a bounded step at a time.
    pub(crate) fn end_naming(&mut self, slot: u32) {
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
        let Some(&Range { object, replica, handle, .. }) = self.ranges.get(id).filter(is_there)
        else {
            return;
        };
        let review = &self.reviews.by_slot[&slot];
        let offset = self.segments[slot].allocator.range(handle).offset;
        if offset >= review.known_to || review.named.contains(&id) {
            return;
        }
        match self.objects[object].state {
            ObjectState::Complete | ObjectState::Replaced => self.lose_replica(object, replica),
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
        let ranges = self.ranges_of(object).filter(|(id, range)| self.reviews.misses(*id, range));
        ranges.fold(0, |set, (_, range)| set | 1 << range.replica)
    }
}
