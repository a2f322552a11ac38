use std::io;
use std::os::fd::OwnedFd;

use mooncake_device::{Direction, Job, copy_some};
use mooncake_memory::{MapError, RawSlice, Region, SeenSlot, SlotReader, copy_from_process};
use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::Shared;

use super::prefault::PrefaultedParts;
use crate::copy_out::copy_out;
use crate::error::of_copy;
use crate::{ReadOp, TransferError};

/// A segment of another process, as far as this one can reach it.
pub(super) struct NearSegment {
    slots: SlotReader,
    /// Where its memory lies here, if it could be mapped.
    region: Option<Region>,
    /// How often which parts of it were written here.
    prefaulted: PrefaultedParts,
    /// Where it lies in the node's process, and how long it is.
    shared: Shared,
}

/// What came of looking for a range without asking the node.
pub(super) enum Look {
    /// It is over, well or not.
    Over(Result<(), TransferError>),
    /// The table does not say; the node does.
    Unknown,
}

impl NearSegment {
    /// Maps what a node handed over: its table and then, if it said so, its memory.
    pub(super) fn map(shared: &Shared, descriptors: Vec<OwnedFd>) -> Result<Self, MapError> {
        let mut descriptors = descriptors.into_iter();
        let missing = MapError::WrongKind { wanted: "a segment with its table" };
        let table = descriptors.next().ok_or(missing)?;
        let slots = SlotReader::received(&table, shared.len)?;
        let memory = descriptors.next().filter(|_| shared.has_memory);
        let region = memory.map(|memory| Region::received(memory, shared.len)).transpose();
        let region = region.unwrap_or_else(|error| {
            tracing::info!(%error, "the memory of a segment on this host cannot be mapped");
            None
        });
        let prefaulted = PrefaultedParts::of(shared.len);
        Ok(Self { slots, region, prefaulted, shared: *shared })
    }

    pub(super) fn region(&self) -> Option<&Region> {
        self.region.as_ref()
    }

    pub(super) fn prefaulted(&self) -> &PrefaultedParts {
        &self.prefaulted
    }

    /// Where it starts in the address space of the node's process.
    pub(super) fn address(&self) -> u64 {
        self.shared.address
    }

    /// Whether the node lends it no longer.
    pub(super) fn is_closed(&self) -> bool {
        self.slots.is_closed()
    }

    /// Whether the node still held what was seen.
    pub(super) fn still_holds(&self, seen: &SeenSlot) -> bool {
        self.slots.still_holds(seen)
    }

    /// The slot of the range that is wanted, `None` if there is none for its start, or nothing is wanted of it.
    pub(super) fn find(&self, range: &RangeRead) -> Option<Result<SeenSlot, TransferError>> {
        let seen = self.slots.find(range.offset).filter(|_| range.len > 0)?;
        let row = seen.row;
        if (row.version, row.object_offset) != (range.version, range.object_offset) {
            return Some(Err(TransferError::Stale));
        }
        let end = range.from.checked_add(range.len).filter(|&end| end <= row.len);
        if end.is_none() {
            return Some(Err(TransferError::Refused(ErrorCode::InvalidParams)));
        }
        Some(Ok(seen))
    }

    /// Has the kernel copy the range out of the memory of the node's process. It counts only if that process still is the
    /// node afterwards.
    ///
    /// # Errors
    /// The system's, of a copy that was not made.
    pub(super) fn read_by_kernel(&self, op: &ReadOp, pid: i32) -> io::Result<Look> {
        let seen = match self.find(&op.range) {
            None => return Ok(Look::Unknown),
            Some(Err(error)) => return Ok(Look::Over(Err(error))),
            Some(Ok(seen)) => seen,
        };
        let start = op.range.offset.checked_add(op.range.from);
        let end = start.and_then(|start| start.checked_add(op.range.len));
        let (Some(start), Some(..)) = (start, end.filter(|&end| end <= self.shared.len)) else {
            return Ok(Look::Unknown);
        };
        let mut address = self.shared.address.wrapping_add(start);
        for &piece in op.dst.slices() {
            copy_from_process(pid, address, piece)?;
            address = address.wrapping_add(piece.len() as u64);
        }
        Ok(Look::Over(if self.still_holds(&seen) { Ok(()) } else { Err(TransferError::Stale) }))
    }

    /// Copies the range out of the memory that is mapped here.
    pub(super) fn read(&self, op: &ReadOp) -> Look {
        let (memory, seen) = match self.locate(&op.range) {
            Ok(found) => found,
            Err(look) => return look,
        };
        if let Err(error) = copy_out(memory, &op.dst) {
            return Look::Over(Err(error));
        }
        self.settled(&seen)
    }

    /// Where the range lies in the memory that is mapped here, and its slot.
    fn locate(&self, range: &RangeRead) -> Result<(RawSlice, SeenSlot), Look> {
        let region = self.region.as_ref().ok_or(Look::Unknown)?;
        let seen = match self.find(range) {
            None => return Err(Look::Unknown),
            Some(Err(error)) => return Err(Look::Over(Err(error))),
            Some(Ok(seen)) => seen,
        };
        let start = range.offset.checked_add(range.from);
        let memory = start.and_then(|start| region.slice(start, range.len).ok());
        // A table that is not of this memory: whoever made it knows better.
        Ok((memory.ok_or(Look::Unknown)?, seen))
    }

    /// What a copy is worth, once it was made.
    fn settled(&self, seen: &SeenSlot) -> Look {
        Look::Over(if self.still_holds(seen) { Ok(()) } else { Err(TransferError::Stale) })
    }
}

/// Has devices read ranges out of the memory that is mapped here, all with the same copies.
pub(super) fn read_to_devices(reads: &[(&NearSegment, &ReadOp)]) -> Vec<Look> {
    let located: Vec<_> = reads.iter().map(|(segment, op)| segment.locate(&op.range)).collect();
    let jobs = reads.iter().zip(&located).map(|((segment, op), located)| {
        let (memory, _) = located.as_ref().ok()?;
        Some(Job { memory: &op.dst, host: *memory, region: segment.region.as_ref() })
    });
    let copied = copy_some(Direction::ToDevice, jobs.collect(), &|_| true);
    let all = reads.iter().zip(located).zip(copied);
    let settle = all.map(|(((segment, _), located), copied)| match (located, copied) {
        (Err(look), _) => look,
        (Ok((_, seen)), Some(Ok(()))) => segment.settled(&seen),
        (Ok(_), Some(Err(error))) => Look::Over(Err(of_copy(&error))),
        (Ok(_), None) => unreachable!("what was found is copied"),
    });
    settle.collect()
}
