use std::sync::Arc;

use mooncake_fabric::{Direction, Part};
use mooncake_memory::{CopiedSlot, RemoteSlots};
use mooncake_types::ErrorCode;
use mooncake_types::limits::MAX_BEGIN_RANGES;

use super::ask::FarAsker;
use super::bytes::{BytesReader, FoundBytes};
use super::carrier::{Far, FarVisit, reopen};
use super::peer::{FarPeer, FarSegment};
use super::staging::StagingBuffer;
use crate::carrier::{Fate, Pending};
use crate::{ReadOp, Source, TransferError};

/// Most reads that are proven together: their slots fit into a staging buffer.
const MAX_TOGETHER: usize = 512;

/// Most sets of slots that are read for a range.
const MAX_SETS: usize = 4;

/// Longer ranges are so few that their slots lie in the first set.
const FIRST_SET_BYTES: u64 = 128 << 10;

/// Where the first words of tables are copied to, behind the slots.
const CLOSED_AT: usize = MAX_TOGETHER * RemoteSlots::SLOT_BYTES;

/// Reads from nodes of other hosts.
pub(super) struct FarReads<'a> {
    pub(super) far: &'a Far,
    pub(super) ops: &'a [ReadOp<'a>],
    pub(super) visits: Vec<FarVisit>,
}

/// A read of which the slot was found.
struct FoundRead<'a> {
    position: usize,
    op: &'a ReadOp<'a>,
    segment: Arc<FarSegment>,
    slot: CopiedSlot,
}

impl Pending for FarReads<'_> {
    fn complete(self: Box<Self>, fates: &mut [Fate]) -> bool {
        for visit in &self.visits {
            let lease = match self.far.staging.lease() {
                Ok(lease) => lease,
                Err(error) => {
                    visit
                        .positions
                        .iter()
                        .for_each(|&at| fates[at] = Fate::Over(Err(error.clone())));
                    continue;
                }
            };
            let (far, peer, ops, staging) = (self.far, &*visit.peer, self.ops, &*lease);
            if far.asks {
                let asker = FarAsker { far, peer, ops, staging };
                for positions in visit.positions.chunks(MAX_BEGIN_RANGES) {
                    if let Err(fault) = asker.read(positions, fates) {
                        tracing::debug!(peer = %peer.endpoint(), ?fault, "ranges are read by message");
                    }
                }
                continue;
            }
            let reader = FarReader { far, peer, ops, staging };
            for positions in visit.positions.chunks(MAX_TOGETHER) {
                if let Err(error) = reader.read(positions, fates) {
                    self.far.lose(&visit.peer, &error);
                    break;
                }
            }
        }
        reopen(fates, &self.visits)
    }
}

/// Reads of one node. Each step has ended before the next begins.
struct FarReader<'a> {
    far: &'a Far,
    peer: &'a FarPeer,
    ops: &'a [ReadOp<'a>],
    staging: &'a StagingBuffer,
}

impl<'a> FarReader<'a> {
    /// Reads some ranges. Those without a slot stay begun.
    fn read(
        &self,
        positions: &[usize],
        fates: &mut [Fate],
    ) -> Result<(), mooncake_fabric::TransferError> {
        let found = self.find_slots(positions, fates)?;
        let bytes = found.iter().map(|read| {
            let range = &read.op.range;
            let offset = range.offset.saturating_add(range.from);
            FoundBytes {
                position: read.position,
                op: read.op,
                remote: &read.segment.memory,
                offset,
            }
        });
        let bytes: Vec<FoundBytes<'_>> = bytes.collect();
        let (far, peer, staging) = (self.far, self.peer, self.staging);
        BytesReader { far, peer, by: &peer.readers, staging }.read(&bytes, fates)?;
        self.prove(&found, fates)
    }

