//! The operations that a host needs of a lent segment, in memory or on a disk.

use std::sync::Arc;
use std::time::Duration;

use mooncake_transfer::{Interrupt, ReadTicket, WriteTicket};
use mooncake_types::{Epoch, ErrorCode, RangeRead, RangeWrite, SegmentId};

use crate::locked_machine::AnyLockedMachine;

/// The shell of a [`SegmentMachine`](crate::SegmentMachine), as its host sees it.
pub(crate) trait SegmentShell: Send + Sync {
    /// Its machine, and the operations that are the same for all kinds of segments.
    fn machine(&self) -> &dyn AnyLockedMachine;

    /// Drops everything in the segment, tells all writers to stop, and changes the id.
    fn start_empty(&self, id: SegmentId);

    /// Returns once all earlier drops are durable. No lock is held meanwhile.
    fn settle(&self) -> Result<(), ErrorCode> {
        Ok(())
    }

    /// Takes a range, or a part of one, for a writer. Waits at most `patience` for older writers, pins and promises.
    fn begin_write(
        &self,
        write: (Epoch, &RangeWrite<'_>),
        writer: Arc<dyn Interrupt>,
        patience: Duration,
    ) -> Result<WriteTicket, ErrorCode>;

    /// Completes a part whose bytes are all in place.
    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode>;

    /// Finds the bytes of a range.
    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode>;

    /// As [`AnyLockedMachine::still_holds`], and may keep the checksums that the reader computed.
    fn learn_checksums(&self, ticket: &ReadTicket, checksums: &[u32]) -> bool;
}
