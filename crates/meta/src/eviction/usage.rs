//! What is known of the use of objects: the time by which eviction goes, what was learned of classes, and how often objects
//! had been used that were evicted.

use super::ghosts::Ghosts;
use super::reuse::Reuse;
use crate::EvictionPolicy;
use crate::objects::{Class, Stamp};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Usage {
    /// Uses of all objects together.
    uses: u64,
    reuse: Reuse,
    ghosts: Ghosts,
    policy: EvictionPolicy,
}

impl Usage {
    pub(crate) fn new(policy: EvictionPolicy) -> Self {
        Self { uses: 0, reuse: Reuse::new(), ghosts: Ghosts::new(), policy }
    }

    /// Now.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::at(self.uses)
    }

    /// An object of a pool of `objects` was used, or became readable: time goes on, and if its key is one of the sample,
    /// something is learned. `hash` says the hash of its key.
    pub(crate) fn note_use(&mut self, class: Class, objects: usize, hash: impl FnOnce() -> u64) {
        self.uses += 1;
        if self.reuse.samples(class) {
            self.reuse.note_use(hash(), class, self.uses, objects);
        }
    }

    /// An object was evicted from a pool of `objects`.
    pub(super) fn note_evicted(&mut self, hash: u64, uses: u8, objects: usize) {
        self.ghosts.note(hash, uses, objects);
    }

    /// How often an object had been used if it was evicted not long ago. That is forgotten then.
    pub(crate) fn recall(&mut self, hash: u64) -> Option<u8> {
        self.ghosts.take(hash)
    }

    /// What an object of this class is worth that was used then last, and its age in uses.
    pub(super) fn worth(&self, class: Class, stamp: Stamp) -> (f32, u64) {
        let age = stamp.age(self.uses);
        if self.policy == EvictionPolicy::Lru {
            return (0.0, age);
        }
        (self.reuse.worth(class, age), age)
    }
}
