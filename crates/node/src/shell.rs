//! What a host asks of a lent segment, whatever its bytes lie in.

use std::sync::Arc;
use std::time::Duration;

use mooncake_transfer::{Interrupt, ReadTicket, WriteTicket};
use mooncake_types::{Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId};

/// The shell of a [`SegmentMachine`](crate::SegmentMachine), as its host sees it.
pub(crate) trait SegmentShell: Send + Sync {
    /// The highest epoch that it obeys, or is known to have obeyed before.
    fn epoch(&self) -> Epoch;

    /// Obeys an epoch from now on.
    fn obey(&self, epoch: Epoch);

    /// Drops everything that lies here, and tells all writers to stop. It has another id from now on.
    fn start_empty(&self, id: SegmentId);

    /// Returns once all that was dropped before is gone for good. No lock is held meanwhile.
    fn settle(&self) -> Result<(), ErrorCode> {
        Ok(())
    }

    /// Is lent no longer.
    fn take_back(&self);

    /// Takes a range, or a part of one, for a writer, and waits, `patience` at most, for all that is in the way.
    fn begin_write(
        &self,
        write: (Epoch, &RangeWrite<'_>),
        writer: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<WriteTicket, ErrorCode>;

    /// All bytes of a part are in place.
    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode>;

    /// A writer changes nothing any more, and its part is not in place.
    fn abandon_write(&self, ticket: WriteTicket);

    /// Where the bytes of a range are.
    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode>;

    /// Drops an entry; see [`SegmentMachine::drop_entry`](crate::SegmentMachine::drop_entry). It is gone for good once
    /// [`SegmentShell::settle`] returns.
    fn drop_entry(&self, range: &RangeDrop) -> Result<(), ErrorCode>;

    /// Whether the entry of a ticket has been here all the time.
    fn still_holds(&self, ticket: &ReadTicket) -> bool;

    /// As [`SegmentShell::still_holds`], and may keep what the reader computed.
    fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool;
}
