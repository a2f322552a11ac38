use mooncake_types::{Epoch, SegmentId, Version};

use super::header::{EPOCH_WORD, FLOOR_WORD, PROVIDED_WORD, SEGMENT_WORD};
use super::latest::Latest;
use super::rows::{RowId, Rows, word_of};
use super::words::{MappedWords, WordMemory};

const SEGMENT: Latest = Latest::at(SEGMENT_WORD);
const FLOOR: Latest = Latest::at(FLOOR_WORD);

/// The record of a segment, beside its bytes: its id, the epoch that its node obeys, and rows of bytes that describe
/// its contents.
///
/// A change is complete when its call returns. If the process dies before, the change is there as a whole or not at
/// all. Only one thread at a time may make changes.
#[derive(Debug)]
pub struct Record<W = MappedWords> {
    words: W,
    rows: Rows,
}

impl<W: WordMemory> Record<W> {
    /// A record without rows. The words must be zero, from the header's changing ones on.
    pub fn empty(words: W, segment: SegmentId) -> Self {
        let rows = Rows::empty(capacity_of(&words), PROVIDED_WORD);
        let record = Self { words, rows };
        record.rename(segment);
        record
    }

    /// Recovers the record of an earlier process, and passes its rows to `found`, in no particular order.
    ///
    /// # Errors
    /// The words are damaged, which means that another program changed them. Or the error of `found`.
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

    /// The segment's id.
    #[must_use]
    pub fn segment(&self) -> SegmentId {
        let (low, high) = SEGMENT.get(&self.words).unwrap_or_default();
        SegmentId(u128::from(low) | u128::from(high) << 64)
    }

    /// Gives the segment a new id.
    pub fn rename(&self, SegmentId(id): SegmentId) {
        SEGMENT.set(&self.words, (id as u64, (id >> 64) as u64));
    }

    /// The highest noted epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.words.load(EPOCH_WORD))
    }

    /// Notes an epoch, if it is higher than the last. The caller's later stores come after it.
    pub fn raise_epoch(&self, epoch: Epoch) {
        if epoch > self.epoch() {
            self.words.store(EPOCH_WORD, epoch.0);
            self.words.barrier();
        }
    }

    /// The highest noted grant, if any.
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

    /// Adds a row of at most [`super::MAX_ROW_BYTES`]. `None` if there is no space for it.
    pub fn put(&mut self, row: &[u8]) -> Option<RowId> {
        self.rows.put(&self.words, row)
    }

    /// Removes a row.
    pub fn withdraw(&mut self, row: RowId) {
        self.rows.withdraw(&self.words, row);
    }

    /// A barrier between all changes so far and the caller's later stores to any other memory.
    pub fn barrier(&self) {
        self.words.barrier();
    }

    /// The words that hold the record.
    pub const fn words(&self) -> &W {
        &self.words
    }

    /// Releases the words.
    pub(super) fn into_words(self) -> W {
        self.words
    }
}

/// How many slots the words have space for.
fn capacity_of(words: &impl WordMemory) -> usize {
    let slots = words.len_words().saturating_sub(word_of(0)) / (word_of(1) - word_of(0));
    slots.min(u32::MAX as usize)
}
