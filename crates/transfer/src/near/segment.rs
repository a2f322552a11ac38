use std::io;
use std::os::fd::OwnedFd;

use mooncake_device::{Direction, Job, copy_some};
use mooncake_memory::{MapError, RawSlice, Region, SeenSlot, SlotReader, copy_from_process};
use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::Shared;

use super::prefault::PrefaultedParts;
use crate::copy_out::copy_out;
use crate::error::of_copy;
use crate::{ReadOp, TransferError, verify};

/// A segment of another process, as far as this one can reach it.
pub(super) struct NearSegment {
    slots: SlotReader,
    /// Where its memory lies here, if it could be mapped.
    region: Option<Region>,
    /// Which parts of it this process has mapped to write them.
    prefaulted: PrefaultedParts,
    /// Where it lies in the node's process, and how long it is.
    shared: Shared,
    /// Whether bytes are checked after they were copied.
    verifies: bool,
}

/// The result of a read that did not ask the node.
pub(super) enum NearRead {
    /// The read is over.
    Over(Result<(), TransferError>),
    /// The table does not tell: the node must be asked.
    Unknown,
}

impl NearSegment {
    /// Maps what a node handed over: its table, and its memory if that is shared.
    pub(super) fn map(
        shared: &Shared,
        descriptors: Vec<OwnedFd>,
        verifies: bool,
    ) -> Result<Self, MapError> {
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
        Ok(Self { slots, region, prefaulted, shared: shared.clone(), verifies })
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

    /// Whether the node has stopped lending it.
    pub(super) fn is_closed(&self) -> bool {
        self.slots.is_closed()
    }

    /// Whether the slot is unchanged since `seen`: then the node held the entry all the time.
    pub(super) fn still_holds(&self, seen: &SeenSlot) -> bool {
        self.slots.still_holds(seen)
    }

    /// The slot of a range; `None` if no slot has its start, or the range is empty.
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

    /// Has the kernel copy the range out of the node's process. The result counts only if that process is still the
    /// node afterwards.
    ///
    /// # Errors
    /// The system's error if it did not copy.
    pub(super) fn read_by_kernel(&self, op: &ReadOp, pid: i32) -> io::Result<NearRead> {
        let seen = match self.find(&op.range) {
            None => return Ok(NearRead::Unknown),
            Some(Err(error)) => return Ok(NearRead::Over(Err(error))),
            Some(Ok(seen)) => seen,
        };
        if self.verifies && !verify::is_checkable(&op.range, &seen.row) {
            return Ok(NearRead::Unknown);
        }
        let start = op.range.offset.checked_add(op.range.from);
        let end = start.and_then(|start| start.checked_add(op.range.len));
        let (Some(start), Some(..)) = (start, end.filter(|&end| end <= self.shared.len)) else {
            return Ok(NearRead::Unknown);
        };
        let mut address = self.shared.address.wrapping_add(start);
        for &piece in op.dst.slices() {
            copy_from_process(pid, address, piece)?;
            address = address.wrapping_add(piece.len() as u64);
        }
        Ok(self.settled(&seen, op))
    }

    /// Copies the range out of the memory that is mapped here.
    pub(super) fn read(&self, op: &ReadOp) -> NearRead {
        let (memory, seen) = match self.locate(&op.range) {
            Ok(found) => found,
            Err(look) => return look,
        };
        if self.verifies && !verify::is_checkable(&op.range, &seen.row) {
            return NearRead::Unknown;
        }
        if let Err(error) = copy_out(memory, &op.dst) {
            return NearRead::Over(Err(error));
        }
        self.settled(&seen, op)
    }

    /// Where the range lies in the memory that is mapped here, and its slot.
    fn locate(&self, range: &RangeRead) -> Result<(RawSlice<'_>, SeenSlot), NearRead> {
        let region = self.region.as_ref().ok_or(NearRead::Unknown)?;
        let seen = match self.find(range) {
            None => return Err(NearRead::Unknown),
            Some(Err(error)) => return Err(NearRead::Over(Err(error))),
            Some(Ok(seen)) => seen,
        };
        let start = range.offset.checked_add(range.from);
        let memory = start.and_then(|start| region.slice(start, range.len).ok());
        // The table does not fit this memory: the node must be asked.
        Ok((memory.ok_or(NearRead::Unknown)?, seen))
    }

    /// The result after the copy: stale if the node dropped the entry meanwhile.
    fn settled(&self, seen: &SeenSlot, op: &ReadOp) -> NearRead {
        NearRead::Over(match self.still_holds(seen) {
            false => Err(TransferError::Stale),
            true if self.verifies => verify::check(op, &seen.row),
            true => Ok(()),
        })
    }
}

/// Copies ranges from memory that is mapped here to devices, in one batch.
pub(super) fn read_to_devices(reads: &[(&NearSegment, &ReadOp)]) -> Vec<NearRead> {
    let located: Vec<_> = reads.iter().map(|(segment, op)| segment.locate(&op.range)).collect();
    let jobs = reads.iter().zip(&located).map(|((segment, op), located)| {
        let (memory, _) = located.as_ref().ok()?;
        Some(Job { memory: &op.dst, host: *memory, region: segment.region.as_ref() })
    });
    let copied = copy_some(Direction::ToDevice, jobs.collect(), &|_| true);
    let all = reads.iter().zip(located).zip(copied);
    let settle = all.map(|(((segment, op), located), copied)| match (located, copied) {
        (Err(look), _) => look,
        (Ok((_, seen)), Some(Ok(()))) => segment.settled(&seen, op),
        (Ok(_), Some(Err(error))) => NearRead::Over(Err(of_copy(&error))),
        (Ok(_), None) => unreachable!("what was found is copied"),
    });
    settle.collect()
}
