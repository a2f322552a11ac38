//! The checksums of a named segment: its bytes must be as they were written when the next process lends them.

use mooncake_memory::digest;
use mooncake_types::limits::CHUNK_BYTES;
use mooncake_types::{ErrorCode, RangeRead};

use super::inherited::{KeptChecksums, Unchecked};
use super::segment::Segment;

impl Segment {
    /// Checks the bytes of one entry that an earlier process left, so that readers find it, or drops it if they are not
    /// as they were. False if no entry is left to check.
    pub fn check_next(&self) -> bool {
        let next = self.inherited.first();
        if let Some((offset, entry)) = next {
            self.check(offset, entry);
        }
        next.is_some()
    }

    /// How many entries of an earlier process were not checked yet.
    #[must_use]
    pub fn unchecked_entries(&self) -> u64 {
        self.inherited.left()
    }

    /// How many entries of an earlier process were dropped, since their bytes were not as they were.
    #[must_use]
    pub fn damaged_entries(&self) -> u64 {
        self.inherited.damaged()
    }

    /// Checks an entry before it is read for the first time since the earlier process ended.
    pub(super) fn check_before_read(&self, offset: u64) {
        if let Some(entry) = self.inherited.find(offset) {
            self.check(offset, entry);
        }
    }

    /// Several threads may check one entry at the same time: all come to the same result.
    fn check(&self, offset: u64, Unchecked { grant, kept }: Unchecked) {
        let found = self.look(|ledger| {
            let entry = ledger.complete_at(offset).filter(|entry| entry.grant == grant);
            entry.map(|entry| (entry.len, entry.version, entry.checksums.clone()))
        });
        // Without an entry, it was dropped or replaced before anybody read it.
        if let Some((len, version, expected)) = found {
            let computed = self.checksums_of(offset, len);
            let is_whole = match kept {
                KeptChecksums::Missing => false,
                KeptChecksums::Chunks => expected.as_deref() == Some(&computed),
                KeptChecksums::Digest(expected) => expected == digest(&computed),
            };
            // A writer that took the range meanwhile has dropped the entry before it changed any byte.
            let is_damaged = self.machine.change(|machine, effects| match is_whole {
                true => {
                    let entry = (offset, version, grant);
                    machine.learn_checksums(entry, (0, len), &computed, &mut *effects);
                    machine.publish(offset, grant, effects);
                    false
                }
                false => machine.lose(offset, grant, effects),
            });
            if is_damaged {
                self.inherited.note_damage();
            }
        }
        self.inherited.settle(offset);
    }

    /// Checks the chunks of which a part is read: whoever reads whole ones gets their checksums, and compares. Drops an
    /// entry whose bytes are not as they were.
    pub(super) fn verify_part(&self, range: &RangeRead) -> Result<(), ErrorCode> {
        let found = self.look(|ledger| {
            let entry = ledger.complete_at(range.offset);
            let entry = entry.filter(|entry| entry.version == range.version)?;
            Some((entry.len, entry.grant, entry.checksums.clone()?))
        });
        let Some((len, grant, known)) = found else { return Ok(()) };
        let (first, last) =
            (range.from / CHUNK_BYTES, (range.from + range.len).div_ceil(CHUNK_BYTES));
        let from = first * CHUNK_BYTES;
        let computed = self.checksums_of(range.offset + from, len.min(last * CHUNK_BYTES) - from);
        if known.get(first as usize..last as usize) == Some(&computed) {
            return Ok(());
        }
        // A writer that took the range meanwhile has dropped the entry before it changed any byte.
        if self.machine.change(|machine, effects| machine.lose(range.offset, grant, effects)) {
            self.inherited.note_damage();
        }
        Err(ErrorCode::ObjectNotFound)
    }

    /// The checksum of each chunk of a range.
    fn checksums_of(&self, offset: u64, len: u64) -> Vec<u32> {
        let memory = self.region.hold(offset, len);
        memory.expect("the ledger takes no range outside of its segment").raw().chunk_crcs()
    }

    /// Computes the checksums of the complete entry that starts here, if it was written without, and adds its row. Only
    /// then may its writer learn that the entry outlives the process.
    pub(super) fn add_checksums(&self, offset: u64) {
        let found = self.look(|ledger| {
            let entry = ledger.complete_at(offset).filter(|entry| entry.checksums.is_none());
            entry.map(|entry| (entry.len, entry.version, entry.grant))
        });
        let Some((len, version, grant)) = found else { return };
        let computed = self.checksums_of(offset, len);
        self.machine.change(|machine, effects| {
            machine.learn_checksums((offset, version, grant), (0, len), &computed, effects)
        });
    }
}
