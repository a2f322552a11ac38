//! What is known of the use of objects: the time by which eviction goes, what was learned of classes, and how often
//! evicted objects had been used. The pool has one, and each tenant with a quota one of its own.

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
    /// Whether the uses of evicted keys are remembered where no policy of second chances decides that.
    learns: bool,
    /// The policy by which objects keep their places when they are used, if there is one. It decides what happens to
    /// the range that would be evicted next.
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
        // While nothing is learned, all objects are worth the same, and the least recently used goes first.
        let reuse = if learns { Reuse::new() } else { Reuse::idle() };
        Self { uses: 0, reuse, ghosts: Ghosts::new(), learns, second_chance }
    }

    /// The present time, in uses.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::at(self.uses)
    }

    /// Counts a use of an object in a pool of `objects`, or the moment at which it became readable. Learns from it if
    /// the key is in the sample. `hash` gives the hash of the key.
    pub(crate) fn note_use(&mut self, class: Class, objects: usize, hash: impl FnOnce() -> u64) {
        self.uses += 1;
        if self.reuse.samples(class) {
            self.reuse.note_use(hash(), class, self.uses, objects);
        }
    }

    /// Notes that an object was evicted from a pool of `objects`.
    pub(crate) fn note_evicted(&mut self, hash: u64, class: Class, objects: usize) {
        let remembers = |policy: &dyn SecondChance| policy.remembers(class.side());
        if self.second_chance.map_or(self.learns, remembers) {
            self.ghosts.note(hash, class.uses(), objects);
        }
    }

    /// Takes the note of a key: how often its object had been used, if it was evicted recently.
    pub(crate) fn recall(&mut self, hash: u64) -> Option<u8> {
        self.ghosts.take(hash)
    }

    /// The worth of an object of this class that was last used at `stamp`, and its age in uses. `hand` gives the side
    /// on which its segment evicts; it matters only where objects keep their places.
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

    /// The policy by which objects keep their places when they are used, if there is one.
    pub(crate) fn second_chance(&self) -> Option<&'static dyn SecondChance> {
        self.second_chance
    }

    /// Whether objects keep their places when they are used.
    pub(crate) fn keeps_places(&self) -> bool {
        self.second_chance.is_some()
    }

    /// The place of the queue of a side among the queues of a segment.
    pub(super) fn place_of_side(side: Side) -> usize {
        Class::on_side(side, 0).index()
    }
}
