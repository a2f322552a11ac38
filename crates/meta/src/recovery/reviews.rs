//! The state of all reviews.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use crate::objects::Range;

/// The segments under review, and the ranges that reviews found missing.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    pub(super) by_slot: BTreeMap<u32, Review>,
    /// Ranges of running puts and copies that the inventory did not name, or that nodes lost.
    pub(super) missed: HashSet<u32, FixedState>,
}

#[derive(Debug)]
pub(super) struct Review {
    /// Ranges that start before this offset are compared.
    pub(super) known_to: u64,
    /// The ranges that the inventory named.
    pub(super) named: HashSet<u32, FixedState>,
    /// The number of the range to check next on this segment. `None` until the inventory is complete.
    pub(super) next: Option<usize>,
}

impl Reviews {
    pub(super) fn begin(&mut self, slot: u32, known_to: u64) {
        let review = Review { known_to, named: HashSet::default(), next: None };
        self.by_slot.insert(slot, review);
    }

    /// Whether ranges wait to be checked.
    pub(crate) fn has_work(&self) -> bool {
        self.by_slot.values().any(|review| review.next.is_some())
    }

    /// Forgets the review of a segment.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.by_slot.remove(&slot);
    }

    /// The bytes of a range of a running put or copy are lost.
    pub(crate) fn lose(&mut self, slot: u32, id: u32) {
        if let Some(review) = self.by_slot.get_mut(&slot) {
            review.named.remove(&id);
        }
        self.missed.insert(id);
    }

    /// Forgets a range that is free.
    pub(crate) fn forget_range(&mut self, id: u32) {
        if !self.missed.is_empty() {
            self.missed.remove(&id);
        }
    }

    /// Whether a put or copy that ends now loses this range.
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

    /// The ranges that reviews found missing, or that nodes lost.
    pub(super) fn missed(&self) -> impl Iterator<Item = u32> {
        self.missed.iter().copied()
    }
}
