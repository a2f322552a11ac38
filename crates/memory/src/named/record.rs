use mooncake_types::{Epoch, SegmentId, Version};

use super::header::{EPOCH_WORD, FLOOR_WORD, PROVIDED_WORD, SEGMENT_WORD};
use super::latest::Latest;
use super::rows::{RowId, Rows, word_of};
use super::words::{MappedWords, WordMemory};

const SEGMENT: Latest = Latest::at(SEGMENT_WORD);
const FLOOR: Latest = Latest::at(FLOOR_WORD);

/// What is remembered of a segment beside its bytes: which one it is, what its node obeys, and rows of bytes that say what
/// lies in it.
///
/// Each change is there when its call returns, as a whole, and is there as a whole or not at all if the process ends
/// before. Changes come from one thread at a time.
#[derive(Debug)]
pub struct Record<W = MappedWords> {
    words: W,
    rows: Rows,
}

impl<W: WordMemory> Record<W> {
    /// A record without rows, in words that are zero from the header's changing ones on.
    pub fn empty(words: W, segment: SegmentId) -> Self {
        let rows = Rows::empty(capacity_of(&words), PROVIDED_WORD);
        let record = Self { words, rows };
        record.rename(segment);
        record
    }

    /// The record of before, whose rows are shown to `found`, in no order.
    ///
    /// # Errors
    /// What is wrong with the words, in which case something else has changed them; what `found` says.
    pub fn recover<E: From<&'static str>>(
        words: W,
        found: impl FnMut(RowId, &[u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        if SEGMENT.get(&words).is_none() {
            return Err("it does not say which segment it is".into());
        }
        let rows = Rows::recover(&words, capacity_of(&words), PROVIDED_WORD, found)?;
        Ok(Self { words, rows })
    }

    /// Which segment it is.
    #[must_use]
    pub fn segment(&self) -> SegmentId {
        let (low, high) = SEGMENT.get(&self.words).unwrap_or_default();
        SegmentId(u128::from(low) | u128::from(high) << 64)
    }

    /// It is another segment from now on.
    pub fn rename(&self, SegmentId(id): SegmentId) {
        SEGMENT.set(&self.words, (id as u64, (id >> 64) as u64));
    }

    /// The highest epoch that was noted.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.words.load(EPOCH_WORD))
    }

    /// Notes an epoch, if it is higher than the last. What the caller then does comes after that.
    pub fn raise_epoch(&self, epoch: Epoch) {
        if epoch > self.epoch() {
            self.words.store(EPOCH_WORD, epoch.0);
            self.words.barrier();
        }
    }

    /// The highest grant that was noted, if any was.
    #[must_use]
    pub fn floor(&self) -> Option<Version> {
        let (epoch, counter) = FLOOR.get(&self.words)?;
        Some(Version { epoch: Epoch(epoch), counter })
    }

    /// Notes a grant, if it is higher than the last.
    pub fn raise_floor(&self, grant: Version) {
        if Some(grant) > self.floor() {
            FLOOR.set(&self.words, (grant.epoch.0, grant.counter));
        }
    }

    /// Adds a row of at most [`super::MAX_ROW_BYTES`]. `None` if there is no room for it.
    pub fn put(&mut self, row: &[u8]) -> Option<RowId> {
        self.rows.put(&self.words, row)
    }

    /// Takes a row out.
    pub fn withdraw(&mut self, row: RowId) {
        self.rows.withdraw(&self.words, row);
    }

    /// All that was done so far comes before whatever the caller does to any other memory afterwards.
    pub fn barrier(&self) {
        self.words.barrier();
    }

    /// The words, as they are now.
    pub const fn words(&self) -> &W {
        &self.words
    }

    /// The words alone.
    pub(super) fn into_words(self) -> W {
        self.words
    }
}

/// Slots that there is room for in all.
fn capacity_of(words: &impl WordMemory) -> usize {
    let slots = words.len_words().saturating_sub(word_of(0)) / (word_of(1) - word_of(0));
    slots.min(u32::MAX as usize)
}
