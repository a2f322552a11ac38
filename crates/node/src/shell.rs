//! What a host asks of a lent segment, whatever its bytes lie in.

use std::sync::Arc;
use std::time::Duration;

use mooncake_transfer::{Interrupt, ReadTicket, WriteTicket};
use mooncake_types::{Epoch, ErrorCode, RangeRead, RangeWrite, SegmentId};

use crate::locked_machine::AnyLockedMachine;

/// The shell of a [`SegmentMachine`](crate::SegmentMachine), as its host sees it.
pub(crate) trait SegmentShell: Send + Sync {
    /// Its machine, and what it does alike for all kinds of segments.
    fn machine(&self) -> &dyn AnyLockedMachine;

    /// Drops everything that lies here, and tells all writers to stop. It has another id from now on.
    fn start_empty(&self, id: SegmentId);

    /// Returns once all that was dropped before is gone for good. No lock is held meanwhile.
    fn settle(&self) -> Result<(), ErrorCode> {
        Ok(())
    }

    /// Takes a range, or a part of one, for a writer, and waits, `patience` at most, for all that is in the way.
    fn begin_write(
        &self,
        write: (Epoch, &RangeWrite<'_>),
        writer: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<WriteTicket, ErrorCode>;

    /// All bytes of a part are in place.
    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode>;

    /// Where the bytes of a range are.
    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode>;

    /// As [`AnyLockedMachine::still_holds`], and may keep what the reader computed.
    fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool;
}
