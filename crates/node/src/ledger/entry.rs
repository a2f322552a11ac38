use std::ops::Range;
use std::sync::Arc;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, RangeWrite, Version, limits};

use super::coverage::Coverage;
use super::learned_checksums::{LearnedChecksums, whole_chunks};

/// What a segment's memory holds, or held, in one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Length of the range in bytes.
    pub len: u64,
    /// The object's key; empty if the entry is only a fence.
    pub key: Box<str>,
    /// The version of the object. Readers must name it.
    pub version: Version,
    /// The grant that took the range. Older grants are refused while this entry exists.
    pub grant: Version,
    /// Length of the whole object in bytes.
    pub object_len: u64,
    /// Offset of the range in the object, in bytes.
    pub object_offset: u64,
    /// Progress of the write.
    pub state: EntryState,
    /// CRC32C of each chunk of the range. The writer's transport computes them for an entry that is written
    /// whole. For other entries readers compute them, and they appear here once all are known.
    pub checksums: Option<Arc<[u32]>>,
    /// Attributes that the master gave with the grant, for a later leader.
    pub attributes: Box<[u8]>,
    /// Progress of each part, while the entry is written in parts.
    parts: Option<Box<Parts>>,
    /// Checksums that readers have computed, until [`Entry::checksums`] has all.
    learned: Option<Box<LearnedChecksums>>,
}

/// The life of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// A writer has begun and may change its bytes, or some parts are in place and others are missing.
    Writing,
    /// All bytes are in place.
    Complete,
    /// The writer gave up, the entry was dropped, or a newer entry took a part of the range. The bytes are
    /// meaningless; the grant still fences older writers.
    Abandoned,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Parts {
    covered: Coverage,
    /// Number of writers at work. Their parts are disjoint, and not covered.
    open: usize,
}

/// Whether a write covers its whole entry.
pub(super) fn is_whole(range: &RangeWrite<'_>) -> bool {
    (range.from, range.len) == (0, range.entry_len)
}

impl Entry {
    /// The entry of a range when its first writer begins.
    pub(super) fn writing(range: &RangeWrite<'_>) -> Self {
        let parts = || Box::new(Parts { covered: Coverage::default(), open: 1 });
        Self {
            len: range.entry_len,
            key: range.key.into(),
            version: range.version,
            grant: range.grant,
            object_len: range.object_len,
            object_offset: range.object_offset,
            state: EntryState::Writing,
            checksums: None,
            attributes: range.attributes.into(),
            parts: (!is_whole(range)).then(parts),
            learned: None,
        }
    }

    /// An entry that an earlier process completed.
    pub(crate) fn restored(range: &RangeWrite<'_>, checksums: Option<Arc<[u32]>>) -> Self {
        Self { state: EntryState::Complete, checksums, parts: None, ..Self::writing(range) }
    }

    /// A fence of `len` bytes against older writers, where this entry, or a rest of it, lay.
    pub(super) fn fence(&self, len: u64) -> Self {
        Self { len, grant: self.grant, ..Self::one_byte_fence(self.version) }
    }

    /// A fence of one byte against the writer of an unwanted version, and against all older writers.
    pub(super) fn one_byte_fence(version: Version) -> Self {
        Self {
            len: 1,
            key: "".into(),
            version,
            grant: version,
            object_len: 0,
            object_offset: 0,
            state: EntryState::Abandoned,
            checksums: None,
            attributes: Box::default(),
            parts: None,
            learned: None,
        }
    }

    /// This fence, raised to `grant`.
    pub(super) fn up_to(self, grant: Version) -> Self {
        Self { grant: self.grant.max(grant), ..self }
    }

    /// Whether it is more than a fence: its bytes are an object's, or are being written.
    pub(super) fn is_live(&self) -> bool {
        self.state != EntryState::Abandoned
    }

    /// Whether it is a fence, and not what is left of a write.
    pub(super) fn is_fence(&self) -> bool {
        !self.is_live() && self.key.is_empty()
    }

    /// Whether it is complete and has this version.
    pub(super) fn holds(&self, version: Version) -> bool {
        self.state == EntryState::Complete && self.version == version
    }

    /// Whether a write of a part continues this entry.
    pub(super) fn is_joined_by(&self, offset: u64, range: &RangeWrite<'_>) -> bool {
        self.parts.is_some() && self.is_written_by(offset, range)
    }

