//! The segments that are under review.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use crate::objects::Range;

/// The segments that are under review, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    pub(super) by_slot: BTreeMap<u32, Review>,
    /// Ranges of puts and copies that had not ended and were not named.
    pub(super) missed: HashSet<u32, FixedState>,
}

#[derive(Debug)]
pub(super) struct Review {
    /// What starts before this is compared.
    pub(super) known_to: u64,
    /// The ranges that were named.
    pub(super) named: HashSet<u32, FixedState>,
    /// Once all that there is was named: the range of the segment that is looked at next, by its number.
    pub(super) next: Option<usize>,
}

impl Reviews {
    pub(super) fn begin(&mut self, slot: u32, known_to: u64) {
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
        if !self.missed.is_empty() {
            self.missed.remove(&id);
        }
    }

    /// Whether a put or copy that ends now must do without a range of it.
    pub(super) fn misses(&self, id: u32, range: &Range) -> bool {
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
    pub(super) fn missed(&self) -> impl Iterator<Item = u32> {
        self.missed.iter().copied()
    }
}
