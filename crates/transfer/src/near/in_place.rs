//! Writes that this process makes directly into memory of a node that is mapped here.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use mooncake_connection::{Connection, Fault, is_quiet};
use mooncake_device::{CopyError, Direction, Job, copy_some};
use mooncake_memory::{Region, SliceList, gather_from_caller, with_helpers};
use mooncake_types::limits::MAX_BEGIN_RANGES;
use mooncake_types::{Epoch, ErrorCode, RangeWrite};
use mooncake_wire::{Kind, decode_results, encode_begin, encode_results};

use super::neighbour::Neighbour;
use super::prefault::PrefaultedParts;
use super::segment::NearSegment;
use crate::copy_out::bad_memory;
use crate::error::of_copy;
use crate::{TransferError, WriteOp};

/// Most bytes copied between two checks whether the node asked this side to stop.
const STEP_BYTES: u64 = 1 << 20;

/// A write into memory that is mapped here.
pub(super) struct Placed<'a> {
    pub(super) op: &'a WriteOp<'a>,
    pub(super) segment: &'a NearSegment,
}

/// Writes ranges of segments of one node; the results are in their order. `None` for a range that did not begin for
/// lack of a connection.
pub(super) fn write(
    neighbour: &Neighbour,
    epoch: Epoch,
    placed: &[Placed<'_>],
) -> Vec<Option<Result<(), TransferError>>> {
    let write_some = |placed: &[Placed<'_>]| {
        let connection = match neighbour.connection() {
            Ok(connection) => connection,
            Err(fault) => {
                tracing::debug!(?fault, "a node of this host cannot be asked for ranges");
                return vec![None; placed.len()];
            }
        };
        match attempt(neighbour, connection, (epoch, placed)) {
            Ok(results) => results.into_iter().map(Some).collect(),
            Err(fault) => placed
                .iter()
                .map(|placed| Some(Err(TransferError::of_fault(&fault, &placed.op.endpoint))))
                .collect(),
        }
    };
    placed.chunks(MAX_BEGIN_RANGES).flat_map(write_some).collect()
}

/// Asks the node for the ranges, copies, and reports the results. On a fault the connection ends, and the node
/// abandons the writes.
fn attempt(
    neighbour: &Neighbour,
    mut connection: Connection,
    (epoch, placed): (Epoch, &[Placed<'_>]),
) -> Result<Vec<Result<(), TransferError>>, Fault> {
    let ranges: Vec<RangeWrite<'_>> = placed.iter().map(|placed| placed.op.range).collect();
    let begin = |out: &mut Vec<u8>, id| encode_begin(out, id, epoch, &ranges);
    let begun = decode_results(&connection.call(begin, Kind::BeginReply)?)?;
    check_count(begun.len(), placed.len())?;
    let copied = copy_all(connection.stream().as_fd(), placed, begun)?;
    let done: Vec<Result<(), ErrorCode>> = copied
        .iter()
        .map(|copied| copied.as_ref().map_err(|_| ErrorCode::TransferFail).copied())
        .collect();
    let complete = |out: &mut Vec<u8>, id| encode_results(out, Kind::Complete, id, &done);
    let completed = decode_results(&connection.call(complete, Kind::CompleteReply)?)?;
    check_count(completed.len(), placed.len())?;
    neighbour.give_back(connection);
    let both = copied.into_iter().zip(completed);
    Ok(both.map(|(copied, done)| copied.and(done.map_err(TransferError::Refused))).collect())
}

fn check_count(found: usize, expected: usize) -> Result<(), Fault> {
    if found == expected {
        return Ok(());
    }
    Err(Fault::Protocol(format!("{found} results came for {expected} ranges")))
}

/// Copies the ranges that were begun. Several threads share the steps of long ones.
fn copy_all(
    socket: BorrowedFd<'_>,
    placed: &[Placed<'_>],
    begun: Vec<Result<(), ErrorCode>>,
) -> Result<Vec<Result<(), TransferError>>, Fault> {
    let mut steps: Vec<(usize, Range<u64>)> = Vec::new();
    let is_begun = |(index, _): &(usize, &Placed<'_>)| begun[*index].is_ok();
    for (index, placed) in placed.iter().enumerate().filter(is_begun) {
        if !placed.op.src.is_host() {
            continue;
        }
        let len = placed.op.range.len;
        let froms = (0..len).step_by(STEP_BYTES as usize);
        steps.extend(froms.map(|from| (index, from..len.min(from + STEP_BYTES))));
    }
    let bytes = steps.iter().map(|(_, step)| step.end - step.start).sum();
    let results =
        with_helpers(&steps, bytes, |(index, step)| copy_in(socket, &placed[*index], step.clone()));
    let of_devices = placed.iter().enumerate().filter(is_begun);
    let of_devices: Vec<usize> =
        of_devices.filter(|(_, placed)| !placed.op.src.is_host()).map(|(index, _)| index).collect();
    let by_devices = copy_from_devices(socket, placed, &of_devices)?;
    let mut copied: Vec<_> =
        begun.into_iter().map(|begun| begun.map_err(TransferError::Refused)).collect();
    of_devices.into_iter().zip(by_devices).for_each(|(index, result)| copied[index] = result);
    for ((index, _), result) in steps.iter().zip(results) {
        let result = result?;
        if copied[*index].is_ok() {
            copied[*index] = result;
        }
    }
    Ok(copied)
}

/// Like [`copy_in`], for whole ranges in devices, with one batch of copies.
fn copy_from_devices(
    socket: BorrowedFd<'_>,
    placed: &[Placed<'_>],
    wanted: &[usize],
) -> Result<Vec<Result<(), TransferError>>, Fault> {
    let job = |&index: &usize| {
        let Placed { op, segment } = &placed[index];
        let region = segment.region()?;
        let start = op.range.offset.checked_add(op.range.from)?;
        let host = region.slice(start, op.range.len).ok()?;
        Some(Job { memory: &op.src, host, region: Some(region) })
    };
    let jobs = wanted.iter().map(job).collect();
    let results = copy_some(Direction::ToHost, jobs, &|_| is_quiet(socket));
    if results.iter().any(|result| matches!(result, Some(Err(CopyError::Stopped)))) {
        return Err(Fault::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    let of_job = |result: Option<Result<(), CopyError>>| match result {
        Some(result) => result.map_err(|error| of_copy(&error)),
        // The range does not lie within the segment.
        None => Err(TransferError::Refused(ErrorCode::InternalError)),
    };
    Ok(results.into_iter().map(of_job).collect())
}

/// Copies a part of one range. The inner error is that of the caller's memory. The outer error ends the connection:
/// the node wants this side to stop.
fn copy_in(
    socket: BorrowedFd<'_>,
    placed: &Placed<'_>,
    part: Range<u64>,
) -> Result<Result<(), TransferError>, Fault> {
    let range = &placed.op.range;
    let start = range.offset.checked_add(range.from);
    let region = placed.segment.region();
    let memory =
        region.zip(start).filter(|(region, start)| region.slice(*start, range.len).is_ok());
    let Some((region, start)) = memory else {
        return Ok(Err(TransferError::Refused(ErrorCode::InternalError)));
    };
    let mut from = part.start;
    while from < part.end {
        if !is_quiet(socket) {
            return Err(Fault::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        let src = placed.op.src.part(from, part.end - from);
        match copy_step(region, placed.segment.prefaulted(), start + from, &src) {
            Ok(copied) => from += copied as u64,
            Err(error) => {
                return Ok(Err(bad_memory(&error)));
            }
        }
    }
    Ok(Ok(()))
}

/// Copies the first bytes of `src` to `start`, and returns how many. The kernel writes to pages that do not exist
/// yet, so that it need not zero and map them first.
fn copy_step(
    region: &Region,
    prefaulted: &PrefaultedParts,
    start: u64,
    src: &SliceList,
) -> io::Result<usize> {
    let step = region.slice(start, src.total_len()).map_err(io::Error::other)?;
    if !prefaulted.is_mapped(start) {
        if region.map_provided(start, src.total_len()).map_err(io::Error::other)? {
            prefaulted.note_mapped(start);
        } else {
            match region.write_unmapped(start, src.slices()) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                result => return result,
            }
        }
    }
    gather_from_caller(src.slices().iter().copied(), step)?;
    Ok(step.len())
}
