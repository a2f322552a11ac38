/// The free slots of one slab, as bits. Up to 64 slots need no heap memory.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// With up to 64 slots, one bit for each slot: it is free. With more, one bit for each group of words: a slot of
    /// the group is free.
    summary: u64,
    /// With more than 64 slots, one bit for each slot: it is free.
    words: Box<[u64]>,
    count: u32,
    taken: u32,
}

impl Slots {
    /// `count` free slots; `count` must not be zero.
    pub(crate) fn new(count: u32) -> Slots {
        if count <= 64 {
            return Slots { summary: low_bits(count), words: Box::default(), count, taken: 0 };
        }
        let word = |at: u32| low_bits((count - at * 64).min(64));
        let words: Box<[u64]> = (0..count.div_ceil(64)).map(word).collect();
        let groups = words.len().div_ceil(group_len(&words));
        Slots { summary: low_bits(groups as u32), words, count, taken: 0 }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    pub(crate) fn is_full(&self) -> bool {
        self.taken == self.count
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Takes the lowest free slot.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.summary == 0 {
            return None;
        }
        let mut slot = self.summary.trailing_zeros();
        if !self.words.is_empty() {
            let first = slot as usize * group_len(&self.words);
            let word = first + self.words[first..].iter().position(|&word| word != 0)?;
            slot = word as u32 * 64 + self.words[word].trailing_zeros();
        }
        let taken = self.take_at(slot);
        debug_assert!(taken);
        Some(slot)
    }

    /// Takes this slot. False if the slab has no such slot, or the slot is taken.
    pub(crate) fn take_at(&mut self, slot: u32) -> bool {
        if !self.is_free(slot) {
            return false;
        }
        self.taken += 1;
        if self.words.is_empty() {
            self.summary &= !(1 << slot);
            return true;
        }
        let word = (slot / 64) as usize;
        self.words[word] &= !(1 << (slot % 64));
        let group = word / group_len(&self.words);
        if self.group(group).iter().all(|&word| word == 0) {
            self.summary &= !(1 << group);
        }
        true
    }

    /// Frees a taken slot.
    pub(crate) fn release(&mut self, slot: u32) {
        assert!(slot < self.count && !self.is_free(slot), "slot {slot} is not taken");
        self.taken -= 1;
        if self.words.is_empty() {
            self.summary |= 1 << slot;
            return;
        }
        let word = (slot / 64) as usize;
        self.words[word] |= 1 << (slot % 64);
        self.summary |= 1 << (word / group_len(&self.words));
    }

    pub(crate) fn is_free(&self, slot: u32) -> bool {
        let word = if self.words.is_empty() {
            self.summary
        } else {
            self.words.get((slot / 64) as usize).copied().unwrap_or(0)
        };
        slot < self.count && word >> (slot % 64) & 1 == 1
    }

    /// Whether the words, their summary and the counts agree.
    pub(crate) fn check(&self) -> bool {
        if self.words.is_empty() {
            return self.summary.count_ones() + self.taken == self.count;
        }
        let free: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        let groups = self.words.chunks(group_len(&self.words)).enumerate();
        let summary = groups
            .filter(|(_, words)| words.iter().any(|&word| word != 0))
            .fold(0, |bits, (group, _)| bits | 1 << group);
        free + self.taken == self.count && self.summary == summary
    }

    fn group(&self, group: usize) -> &[u64] {
        let len = group_len(&self.words);
        &self.words[group * len..self.words.len().min((group + 1) * len)]
    }
}

/// Number of words for which one bit of the summary stands: 16 in the longest slab with the shortest slots.
fn group_len(words: &[u64]) -> usize {
    words.len().div_ceil(64)
}

fn low_bits(count: u32) -> u64 {
    if count == 64 { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn slots_are_taken_lowest_first_and_come_back() {
        for count in [1, 2, 63, 64, 65, 4095, 4096, 4097, 65_536] {
            let mut slots = Slots::new(count);
            for expected in 0..count {
                assert_eq!(slots.take(), Some(expected), "of {count}");
            }
            assert_eq!((slots.take(), slots.is_full(), slots.check()), (None, true, true));
            for slot in [count - 1, count / 2, 0] {
                if !slots.is_free(slot) {
                    slots.release(slot);
                }
                assert_eq!((slots.take(), slots.check()), (Some(slot), true), "of {count}");
            }
            assert!(!slots.take_at(count), "there is no slot {count}");
        }
    }

    #[test]
    #[should_panic(expected = "slot 3 is not taken")]
    fn a_free_slot_cannot_be_released() {
        Slots::new(8).release(3);
    }
}
