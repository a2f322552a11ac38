use std::sync::Arc;

use mooncake_fabric::{Direction, Part};
use mooncake_memory::{CopiedSlot, RemoteSlots};
use mooncake_types::ErrorCode;
use mooncake_types::limits::MAX_BEGIN_RANGES;

use super::ask::FarAsker;
use super::bytes::{BytesReader, FoundBytes};
use super::carrier::{Far, FarVisit, InPlace, reopen};
use super::peer::{FarPeer, FarSegment};
use super::staging::StagingBuffer;
use crate::carrier::{Fate, Pending};
use crate::{ReadOp, Source, TransferError, verify};

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

/// A read of a segment that the node lends: its position, what is asked for, and the segment.
type LentRead<'a> = (usize, &'a ReadOp<'a>, Arc<FarSegment>);

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
            let in_place = &visit.in_place;
            if far.asks {
                let asker = FarAsker { far, peer, ops, staging, in_place };
                for positions in visit.positions.chunks(MAX_BEGIN_RANGES) {
                    if let Err(fault) = asker.read(positions, fates) {
                        tracing::debug!(peer = %peer.endpoint(), ?fault, "ranges are read by message");
                    }
                }
                continue;
            }
            let reader = FarReader { far, peer, ops, staging, in_place };
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
    in_place: &'a InPlace,
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
        let FarReader { far, peer, staging, in_place, .. } = *self;
        BytesReader { far, peer, by: &peer.readers, staging, in_place }.read(&bytes, fates)?;
        self.prove(&found, fates)
    }

    /// Copies the sets in which the slots of the ranges may be: first the likeliest of each, then all others of those
    /// that were not there.
    fn find_slots(
        &self,
        positions: &[usize],
        fates: &mut [Fate],
    ) -> Result<Vec<FoundRead<'a>>, mooncake_fabric::TransferError> {
        let lent = positions.iter().filter_map(|&position| {
            let op = &self.ops[position];
            Some((position, op, self.peer.segment(op.range.segment)?))
        });
        let lent: Vec<LentRead<'a>> = lent.collect();
        let mut slots: Vec<Option<CopiedSlot>> = vec![None; lent.len()];
        self.look(&lent, &mut slots, |segment, op| segment.slots.sets(op.range.offset).take(1))?;
        self.look(&lent, &mut slots, |segment, op| {
            let others = if op.range.len < FIRST_SET_BYTES { MAX_SETS - 1 } else { 0 };
            segment.slots.sets(op.range.offset).skip(1).take(others)
        })?;
        let found = lent.into_iter().zip(slots).filter_map(|((position, op, segment), slot)| {
            let slot = slot?;
            match check(op, &slot) {
                // TCP reads it.
                Ok(())
                    if self.far.config.verify_reads
                        && !verify::is_checkable(&op.range, &slot.row) =>
                {
                    None
                }
                Ok(()) => Some(FoundRead { position, op, segment, slot }),
                Err(error) => {
                    fates[position] = Fate::Over(Err(error));
                    None
                }
            }
        });
        Ok(found.collect())
    }

    /// Copies sets of the ranges that have no slot yet, and looks for it there.
    fn look<S: Iterator<Item = u64>>(
        &self,
        lent: &[LentRead<'a>],
        slots: &mut [Option<CopiedSlot>],
        sets: impl Fn(&FarSegment, &ReadOp<'a>) -> S,
    ) -> Result<(), mooncake_fabric::TransferError> {
        let (mut parts, mut looks) = (Vec::new(), Vec::new());
        for (index, (_, op, segment)) in lent.iter().enumerate() {
            if slots[index].is_some() {
                continue;
            }
            for set in sets(segment, op) {
                let at = parts.len() * RemoteSlots::SET_BYTES;
                let local = self.staging.slots.sub(at, RemoteSlots::SET_BYTES);
                looks.push((index, set, local.clone()));
                parts.push(Part { local: local.into(), remote: &segment.table, offset: set });
            }
        }
        self.transfer(&parts)?;
        for (index, set, local) in looks {
            let mut copy = [0; RemoteSlots::SET_BYTES];
            local.raw().read_into(&mut copy);
            let found = || RemoteSlots::find(&copy, set, lent[index].1.range.offset);
            slots[index] = slots[index].or_else(found);
        }
        Ok(())
    }

    /// Copies the slots again: bytes count if their slot has not changed, and their segment is lent still.
    fn prove(
        &self,
        found: &[FoundRead<'_>],
        fates: &mut [Fate],
    ) -> Result<(), mooncake_fabric::TransferError> {
        let mut segments: Vec<&Arc<FarSegment>> = Vec::new();
        for read in found {
            if !segments.iter().any(|known| Arc::ptr_eq(known, &read.segment)) {
                segments.push(&read.segment);
            }
        }
        let slot_at = |index: usize| {
            self.staging.slots.sub(index * RemoteSlots::SLOT_BYTES, RemoteSlots::SLOT_BYTES)
        };
        let closed_at = |index: usize| self.staging.slots.sub(CLOSED_AT + index * 8, 8);
        let slots = found.iter().enumerate().map(|(index, read)| {
            let (remote, offset) = (&read.segment.table, read.slot.offset);
            Part { local: slot_at(index).into(), remote, offset }
        });
        let closed = segments.iter().enumerate().map(|(index, segment)| {
            let remote = &segment.table;
            Part { local: closed_at(index).into(), remote, offset: 0 }
        });
        self.transfer(&slots.chain(closed).collect::<Vec<Part<'_>>>())?;
        let is_lent = |segment: &Arc<FarSegment>| {
            let mut closed = [0; 8];
            let index = segments.iter().position(|known| Arc::ptr_eq(known, segment));
            index.is_some_and(|index| {
                closed_at(index).raw().read_into(&mut closed);
                closed == [0; 8]
            })
        };
        for (index, read) in found.iter().enumerate() {
            let mut slot = [0; RemoteSlots::SLOT_BYTES];
            slot_at(index).raw().read_into(&mut slot);
            let holds = read.slot.is_unchanged(&slot) && is_lent(&read.segment);
            if !fates[read.position].is_over() {
                let proven = match holds {
                    false => Err(TransferError::Stale),
                    true if self.far.config.verify_reads => verify::check(read.op, &read.slot.row),
                    true => Ok(()),
                };
                fates[read.position] = Fate::Over(proven.map(|()| Source::Fabric));
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