    /// Copies the sets in which the slots of the ranges may be.
    fn find_slots(
        &self,
        positions: &[usize],
        fates: &mut [Fate],
    ) -> Result<Vec<FoundRead<'a>>, mooncake_fabric::TransferError> {
        let lent = positions.iter().filter_map(|&position| {
            let op = &self.ops[position];
            Some((position, op, self.peer.segment(op.range.segment)?))
        });
        let lent: Vec<(usize, &ReadOp<'a>, Arc<FarSegment>)> = lent.collect();
        let (mut parts, mut looks) = (Vec::new(), Vec::new());
        for (index, (_, op, segment)) in lent.iter().enumerate() {
            let sets = if op.range.len < FIRST_SET_BYTES { MAX_SETS } else { 1 };
            for set in segment.slots.sets(op.range.offset).take(sets) {
                let at = parts.len() * RemoteSlots::SET_BYTES;
                let local = self.staging.slots.sub(at, RemoteSlots::SET_BYTES);
                parts.push(Part { local, remote: &segment.table, offset: set });
                looks.push((index, set));
            }
        }
        self.transfer(&parts)?;
        let mut slots: Vec<Option<CopiedSlot>> = vec![None; lent.len()];
        for (part, (index, set)) in parts.iter().zip(looks) {
            let mut copy = [0; RemoteSlots::SET_BYTES];
            part.local.raw().read_into(&mut copy);
            let found = || RemoteSlots::find(&copy, set, lent[index].1.range.offset);
            slots[index] = slots[index].or_else(found);
        }
        drop(parts);
        let found = lent.into_iter().zip(slots).filter_map(|((position, op, segment), slot)| {
            let slot = slot?;
            match check(op, &slot) {
                Ok(()) => Some(FoundRead { position, op, segment, slot }),
                Err(error) => {
                    fates[position] = Fate::Over(Err(error));
                    None
                }
            }
        });
        Ok(found.collect())
    }

    /// Copies the slots again: bytes count if their slot has not changed, and their segment is lent still.
    fn prove(
        &self,
        found: &[FoundRead<'_>],
        fates: &mut [Fate],
    ) -> Result<(), mooncake_fabric::TransferError> {
        let slot_at = |index: usize| {
            self.staging.slots.sub(index * RemoteSlots::SLOT_BYTES, RemoteSlots::SLOT_BYTES)
        };
        let closed_at = |index: usize| self.staging.slots.sub(CLOSED_AT + index * 8, 8);
        let parts = found.iter().enumerate().flat_map(|(index, read)| {
            let (remote, offset) = (&read.segment.table, read.slot.offset);
            [
                Part { local: slot_at(index), remote, offset },
                Part { local: closed_at(index), remote, offset: 0 },
            ]
        });
        self.transfer(&parts.collect::<Vec<Part<'_>>>())?;
        for (index, read) in found.iter().enumerate() {
            let (mut slot, mut closed) = ([0; RemoteSlots::SLOT_BYTES], [0; 8]);
            slot_at(index).raw().read_into(&mut slot);
            closed_at(index).raw().read_into(&mut closed);
            let holds = read.slot.is_unchanged(&slot) && closed == [0; 8];
            if !fates[read.position].is_over() {
                let result = if holds { Ok(Source::Fabric) } else { Err(TransferError::Stale) };
                fates[read.position] = Fate::Over(result);
            }
        }
        Ok(())
    }

    fn transfer(&self, parts: &[Part<'_>]) -> Result<(), mooncake_fabric::TransferError> {
        if parts.is_empty() {
            return Ok(());
        }
        let bytes = parts.iter().map(|part| part.local.len() as u64).sum();
        self.peer.readers.submit(Direction::Read, parts)?.wait(self.peer.deadline(bytes))
    }
}

/// Whether a slot holds the range.
fn check(op: &ReadOp<'_>, slot: &CopiedSlot) -> Result<(), TransferError> {
    let (range, row) = (&op.range, &slot.row);
    if (row.version, row.object_offset) != (range.version, range.object_offset) {
        return Err(TransferError::Stale);
    }
    match range.from.checked_add(range.len).filter(|&end| end <= row.len) {
        Some(_) => Ok(()),
        None => Err(TransferError::Refused(ErrorCode::InvalidParams)),
    }
}
