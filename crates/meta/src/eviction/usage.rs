//! What is known of the use of objects: the time by which eviction goes, what was learned of classes, and how often objects
//! had been used that were evicted.

use super::ghosts::Ghosts;
use super::reuse::Reuse;
use super::second_chance::{S3Fifo, SecondChance, Sieve};
use crate::EvictionPolicy;
use crate::objects::{Class, Side, Stamp};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Usage {
    /// Uses of all objects together.
    uses: u64,
    reuse: Reuse,
    ghosts: Ghosts,
    /// Whether the uses of evicted keys are remembered in any case.
    learns: bool,
    /// The policy by which objects keep their places when they are used, if there is one: it decides when their turn to go comes.
    second_chance: Option<&'static dyn SecondChance>,
}

impl Usage {
    pub(crate) fn new(policy: EvictionPolicy) -> Self {
        let learns = policy == EvictionPolicy::Adaptive;
        let second_chance: Option<&'static dyn SecondChance> = match policy {
            EvictionPolicy::Adaptive | EvictionPolicy::Lru => None,
            EvictionPolicy::S3Fifo => Some(&S3Fifo),
            EvictionPolicy::Sieve => Some(&Sieve),
        };
        // While nothing is learned, everything is worth the same, and what was used last goes last.
        let reuse = if learns { Reuse::new() } else { Reuse::idle() };
        Self { uses: 0, reuse, ghosts: Ghosts::new(), learns, second_chance }
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
    pub(super) fn note_evicted(&mut self, hash: u64, class: Class, objects: usize) {
        let remembers = |policy: &dyn SecondChance| policy.remembers(class.side());
        if self.second_chance.map_or(self.learns, remembers) {
            self.ghosts.note(hash, class.uses(), objects);
        }
    }

    /// How often an object had been used if it was evicted not long ago. That is forgotten then.
    pub(crate) fn recall(&mut self, hash: u64) -> Option<u8> {
        self.ghosts.take(hash)
    }

    /// What an object is worth that has this class and was last used at `stamp`, and its age in uses. `hand` gives the side from
    /// which its segment evicts, where objects keep their places.
    pub(super) fn worth(
        &self,
        class: Class,
        stamp: Stamp,
        hand: impl FnOnce() -> Side,
    ) -> (f32, u64) {
        let age = stamp.age(self.uses);
        let worth = match self.second_chance {
            None => self.reuse.worth(class, age),
            Some(_) => f32::from(u8::from(class.side() != hand())),
        };
        (worth, age)
    }

    /// What decides about objects that keep their places when they are used, if they do.
    pub(crate) fn second_chance(&self) -> Option<&'static dyn SecondChance> {
        self.second_chance
    }

    /// Whether objects keep their places when they are used.
    pub(crate) fn keeps_places(&self) -> bool {
        self.second_chance.is_some()
    }

    /// The place of a side among the queues of a segment.
    pub(super) fn place_of_side(side: Side) -> usize {
        Class::on_side(side, 0).index()
    }
}
