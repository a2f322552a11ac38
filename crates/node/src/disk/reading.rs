//! Reading: the node copies a record's bytes into staging memory, and lends that memory.

use std::sync::Arc;
use std::time::Duration;

use mooncake_memory::HeldSlice;
use mooncake_tier::{ReadError, RecordId};
use mooncake_transfer::ReadTicket;
use mooncake_types::limits::CHUNK_BYTES;
use mooncake_types::{ErrorCode, RangeRead};

use super::health::LossCause;
use super::segment::DiskSegment;

/// Longest wait for staging memory. The reader gets this answer before it takes a silent node for a dead one.
const PATIENCE: Duration = Duration::from_millis(400);

impl DiskSegment {
    /// Reads a range of an entry into memory.
    pub(super) fn read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        let (grant, entry_len) = {
            let locked = self.machine.lock();
            let found = locked.machine.read(range)?;
            let entry = locked.machine.ledger().complete_at(range.offset);
            (found.grant, entry.expect("it was found a moment ago").len)
        };
        // Read whole chunks, since only their checksums are known.
        let end = range.from + range.len;
        let begin = range.from / CHUNK_BYTES * CHUNK_BYTES;
        let stop = end.next_multiple_of(CHUNK_BYTES).min(entry_len);
        let region = self.staging.take(stop - begin, PATIENCE)?;
        let name = RecordId { grant, offset: range.offset };
        let checksums = self.disk.read(name, begin, region.whole()).map_err(|error| {
            if let ReadError::Unreachable(reason) = &error {
                tracing::debug!(reason, "an object is not read now");
                return ErrorCode::ObjectReplicaBusy;
            }
            self.note_loss(name, &error);
            ErrorCode::ObjectNotFound
        })?;
        self.health.on_read();
        let is_exact = (begin, stop) == (range.from, end);
        let checksums = checksums.filter(|_| is_exact).map(Arc::from);
        let memory = region.hold(range.from - begin, range.len);
        let memory = memory.expect("what is wanted lies in its chunks");
        let memory = match range.len <= (stop - begin) / 2 {
            true => self.moved_to_less(memory),
            false => memory,
        };
        let RangeRead { segment, offset, version, from, .. } = *range;
        Ok(ReadTicket { memory, checksums, segment, offset, from, version, grant })
    }

    /// Moves what is wanted out of the chunks around it, if there is memory left: a frame may ask for a thousand short
    /// ranges, and their chunks would take it from all others.
    fn moved_to_less(&self, wanted: HeldSlice) -> HeldSlice {
        let Ok(region) = self.staging.take(wanted.len() as u64, Duration::ZERO) else {
            return wanted;
        };
        wanted.raw().copy_to(region.whole());
        HeldSlice::whole(region)
    }

    /// Drops the entry of a record that cannot be read. Gives the disk up if its reads keep failing.
    fn note_loss(&self, name: RecordId, error: &ReadError) {
        let cause = match error {
            // It went with a file that was given up for want of space.
            ReadError::NotThere => {
                self.lose(&[name], LossCause::NoRoom);
                return;
            }
            ReadError::Damaged => "it is damaged",
            _ => "it cannot be read",
        };
        self.lose(&[name], LossCause::Unreadable);
        if let Some(more) = self.health.admit(cause) {
            tracing::warn!(%error, more, "a disk has lost an object");
        }
        if error.is_of_medium() && self.health.on_failed_read() && !self.is_broken() {
            self.durability.fail(&format!("its reads keep failing: {error}"));
        }
    }
}
