use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mooncake_device::{Direction, Job, copy_each};
use mooncake_memory::{RawSlice, SliceList, copy_to_caller, gather_from_caller, with_helpers};
use mooncake_types::{Epoch, ErrorCode, RangeDrop, SegmentId};

use crate::error::of_copy;
use crate::plan::MAX_BEGIN_RANGES;
use crate::{
    Interrupt, ReadOp, ReadTicket, SegmentHost, TransferError, Transport, WriteOp, WriteTicket,
};

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
        if !op.dst.is_host() {
            return self.read_to_devices(&[op]).remove(0);
        }
        let ticket = self.begin_read(op)?;
        copy_out(ticket.memory, &op.dst)?;
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
        Ok(ticket)
    }

    /// What a read is worth whose bytes were copied.
    fn settled(&self, ticket: &ReadTicket) -> Result<(), TransferError> {
        if self.host.still_holds(ticket) { Ok(()) } else { Err(TransferError::Stale) }
    }

    /// Reads to memory of devices, all ranges with the same copies.
    pub(crate) fn read_to_devices(&self, ops: &[&ReadOp]) -> Vec<Result<(), TransferError>> {
        let tickets: Vec<_> = ops.iter().map(|op| self.begin_read(op)).collect();
        let begun = ops.iter().zip(&tickets).filter_map(|(op, ticket)| {
            let ticket = ticket.as_ref().ok()?;
            Some(Job { memory: &op.dst, host: ticket.memory, region: Some(&ticket.region) })
        });
        let jobs: Vec<Job<'_>> = begun.collect();
        let mut copied = copy_each(Direction::ToDevice, &jobs, &|_| true).into_iter();
        let settle = |ticket: Result<ReadTicket, TransferError>| {
            let ticket = ticket?;
            copied.next().expect("one result for each copy").map_err(|error| of_copy(&error))?;
            self.settled(&ticket)
        };
        tickets.into_iter().map(settle).collect()
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
        let ticket = self.begin_write(epoch, op, &stop)?;
        let copied = copy_in(op, ticket.memory, &stop);
        self.end_write(ticket, copied)
    }

    fn begin_write(
        &self,
        epoch: Epoch,
        op: &WriteOp<'_>,
        stop: &Arc<StopFlag>,
    ) -> Result<WriteTicket, TransferError> {
        if op.src.total_len() != op.range.len {
            return Err(TransferError::Refused(ErrorCode::InvalidParams));
        }
        let begun = self.host.begin_write(epoch, &op.range, stop.clone());
        let ticket = begun.map_err(TransferError::Refused)?;
        if ticket.memory.len() as u64 != op.range.len {
            self.host.abandon_write(ticket);
            return Err(TransferError::Refused(ErrorCode::InternalError));
        }
        Ok(ticket)
    }

    fn end_write(
        &self,
        ticket: WriteTicket,
        copied: Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        match copied {
            // The first who reads it over a socket computes its checksums.
            Ok(()) => self.host.complete_write(ticket, Vec::new()).map_err(TransferError::Refused),
            Err(error) => {
                self.host.abandon_write(ticket);
                Err(error)
            }
        }
    }

    /// Writes from memory of devices, many ranges with the same copies.
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
            self.begin_write(epoch, op, &stop).map(|ticket| (ticket, stop))
        };
        let tickets: Vec<_> = ops.iter().map(begin).collect();
        let begun = ops.iter().zip(&tickets).filter_map(|(op, ticket)| {
            let (ticket, stop) = ticket.as_ref().ok()?;
            let region = Some(&*ticket.region);
            Some((Job { memory: &op.src, host: ticket.memory, region }, stop))
        });
        let (jobs, stops): (Vec<Job<'_>>, Vec<&Arc<StopFlag>>) = begun.unzip();
        let may_go_on = |job: usize| !stops[job].0.load(Ordering::Acquire);
        let mut copied = copy_each(Direction::ToHost, &jobs, &may_go_on).into_iter();
        let end = |ticket: Result<(WriteTicket, Arc<StopFlag>), TransferError>| {
            let (ticket, _) = ticket?;
            let copied = copied.next().expect("one result for each copy");
            self.end_write(ticket, copied.map_err(|error| of_copy(&error)))
        };
        tickets.into_iter().map(end).collect()
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
