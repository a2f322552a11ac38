use super::words::WordMemory;

/// A value of two words that changes atomically. It has two copies, and a change overwrites the older one. A copy is a
/// number and two words. The number is zero while the copy changes, and the copy with the higher number is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latest {
    first_word: usize,
}

/// Words that both copies together take.
pub(super) const LATEST_WORDS: usize = 6;

impl Latest {
    pub(super) const fn at(first_word: usize) -> Self {
        Self { first_word }
    }

    /// The value, if it was ever set.
    pub(super) fn get(self, words: &impl WordMemory) -> Option<(u64, u64)> {
        let (newest, number) = self.newest(words);
        (number > 0).then(|| (words.load(newest + 1), words.load(newest + 2)))
    }

    pub(super) fn set(self, words: &impl WordMemory, value: (u64, u64)) {
        let (newest, number) = self.newest(words);
        let older = if newest == self.first_word { newest + 3 } else { self.first_word };
        words.store(older, 0);
        words.store(older + 1, value.0);
        words.store(older + 2, value.1);
        words.store(older, number + 1);
    }

    /// Where the valid copy starts, and its number.
    fn newest(self, words: &impl WordMemory) -> (usize, u64) {
        let copies = [self.first_word, self.first_word + 3];
        let [one, other] = copies.map(|copy| words.load(copy));
        if one >= other { (copies[0], one) } else { (copies[1], other) }
    }
}
