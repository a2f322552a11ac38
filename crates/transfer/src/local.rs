use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mooncake_memory::{RawSlice, SliceList, copy_to_caller, gather_from_caller, with_helpers};
use mooncake_types::{Epoch, ErrorCode, RangeDrop, SegmentId};

use crate::{Interrupt, ReadOp, SegmentHost, TransferError, Transport, WriteOp};

/// Most bytes copied between two looks at whether the writer is to stop.
const STEP_BYTES: usize = 1 << 20;

/// Copies between callers' memory and segments of this process, once. Endpoints are not looked at.
///
/// Memory of the caller that is not there is an error, as it is over TCP, and not the end of the process.
#[derive(Clone)]
pub struct LocalTransport {
    host: Arc<dyn SegmentHost>,
}

/// Asks a copy to stop at its next step.
#[derive(Default)]
struct StopFlag(AtomicBool);

impl Interrupt for StopFlag {
    fn interrupt(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl LocalTransport {
    /// A way to the segments of `host`.
    #[must_use]
    pub fn new(host: Arc<dyn SegmentHost>) -> Self {
        Self { host }
    }

    /// Is this segment reached by a copy?
    #[must_use]
    pub fn owns(&self, segment: SegmentId) -> bool {
        self.host.owns(segment)
    }

    pub(crate) fn host(&self) -> &dyn SegmentHost {
        &*self.host
    }

    pub(crate) fn read_one(&self, op: &ReadOp) -> Result<(), TransferError> {
        if op.dst.total_len() != op.range.len {
            return Err(TransferError::Refused(ErrorCode::InvalidParams));
        }
        let ticket = self.host.begin_read(&op.range).map_err(TransferError::of_read)?;
        if ticket.memory.len() as u64 != op.range.len {
            return Err(TransferError::Refused(ErrorCode::InternalError));
        }
        copy_out(ticket.memory, &op.dst)?;
        if self.host.still_holds(&ticket) { Ok(()) } else { Err(TransferError::Stale) }
    }

    /// Drops entries of this process's segments, the results in the order of the ranges.
    pub(crate) fn drop_all(&self, ranges: &[RangeDrop]) -> Vec<Result<(), TransferError>> {
        let dropped = self.host.drop_ranges(ranges).into_iter();
        dropped.map(|dropped| dropped.map_err(TransferError::Refused)).collect()
    }

    pub(crate) fn write_one(&self, epoch: Epoch, op: &WriteOp<'_>) -> Result<(), TransferError> {
        if op.src.total_len() != op.range.len {
            return Err(TransferError::Refused(ErrorCode::InvalidParams));
        }
        let stop = Arc::new(StopFlag::default());
        let ticket = self
            .host
            .begin_write(epoch, &op.range, stop.clone())
            .map_err(TransferError::Refused)?;
        if ticket.memory.len() as u64 != op.range.len {
            self.host.abandon_write(ticket);
            return Err(TransferError::Refused(ErrorCode::InternalError));
        }
        match copy_in(op, ticket.memory, &stop) {
            // The first who reads it over a socket computes its checksums.
            Ok(()) => self.host.complete_write(ticket, Vec::new()).map_err(TransferError::Refused),
            Err(error) => {
                self.host.abandon_write(ticket);
                Err(error)
            }
        }
    }
}

fn copy_out(memory: RawSlice, dst: &SliceList) -> Result<(), TransferError> {
    let mut from = 0;
    for piece in dst.sub(0, memory.len() as u64) {
        copy_to_caller(memory.sub(from, piece.len()), piece).map_err(bad_memory)?;
        from += piece.len();
    }
    Ok(())
}

/// Copies step by step until it is asked to stop, the steps of long writes side by side.
fn copy_in(op: &WriteOp<'_>, memory: RawSlice, stop: &StopFlag) -> Result<(), TransferError> {
    let copy = |step: &Range<usize>| {
        if stop.0.load(Ordering::Acquire) {
            return Err(TransferError::Refused(ErrorCode::InvalidVersion));
        }
        let src = op.src.sub(step.start as u64, step.len() as u64);
        gather_from_caller(src, memory.sub(step.start, step.len())).map_err(bad_memory)
    };
    if memory.len() <= STEP_BYTES {
        return copy(&(0..memory.len()));
    }
    let end = |from: usize| memory.len().min(from + STEP_BYTES);
    let steps: Vec<Range<usize>> =
        (0..memory.len()).step_by(STEP_BYTES).map(|from| from..end(from)).collect();
    with_helpers(&steps, memory.len() as u64, copy).into_iter().collect()
}

/// The segment's own memory is there for as long as its ticket, so it is the caller's that is not.
fn bad_memory(error: io::Error) -> TransferError {
    TransferError::BadMemory { reason: error.to_string() }
}

impl Transport for LocalTransport {
    fn read(&self, ops: &[ReadOp]) -> Vec<Result<(), TransferError>> {
        ops.iter().map(|op| self.read_one(op)).collect()
    }

    fn write(&self, epoch: Epoch, ops: &[WriteOp<'_>]) -> Vec<Result<(), TransferError>> {
        ops.iter().map(|op| self.write_one(epoch, op)).collect()
    }
}
