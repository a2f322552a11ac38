//! The index of the cache: a table of slots that readers search without a lock.
//!
//! A slot is a sequence lock, like those of a node's table ([`mooncake_memory::SlotTable`]). A reader reads the slot,
//! then the bytes, then the count again. If the count is unchanged, the bytes are those that the slot describes. Only
//! the process that holds the lock changes slots.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use mooncake_memory::Region;
use mooncake_types::RangeRead;

use super::layout::{Layout, WAYS, slot};

/// Identifies the bytes of a range. Segments have random ids, and a version of a range never changes, so bytes that
/// were right once stay right. Whether the node still holds the version is another question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity([u64; 8]);

impl Identity {
    pub(super) fn of(range: &RangeRead) -> Self {
        let RangeRead { segment, offset, version, object_offset, from, len, .. } = *range;
        let [high, low] = [(segment.0 >> 64) as u64, segment.0 as u64];
        let (epoch, counter) = (version.epoch.0, version.counter);
        Self([high, low, offset, epoch, counter, object_offset, from, len])
    }

    pub(super) fn len(&self) -> u64 {
        self.0[7]
    }

    /// Never zero.
    pub(super) fn hash(&self) -> u64 {
        self.0.iter().fold(0, |hash, word| mix(hash ^ word)).max(1)
    }
}

/// Spreads the bits of a number.
pub(super) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A slot as it was at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) slot: usize,
    count: u64,
    /// Its first block, as a link.
    pub(super) first: u64,
}

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct Index<'m> {
    pub(super) region: &'m Region,
    pub(super) layout: Layout,
}

impl Index<'_> {
    pub(super) fn word(&self, slot: usize, word: usize) -> &AtomicU64 {
        self.region.word(self.layout.slot_word(slot, word))
    }

    fn tag(&self, slot: usize) -> &AtomicU64 {
        self.region.word(self.layout.tag(slot))
    }

    /// The slots that an entry of this hash may take.
    fn places(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let sets = self.layout.sets;
        let set = |hash: u64| (hash & (sets - 1)) as usize * WAYS;
        let (first, second) = (set(hash), set(hash.rotate_left(24)));
        let further = if first == second { 0 } else { WAYS };
        (first..first + WAYS).chain(second..second + further)
    }

    pub(super) fn find(&self, identity: &Identity) -> Option<Seen> {
        let hash = identity.hash();
        let is_it = |slot: &usize| self.tag(*slot).load(Ordering::Relaxed) == hash;
        self.places(hash).filter(is_it).find_map(|slot| {
            let count = self.word(slot, slot::COUNT).load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            let first = self.word(slot, slot::FIRST).load(Ordering::Relaxed);
            let seen = Seen { slot, count, first };
            let is_whole = count.is_multiple_of(2) && self.identity(slot) == *identity;
            (is_whole && self.still_holds(&seen)).then_some(seen)
        })
    }

    /// Whether the slot is unchanged since it was seen. Asked after the bytes were copied.
    pub(super) fn still_holds(&self, seen: &Seen) -> bool {
        // Orders all earlier reads before the next one.
        fence(Ordering::Acquire);
        self.word(seen.slot, slot::COUNT).load(Ordering::Relaxed) == seen.count
    }

    /// Until when the node of an entry promised to hold it, see [`slot::PROMISED`]. Asked before
    /// [`Index::still_holds`].
    pub(super) fn promised_ns(&self, seen: &Seen) -> u64 {
        self.word(seen.slot, slot::PROMISED).load(Ordering::Relaxed)
    }

    /// Notes that a node promised to hold an entry until then. The caller holds the lock.
    pub(super) fn promise(&self, identity: &Identity, until_ns: u64) {
        if let Some(seen) = self.find(identity) {
            self.word(seen.slot, slot::PROMISED).fetch_max(until_ns, Ordering::Relaxed);
        }
    }

    pub(super) fn note_use(&self, seen: &Seen) {
        let used = self.word(seen.slot, slot::USED);
        if used.load(Ordering::Relaxed) == 0 {
            used.store(1, Ordering::Relaxed);
        }
    }

    pub(super) fn identity(&self, slot: usize) -> Identity {
        let word = |word| self.word(slot, slot::IDENTITY + word).load(Ordering::Relaxed);
        Identity(std::array::from_fn(word))
    }

    pub(super) fn is_free(&self, slot: usize) -> bool {
        self.word(slot, slot::LEN).load(Ordering::Relaxed) == 0
    }

    /// A slot that the entry may take.
    pub(super) fn free_slot(&self, identity: &Identity) -> Option<usize> {
        self.places(identity.hash()).find(|&slot| self.is_free(slot))
    }

    /// Puts an entry into a free slot, or empties a slot. The caller holds the lock.
    pub(super) fn set(&self, slot: usize, entry: Option<(&Identity, u64)>) {
        let (identity, first) = entry.map_or((Identity([0; 8]), 0), |(it, first)| (*it, first));
        let count = self.word(slot, slot::COUNT);
        // A process that died in the middle of a change left it odd.
        let odd = count.load(Ordering::Relaxed) | 1;
        count.store(odd, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let tag = if identity.len() > 0 { identity.hash() } else { 0 };
        self.tag(slot).store(tag, Ordering::Relaxed);
        for (word, value) in identity.0.into_iter().enumerate() {
            self.word(slot, slot::IDENTITY + word).store(value, Ordering::Relaxed);
        }
        self.word(slot, slot::FIRST).store(first, Ordering::Relaxed);
        self.word(slot, slot::USED).store(0, Ordering::Relaxed);
        self.word(slot, slot::PROMISED).store(0, Ordering::Relaxed);
        count.store(odd.wrapping_add(1), Ordering::Release);
        // Orders later changes of the blocks after all of this, for every process.
        fence(Ordering::SeqCst);
    }
}
