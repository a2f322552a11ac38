use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mooncake_memory::RawSlice;
use mooncake_types::{Epoch, ErrorCode, SegmentId, limits::CHUNK_BYTES};

use crate::{Interrupt, ReadOp, SegmentHost, TransferError, Transport, WriteOp};

/// Copies between callers' memory and segments of this process. Endpoints are not looked at.
#[derive(Clone)]
pub struct LocalTransport {
    host: Arc<dyn SegmentHost>,
}

/// Asks a copy to stop at its next chunk.
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

    pub(crate) fn read_one(&self, op: &ReadOp) -> Result<(), TransferError> {
        if op.dst.total_len() != op.range.len {
            return Err(TransferError::Refused(ErrorCode::InvalidParams));
        }
        let ticket = self.host.begin_read(&op.range).map_err(TransferError::of_read)?;
        if ticket.memory.len() as u64 != op.range.len {
            return Err(TransferError::Refused(ErrorCode::InternalError));
        }
        op.dst.fill_from(ticket.memory);
        if self.host.still_holds(&ticket) { Ok(()) } else { Err(TransferError::Stale) }
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
            Some(checksums) => {
                self.host.complete_write(ticket, checksums).map_err(TransferError::Refused)
            }
            None => {
                self.host.abandon_write(ticket);
                Err(TransferError::Refused(ErrorCode::InvalidVersion))
            }
        }
    }
}

/// Copies chunk by chunk and checksums each while it is in the cache; `None` if it was asked to stop.
fn copy_in(op: &WriteOp<'_>, memory: RawSlice, stop: &StopFlag) -> Option<Vec<u32>> {
    let mut checksums = Vec::with_capacity(op.range.len.div_ceil(CHUNK_BYTES) as usize);
    let mut from = 0;
    while from < memory.len() {
        if stop.0.load(Ordering::Acquire) {
            return None;
        }
        let chunk = memory.sub(from, (CHUNK_BYTES as usize).min(memory.len() - from));
        let mut filled = 0;
        for piece in op.src.sub(from as u64, chunk.len() as u64) {
            piece.copy_to(chunk.sub(filled, piece.len()));
            filled += piece.len();
        }
        checksums.push(chunk.crc32c());
        from += chunk.len();
    }
    Some(checksums)
}

impl Transport for LocalTransport {
    fn read(&self, ops: &[ReadOp]) -> Vec<Result<(), TransferError>> {
        ops.iter().map(|op| self.read_one(op)).collect()
    }

    fn write(&self, epoch: Epoch, ops: &[WriteOp<'_>]) -> Vec<Result<(), TransferError>> {
        ops.iter().map(|op| self.write_one(epoch, op)).collect()
    }
}
