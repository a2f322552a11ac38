use std::collections::{BTreeMap, VecDeque};

use mooncake_fabric::{Batch as Requests, Direction, Part, Peer, RemoteMemory};
use mooncake_memory::HeldMemory;

use super::carrier::{Far, InPlace};
use super::peer::FarPeer;
use super::staging::{StagedPiece, StagingBuffer, windows};
use crate::carrier::Fate;
use crate::copy_out::copy_out;
use crate::{ReadOp, TransferError};

/// Bytes to read for an operation: where they lie in memory of the node.
pub(super) struct FoundBytes<'r> {
    pub(super) position: usize,
    pub(super) op: &'r ReadOp<'r>,
    pub(super) remote: &'r RemoteMemory,
    pub(super) offset: u64,
}

/// Copies bytes of one node to callers.
pub(super) struct BytesReader<'a> {
    pub(super) far: &'a Far,
    pub(super) peer: &'a FarPeer,
    /// The endpoint of the node by which the bytes are reached.
    pub(super) by: &'a Peer,
    pub(super) staging: &'a StagingBuffer,
    pub(super) in_place: &'a InPlace,
}

impl BytesReader<'_> {
    /// Copies the bytes, to memory of callers that is known in place. For others, one half of the staging buffer is copied
    /// to callers while the other is in flight.
    pub(super) fn read(
        &self,
        found: &[FoundBytes<'_>],
        fates: &mut [Fate],
    ) -> Result<(), mooncake_fabric::TransferError> {
        let held = |read: &FoundBytes<'_>| self.in_place.get(&read.position);
        let each = found.iter().filter_map(|read| Some((held(read)?, read.remote, read.offset)));
        let placed = self.far.submit_in_place((self.by, Direction::Read), each)?;
        let staged = |read: &FoundBytes<'_>| match held(read) {
            Some(_) => 0,
            None => read.op.range.len,
        };
        let windows = windows(found.iter().map(staged));
        let mut in_flight: VecDeque<(Requests, usize, u64)> = VecDeque::new();
        for (number, window) in windows.iter().enumerate() {
            if in_flight.len() == 2 {
                self.land(&windows, found, in_flight.pop_front(), fates)?;
            }
            let parts = window.iter().map(|piece| {
                let FoundBytes { remote, offset, .. } = &found[piece.index];
                let local = self.staging.halves[number % 2].sub(piece.at, piece.len as usize);
                Part { local: local.into(), remote, offset: offset.saturating_add(piece.from) }
            });
            let parts: Vec<Part<'_>> = parts.collect();
            let bytes = window.iter().map(|piece| piece.len).sum();
            let requests = self.by.submit(Direction::Read, &parts)?;
            in_flight.push_back((requests, number, bytes));
        }
        while !in_flight.is_empty() {
            self.land(&windows, found, in_flight.pop_front(), fates)?;
        }
        let Some((requests, bytes)) = placed else { return Ok(()) };
        requests.wait(self.peer.deadline(bytes))?;
        self.settle(found, fates);
        Ok(())
    }

    /// Lets devices see the bytes that were read into their memory.
    fn settle(&self, found: &[FoundBytes<'_>], fates: &mut [Fate]) {
        let mut settled: BTreeMap<u32, Result<(), String>> = BTreeMap::new();
        for read in found {
            for memory in self.in_place.get(&read.position).into_iter().flatten() {
                let HeldMemory::Device(slice) = memory else { continue };
                let region = slice.region();
                let settle = || region.access().settle();
                if let Err(reason) = settled.entry(region.ordinal()).or_insert_with(settle) {
                    let reason = reason.clone();
                    fates[read.position] = Fate::Over(Err(TransferError::BadMemory { reason }));
                }
            }
        }
    }

    /// Waits for a window, and copies it to the callers.
    fn land(
        &self,
        windows: &[Vec<StagedPiece>],
        found: &[FoundBytes<'_>],
        landing: Option<(Requests, usize, u64)>,
        fates: &mut [Fate],
    ) -> Result<(), mooncake_fabric::TransferError> {
        let Some((requests, number, bytes)) = landing else { return Ok(()) };
        requests.wait(self.peer.deadline(bytes))?;
        for piece in &windows[number] {
            let FoundBytes { op, position, .. } = &found[piece.index];
            let memory = self.staging.halves[number % 2].sub(piece.at, piece.len as usize);
            let copied = match op.range.len == piece.len {
                true => copy_out(memory.raw(), &op.dst),
                false => copy_out(memory.raw(), &op.dst.part(piece.from, piece.len)),
            };
            if let Err(error) = copied {
                fates[*position] = Fate::Over(Err(error));
            }
        }
        Ok(())
    }
}
