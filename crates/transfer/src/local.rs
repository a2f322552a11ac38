use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mooncake_memory::{RawSlice, SliceList, append_checked, copy_checked, crc32c};
use mooncake_types::{Epoch, ErrorCode, SegmentId, limits::CHUNK_BYTES};

use crate::{DropOp, Interrupt, ReadOp, SegmentHost, TransferError, Transport, WriteOp};

/// Copies between callers' memory and segments of this process. Endpoints are not looked at.
///
/// The kernel makes the copies, which are dearer than plain ones: memory of the caller that is not there is an error,
/// as it is over TCP, and not the end of the process.
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

    pub(crate) fn drop_one(&self, op: &DropOp) -> Result<(), TransferError> {
        self.host.drop_range(&op.range).map_err(TransferError::Refused)
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
            Ok(checksums) => {
                self.host.complete_write(ticket, checksums).map_err(TransferError::Refused)
            }
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
        copy_checked(memory.sub(from, piece.len()), piece).map_err(bad_memory)?;
        from += piece.len();
    }
    Ok(())
}

/// Copies chunk by chunk until it is asked to stop. A chunk comes by way of private memory: its pieces are gathered
/// with one call, its checksum needs no copy of its own, and nothing is written of a chunk that is not all there.
fn copy_in(op: &WriteOp<'_>, memory: RawSlice, stop: &StopFlag) -> Result<Vec<u32>, TransferError> {
    let mut checksums = Vec::with_capacity(op.range.len.div_ceil(CHUNK_BYTES) as usize);
    let mut gathered = Vec::new();
    let mut from = 0;
    while from < memory.len() {
        if stop.0.load(Ordering::Acquire) {
            return Err(TransferError::Refused(ErrorCode::InvalidVersion));
        }
        let chunk = memory.sub(from, (CHUNK_BYTES as usize).min(memory.len() - from));
        let pieces: Vec<RawSlice> = op.src.sub(from as u64, chunk.len() as u64).collect();
        gathered.clear();
        append_checked(&pieces, &mut gathered).map_err(bad_memory)?;
        chunk.write_from(&gathered);
        checksums.push(crc32c(&gathered));
        from += chunk.len();
    }
    Ok(checksums)
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
