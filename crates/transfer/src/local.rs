use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mooncake_device::{CopyError, Direction, Job, copy_some};
use mooncake_memory::{RawSlice, gather_from_caller, with_helpers};
use mooncake_types::limits::MAX_BEGIN_RANGES;
use mooncake_types::{Epoch, ErrorCode, RangeDrop, SegmentId};

use crate::copy_out::{bad_memory, copy_out};
use crate::error::of_copy;
use crate::open_write::OpenWrite;
use crate::{Interrupt, ReadOp, ReadTicket, SegmentHost, TransferError, Transport, WriteOp};

/// Most bytes copied between two checks whether the writer has to stop.
const STEP_BYTES: usize = 1 << 20;

/// Copies directly between callers' memory and segments of this process. Ignores endpoints.
///
/// If the caller's memory is not accessible, the call fails, as over TCP. The process does not crash.
#[derive(Clone)]
pub struct LocalTransport {
    host: Arc<dyn SegmentHost>,
    /// Whether bytes are checked before they are copied.
    verifies: bool,
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
        Self { host, verifies: false }
    }

    /// Whether it checks bytes before it copies them.
    #[must_use]
    pub fn verifying(self, verifies: bool) -> Self {
        Self { verifies, ..self }
    }

    /// Whether this segment is one of this process.
    #[must_use]
    pub fn owns(&self, segment: SegmentId) -> bool {
        self.host.owns(segment)
    }

    pub(crate) fn host(&self) -> &dyn SegmentHost {
        &*self.host
    }

    pub(crate) fn read_one(&self, op: &ReadOp) -> Result<(), TransferError> {
        if !op.dst.is_host() {
            return self.read_to_devices(&[op]).remove(0);
        }
        let ticket = self.begin_read(op)?;
        copy_out(ticket.memory.raw(), &op.dst)?;
        self.settled(&ticket)
    }

    fn begin_read(&self, op: &ReadOp) -> Result<ReadTicket, TransferError> {
        if op.dst.total_len() != op.range.len {
            return Err(TransferError::Refused(ErrorCode::InvalidParams));
        }
        let ticket = self.host.begin_read(&op.range).map_err(TransferError::of_read)?;
        if ticket.memory.len() as u64 != op.range.len {
            return Err(TransferError::Refused(ErrorCode::InternalError));
        }
        let is_wrong = |known: &Arc<[u32]>| **known != *ticket.memory.raw().chunk_crcs();
        if self.verifies && ticket.checksums.as_ref().is_some_and(is_wrong) {
            self.settled(&ticket)?;
            return Err(TransferError::Corrupt { endpoint: Arc::clone(&op.endpoint) });
        }
        Ok(ticket)
    }

    /// The result of a read after the copy: stale if the host dropped the version meanwhile.
    fn settled(&self, ticket: &ReadTicket) -> Result<(), TransferError> {
        if self.host.still_holds(ticket) { Ok(()) } else { Err(TransferError::Stale) }
    }

    /// Reads to memory of devices, with one batch of copies for all ranges.
    pub(crate) fn read_to_devices(&self, ops: &[&ReadOp]) -> Vec<Result<(), TransferError>> {
        let tickets: Vec<_> = ops.iter().map(|op| self.begin_read(op)).collect();
        let jobs = ops.iter().zip(&tickets).map(|(op, ticket)| {
            let ticket = ticket.as_ref().ok()?;
            let (host, region) = (ticket.memory.raw(), Some(&**ticket.memory.region()));
            Some(Job { memory: &op.dst, host, region })
        });
        let copied = copy_some(Direction::ToDevice, jobs.collect(), &|_| true);
        let settle = |(ticket, copied): (Result<ReadTicket, _>, Option<Result<(), CopyError>>)| {
            let ticket = ticket?;
            copied.expect("what was begun is copied").map_err(|error| of_copy(&error))?;
            self.settled(&ticket)
        };
        tickets.into_iter().zip(copied).map(settle).collect()
    }

    /// Drops entries of this process's segments, the results in the order of the ranges.
    pub(crate) fn drop_all(&self, ranges: &[RangeDrop]) -> Vec<Result<(), TransferError>> {
        let dropped = self.host.drop_ranges(ranges).into_iter();
        dropped.map(|dropped| dropped.map_err(TransferError::Refused)).collect()
    }

    pub(crate) fn write_one(&self, epoch: Epoch, op: &WriteOp<'_>) -> Result<(), TransferError> {
        if !op.src.is_host() {
            return self.write_from_devices(epoch, &[op]).remove(0);
        }
        let stop = Arc::new(StopFlag::default());
        if self.host.reads_from_disk(op.range.segment)
            && let &[bytes] = op.src.slices()
            && let Some(written) = self.host.write_in_place(epoch, &op.range, bytes, stop.clone())
        {
            return written.map_err(TransferError::Refused);
        }
        let open = self.begin_write(epoch, op, &stop)?;
        copy_in(op, open.memory(), &stop)?;
        complete(open)
    }

    fn begin_write(
        &self,
        epoch: Epoch,
        op: &WriteOp<'_>,
        stop: &Arc<StopFlag>,
    ) -> Result<OpenWrite<'_>, TransferError> {
        if op.src.total_len() != op.range.len {
            return Err(TransferError::Refused(ErrorCode::InvalidParams));
        }
        let begun = OpenWrite::begin(&*self.host, epoch, &op.range, stop.clone());
        begun.map_err(TransferError::Refused)
    }

    /// Writes from memory of devices, with one batch of copies for many ranges.
    pub(crate) fn write_from_devices(
        &self,
        epoch: Epoch,
        ops: &[&WriteOp<'_>],
    ) -> Vec<Result<(), TransferError>> {
        // Several tickets are held, so those of newer grants are begun first: no two calls wait for each other.
        let mut order: Vec<usize> = (0..ops.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(ops[at].range.grant));
        let mut results = vec![Ok(()); ops.len()];
        for positions in order.chunks(MAX_BEGIN_RANGES) {
            let some: Vec<&WriteOp<'_>> = positions.iter().map(|&at| ops[at]).collect();
            for (&at, result) in positions.iter().zip(self.write_together(epoch, &some)) {
                results[at] = result;
            }
        }
        results
    }

    fn write_together(&self, epoch: Epoch, ops: &[&WriteOp<'_>]) -> Vec<Result<(), TransferError>> {
        let begin = |op: &&WriteOp<'_>| {
            let stop = Arc::new(StopFlag::default());
            self.begin_write(epoch, op, &stop).map(|open| (open, stop))
        };
        let writes: Vec<_> = ops.iter().map(begin).collect();
        let jobs = ops.iter().zip(&writes).map(|(op, write)| {
            let (open, _) = write.as_ref().ok()?;
            Some(Job { memory: &op.src, host: open.memory(), region: Some(open.region()) })
        });
        let may_go_on = |at: usize| {
            let is_stopped = |stop: &StopFlag| stop.0.load(Ordering::Acquire);
            !writes[at].as_ref().is_ok_and(|(_, stop)| is_stopped(stop))
        };
        let copied = copy_some(Direction::ToHost, jobs.collect(), &may_go_on);
        let mut results = Vec::with_capacity(ops.len());
        for (write, copied) in writes.into_iter().zip(copied) {
            results.push(write.and_then(|(open, _)| {
                copied.expect("what was begun is copied").map_err(|error| of_copy(&error))?;
                complete(open)
            }));
        }
        results
    }
}