    /// Why a write may not replace this entry, which it overlaps. It may if its grant is newer, or if it
    /// repeats the write of this entry and the first writers are known to have stopped.
    pub(super) fn refusal(&self, offset: u64, range: &RangeWrite<'_>) -> Option<ErrorCode> {
        if self.grant < range.grant || is_broken(Rule::OlderGrantsAreRefused) {
            return None;
        }
        if !self.is_written_by(offset, range) {
            return Some(ErrorCode::InvalidVersion);
        }
        match (self.state, &self.parts) {
            (EntryState::Abandoned, _) => None,
            (EntryState::Writing, Some(parts)) if parts.open == 0 => None,
            (EntryState::Writing, Some(_)) => Some(ErrorCode::ObjectReplicaBusy),
            (EntryState::Writing, None) if !is_whole(range) => Some(ErrorCode::ObjectReplicaBusy),
            (EntryState::Complete, _) if !is_whole(range) => Some(ErrorCode::InvalidWrite),
            _ => Some(ErrorCode::InvalidVersion),
        }
    }

    fn is_written_by(&self, offset: u64, range: &RangeWrite<'_>) -> bool {
        self.grant == range.grant
            && self.version == range.version
            && (offset, self.len, &*self.key) == (range.offset, range.entry_len, range.key)
            && (self.object_len, self.object_offset) == (range.object_len, range.object_offset)
    }

    /// Begins a further part for another writer. `part` counts from the start of the entry. Its bytes count as
    /// missing from here on. No other writer may be at work in it.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidWrite`] if the entry would fall into more than [`limits::MAX_ENTRY_PARTS`] pieces.
    pub(super) fn begin_part(&mut self, part: &Range<u64>) -> Result<(), ErrorCode> {
        let parts = self.parts.as_mut().expect("it is joined only while it is written in parts");
        if parts.covered.most_pieces(part) + parts.open > limits::MAX_ENTRY_PARTS {
            return Err(ErrorCode::InvalidWrite);
        }
        parts.covered.remove(part);
        parts.open += 1;
        Ok(())
    }

    /// The checksums of `len` bytes from `from` on, within the entry. `None` unless the bytes are whole chunks
    /// with known checksums.
    pub(super) fn checksums_of(&self, from: u64, len: u64) -> Option<Arc<[u32]>> {
        let Some(known) = &self.checksums else {
            let learned = self.learned.as_ref()?;
            return learned.find(&whole_chunks(from, len, self.len)?);
        };
        if len == self.len {
            return Some(Arc::clone(known));
        }
        let chunks = whole_chunks(from, len, self.len)?;
        known.get(chunks.start as usize..chunks.end as usize).map(Arc::from)
    }

    /// Keeps the checksums that a reader computed for `len` bytes from `from` on while the entry was complete.
    /// Ignores them if the bytes are not whole chunks.
    pub(super) fn learn_checksums(&mut self, from: u64, len: u64, checksums: &[u32]) {
        let chunks = whole_chunks(from, len, self.len);
        let chunks = chunks.filter(|chunks| chunks.end - chunks.start == checksums.len() as u64);
        let Some(chunks) = chunks.filter(|_| self.checksums.is_none()) else { return };
        if len == self.len {
            self.checksums = Some(Arc::from(checksums));
        } else {
            let learned =
                self.learned.get_or_insert_with(|| Box::new(LearnedChecksums::of(self.len)));
            learned.learn(chunks, checksums);
            self.checksums = learned.all();
        }
        if self.checksums.is_some() {
            self.learned = None;
        }
    }

    /// Completes a part, all of whose bytes are in place. `part` counts from the start of the entry.
    pub(super) fn complete(&mut self, part: Range<u64>, checksums: Vec<u32>) {
        self.check_writing();
        if let Some(parts) = &mut self.parts {
            parts.open -= 1;
            parts.covered.insert(part);
            if !parts.covered.is_all_of(self.len) && !is_broken(Rule::AllPartsAreThere) {
                return;
            }
            assert_eq!(parts.open, 0, "bytes that are in place have no writer");
            self.parts = None;
        } else {
            let chunks = self.len.div_ceil(limits::CHUNK_BYTES);
            self.checksums = (checksums.len() as u64 == chunks).then(|| Arc::from(checksums));
        }
        self.state = EntryState::Complete;
    }

    /// Whether all bytes are in place once those of `part` are. It counts from the start of the entry.
    pub(super) fn is_finished_by(&self, part: Range<u64>) -> bool {
        self.parts.as_ref().is_none_or(|parts| {
            let mut covered = parts.covered.clone();
            covered.insert(part);
            covered.is_all_of(self.len) || is_broken(Rule::AllPartsAreThere)
        })
    }

    /// Abandons a part: its bytes are missing, and other parts stay as they are.
    pub(super) fn abandon(&mut self) {
        self.check_writing();
        if let Some(parts) = &mut self.parts {
            parts.open -= 1;
            if parts.open > 0 || !parts.covered.is_empty() {
                return;
            }
            self.parts = None;
        }
        self.state = EntryState::Abandoned;
    }

    fn check_writing(&self) {
        assert_eq!(self.state, EntryState::Writing, "an entry that has a writer is being written");
    }
}
