//! How the memory of the hot cache is laid out, which all processes that share it must agree on.

/// The unit of room: an entry lies in as many of these as it needs, wherever they are.
pub(super) const BLOCK_BYTES: u64 = 16 << 10;

/// Bytes before everything else, of which the first words are those of [`header`].
const HEADER_BYTES: u64 = 4096;

/// Slots of one set. An entry may lie in either of two sets.
pub(super) const WAYS: usize = 8;

/// A slot takes two lines of the processor's cache.
const SLOT_WORDS: usize = 16;

/// Counters of the sketch in a word.
const COUNTERS_OF_WORD: u64 = 8;

/// Fewest words of the sketch.
const LEAST_SKETCH_WORDS: u64 = 512;

/// Smallest cache, in bytes.
pub(super) const LEAST_BYTES: u64 = 1 << 20;

/// Largest cache, in bytes.
pub(super) const MOST_BYTES: u64 = 1 << 42;

/// Words of the header. A link to a slot or block is its number plus one; zero leads nowhere.
pub(super) mod header {
    /// Holds [`MAGIC`](super::MAGIC) before another process finds the memory. All other words are zero in an empty
    /// cache.
    pub(in crate::hot) const MAGIC: usize = 0;
    /// Not zero while a process changes what must stay consistent.
    pub(in crate::hot) const CHANGING: usize = 1;
    /// The newest entry, and the oldest.
    pub(in crate::hot) const NEWEST: usize = 2;
    pub(in crate::hot) const OLDEST: usize = 3;
    /// Where the clock hand continues its search for a victim.
    pub(in crate::hot) const HAND: usize = 4;
    /// How many entries there are.
    pub(in crate::hot) const ENTRIES: usize = 5;
    /// The first of the free blocks that were used before, their number, and the first block that was never used.
    pub(in crate::hot) const FREE: usize = 6;
    pub(in crate::hot) const FREE_COUNT: usize = 7;
    pub(in crate::hot) const FRESH: usize = 8;
    /// Reads that the sketch counted since it was halved.
    pub(in crate::hot) const COUNTED: usize = 9;
}

/// What [`header::MAGIC`] holds: a name, and the number of this layout.
pub(super) const MAGIC: u64 = 0x4d43_484f_5400_0002;

/// The words of a slot.
pub(super) mod slot {
    /// Odd while the others up to [`FIRST`] change.
    pub(in crate::hot) const COUNT: usize = 0;
    /// The identity of the bytes, eight words. The last one, the length, is zero in a free slot.
    pub(in crate::hot) const IDENTITY: usize = 1;
    pub(in crate::hot) const LEN: usize = 8;
    /// Its first block.
    pub(in crate::hot) const FIRST: usize = 9;
    /// Not zero if it was read since the hand passed.
    pub(in crate::hot) const USED: usize = 10;
    /// The next older and the next newer entry.
    pub(in crate::hot) const OLDER: usize = 11;
    pub(in crate::hot) const NEWER: usize = 12;
    /// Until when its node promised to hold the version, in nanoseconds since this machine was started.
    pub(in crate::hot) const PROMISED: usize = 13;
}

/// Where everything lies in a cache of some length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Sets of [`WAYS`] slots, a power of two.
    pub(super) sets: u64,
    pub(super) blocks: u64,
    /// A power of two.
    pub(super) sketch_words: u64,
}

impl Layout {
    /// The layout with the most blocks for this length; `None` if the length is out of bounds.
    pub(super) fn of(len: u64) -> Option<Self> {
        if !(LEAST_BYTES..=MOST_BYTES).contains(&len) {
            return None;
        }
        let mut layout = Self { sets: 1, blocks: 0, sketch_words: LEAST_SKETCH_WORDS };
        // Nearly all entries are longer than a block, so a slot for each block is enough.
        let least_blocks = len / (BLOCK_BYTES + 1024);
        layout.sets = (least_blocks / WAYS as u64).next_power_of_two();
        layout.sketch_words = least_blocks.next_power_of_two().max(LEAST_SKETCH_WORDS);
        let rest = len.checked_sub(layout.links_at() as u64 * 8 + BLOCK_BYTES)?;
        layout.blocks = rest / (BLOCK_BYTES + 8);
        (layout.blocks > 0).then_some(layout)
    }

    pub(super) fn slots(&self) -> usize {
        self.sets as usize * WAYS
    }

    /// Counters of the sketch.
    pub(super) fn counters(&self) -> u64 {
        self.sketch_words * COUNTERS_OF_WORD
    }

    /// The word with the tag of a slot: zero, or the hash of its entry.
    pub(super) fn tag(&self, slot: usize) -> usize {
        HEADER_BYTES as usize / 8 + slot
    }

    pub(super) fn slot_word(&self, slot: usize, word: usize) -> usize {
        self.tag(self.slots()) + slot * SLOT_WORDS + word
    }

    pub(super) fn sketch_word(&self, index: u64) -> usize {
        self.slot_word(self.slots(), 0) + index as usize
    }

    fn links_at(&self) -> usize {
        self.sketch_word(self.sketch_words)
    }

    /// The word with the link from a block to the next one.
    pub(super) fn link(&self, block: u64) -> usize {
        self.links_at() + block as usize
    }

    /// Where a block starts, in bytes.
    pub(super) fn block(&self, block: u64) -> u64 {
        let first = (self.link(self.blocks) as u64 * 8).next_multiple_of(BLOCK_BYTES);
        first + block * BLOCK_BYTES
    }
}

/// How many blocks `len` bytes need.
pub(super) fn blocks_for(len: u64) -> u64 {
    len.div_ceil(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_lies_in_the_cache_and_nearly_all_of_it_is_blocks() {
        for len in
            [LEAST_BYTES, LEAST_BYTES + 1, 3 << 20, 64 << 20, (1 << 30) - 1, 100 << 30, MOST_BYTES]
        {
            let layout = Layout::of(len).unwrap();
            assert!(layout.block(layout.blocks) <= len, "{len}: {layout:?}");
            let share = (layout.blocks * BLOCK_BYTES) as f64 / len as f64;
            let least = if len < 64 << 20 { 0.8 } else { 0.97 };
            assert!(share > least, "{len}: {share}");
        }
        assert_eq!([Layout::of(0), Layout::of(LEAST_BYTES - 1), Layout::of(u64::MAX)], [None; 3]);
    }
}