/// Completes a write without checksums. The first read over a socket computes them.
fn complete(open: OpenWrite<'_>) -> Result<(), TransferError> {
    open.complete(Vec::new()).map_err(TransferError::Refused)
}

/// Copies step by step until it is asked to stop. Several threads share the steps of a long write.
fn copy_in(op: &WriteOp<'_>, memory: RawSlice, stop: &StopFlag) -> Result<(), TransferError> {
    let copy = |step: &Range<usize>| {
        if stop.0.load(Ordering::Acquire) {
            return Err(TransferError::Refused(ErrorCode::InvalidVersion));
        }
        let src = op.src.sub(step.start as u64, step.len() as u64);
        gather_from_caller(src, memory.sub(step.start, step.len()))
            .map_err(|error| bad_memory(&error))
    };
    if memory.len() <= STEP_BYTES {
        return copy(&(0..memory.len()));
    }
    let end = |from: usize| memory.len().min(from + STEP_BYTES);
    let steps: Vec<Range<usize>> =
        (0..memory.len()).step_by(STEP_BYTES).map(|from| from..end(from)).collect();
    with_helpers(&steps, memory.len() as u64, copy).into_iter().collect()
}

impl Transport for LocalTransport {
    fn read(&self, ops: &[ReadOp]) -> Vec<Result<(), TransferError>> {
        ops.iter().map(|op| self.read_one(op)).collect()
    }

    fn write(&self, epoch: Epoch, ops: &[WriteOp<'_>]) -> Vec<Result<(), TransferError>> {
        ops.iter().map(|op| self.write_one(epoch, op)).collect()
    }
}
