use mooncake_types::{ClientId, limits};

use super::error::NamedSegmentError;
use super::latest::LATEST_WORDS;
use super::words::WordMemory;
use crate::{crc32c, page_bytes};

/// Bytes before the first slot.
pub(super) const HEADER_BYTES: u64 = 4096;

pub(super) const HEADER_WORDS: usize = (HEADER_BYTES / 8) as usize;

/// Version of the whole file's layout.
const LAYOUT: u64 = 1;

/// First word of a complete file.
const WHOLE: u64 = u64::from_le_bytes(*b"mooncSEG");

/// First word of a file that is still being created, and is empty.
pub(super) const BEING_MADE: u64 = u64::from_le_bytes(*b"mooncNEW");

/// Words of the fixed part: the layout's version, then the fields of [`Fixed`], then their checksum.
const FIXED_WORDS: usize = 8 + limits::MAX_NAME_BYTES.div_ceil(8);
const CHECKSUM_WORD: usize = 1 + FIXED_WORDS;

/// Positions of the words that change.
pub(super) const EPOCH_WORD: usize = 128;
pub(super) const PROVIDED_WORD: usize = 129;
pub(super) const RUN_WORD: usize = 130;
pub(super) const SEGMENT_WORD: usize = 136;
pub(super) const FLOOR_WORD: usize = SEGMENT_WORD + LATEST_WORDS;

const _: () = assert!(CHECKSUM_WORD < EPOCH_WORD && FLOOR_WORD + LATEST_WORDS <= HEADER_WORDS);

/// The fields of a file that never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fixed {
    /// Length of the segment in bytes, and its offset in the file.
    pub(super) memory_len: u64,
    pub(super) memory_offset: u64,
    /// The boot of the machine in which the file was created.
    pub(super) boot: u128,
    /// The client id of the node.
    pub(super) client: ClientId,
    pub(super) cluster_id: String,
}

impl Fixed {
    /// Length of the whole file in bytes. `None` if the fields are inconsistent.
    pub(super) fn file_len(&self) -> Option<u64> {
        let is_placed = self.memory_offset > HEADER_BYTES
            && self.memory_offset.is_multiple_of(page_bytes())
            && self.memory_len > 0;
        let end = self.memory_offset.checked_add(self.memory_len)?;
        end.checked_next_multiple_of(page_bytes()).filter(|_| is_placed)
    }

    /// Writes the fixed part into words that are zero except for the first. The file is complete only after [`seal`].
    pub(super) fn write(&self, words: &impl WordMemory) {
        let fixed = self.words();
        words.store(0, BEING_MADE);
        for (at, &word) in fixed.iter().enumerate() {
            words.store(1 + at, word);
        }
        words.store(CHECKSUM_WORD, checksum(&fixed));
    }

    fn words(&self) -> [u64; FIXED_WORDS] {
        let mut words = [0; FIXED_WORDS];
        let (client, name) = (self.client.0, self.cluster_id.as_bytes());
        words[..8].copy_from_slice(&[
            LAYOUT,
            self.memory_len,
            self.memory_offset,
            name.len() as u64,
            self.boot as u64,
            (self.boot >> 64) as u64,
            client as u64,
            (client >> 64) as u64,
        ]);
        for (word, piece) in words[8..].iter_mut().zip(name.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            *word = u64::from_le_bytes(bytes);
        }
        words
    }

    /// Decodes a header. `None` if the file is incomplete.
    ///
    /// # Errors
    /// The header is not a segment's, has another layout, or is damaged.
    pub(super) fn read(header: &[u64; HEADER_WORDS]) -> Result<Option<Self>, NamedSegmentError> {
        match header[0] {
            WHOLE => {}
            BEING_MADE => return Ok(None),
            _ => return Err(NamedSegmentError::Foreign),
        }
        if header[1] != LAYOUT {
            return Err(NamedSegmentError::Layout { found: header[1], known: LAYOUT });
        }
        let damaged = NamedSegmentError::Damaged { what: "the header is not what was written" };
        let fixed = &header[1..CHECKSUM_WORD];
        let name_len = usize::try_from(header[4]).unwrap_or(usize::MAX);
        if header[CHECKSUM_WORD] != checksum(fixed) || name_len > limits::MAX_NAME_BYTES {
            return Err(damaged);
        }
        let mut name: Vec<u8> = fixed[8..].iter().flat_map(|word| word.to_le_bytes()).collect();
        name.truncate(name_len);
        let both = |low: u64, high: u64| u128::from(low) | u128::from(high) << 64;
        Ok(Some(Self {
            memory_len: header[2],
            memory_offset: header[3],
            boot: both(header[5], header[6]),
            client: ClientId(both(header[7], header[8])),
            cluster_id: String::from_utf8(name).map_err(|_| damaged)?,
        }))
    }
}

/// Counts this process, and returns how many processes have opened the segment.
pub(super) fn count_run(words: &impl WordMemory) -> u64 {
    let run = words.load(RUN_WORD).saturating_add(1);
    words.store(RUN_WORD, run);
    run
}

/// Marks the file as complete.
pub(super) fn seal(words: &impl WordMemory) {
    words.barrier();
    words.store(0, WHOLE);
}

fn checksum(fixed: &[u64]) -> u64 {
    let bytes: Vec<u8> = fixed.iter().flat_map(|word| word.to_le_bytes()).collect();
    u64::from(crc32c(&bytes))
}
