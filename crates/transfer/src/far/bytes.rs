use std::collections::VecDeque;

use mooncake_fabric::{Batch as Requests, Direction, Part, Peer, RemoteMemory};

use super::carrier::{Far, InPlace};
use super::peer::FarPeer;
use super::staging::{StagedPiece, StagingBuffer, windows};
use crate::ReadOp;
use crate::carrier::Fate;
use crate::copy_out::copy_out;

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
}

impl BytesReader<'_> {
    /// Copies the bytes, to memory of callers that is known in place. For others, one half of the staging buffer is copied
    /// to callers while the other is in flight.
    pub(super) fn read(
        &self,
        found: &[FoundBytes<'_>],
        fates: &mut [Fate],
    ) -> Result<(), mooncake_fabric::TransferError> {
        let mut in_place: InPlace =
            found.iter().map(|read| self.far.known.hold(&read.op.dst)).collect();
        let each = found.iter().enumerate().map(|(index, read)| (index, read.remote, read.offset));
        let by = (self.by, Direction::Read);
        let placed = self.far.submit_in_place(by, &mut in_place, each)?;
        let staged = |(read, held): (&FoundBytes<'_>, &Option<_>)| match held {
            Some(_) => 0,
            None => read.op.range.len,
        };
        let windows = windows(found.iter().zip(&in_place).map(staged));
        let mut in_flight: VecDeque<(Requests, usize, u64)> = VecDeque::new();
        for (number, window) in windows.iter().enumerate() {
            if in_flight.len() == 2 {
                self.land(&windows, found, in_flight.pop_front(), fates)?;
            }
            let parts = window.iter().map(|piece| {
                let FoundBytes { remote, offset, .. } = &found[piece.index];
                let local = self.staging.halves[number % 2].sub(piece.at, piece.len as usize);
                Part { local, remote, offset: offset.saturating_add(piece.from) }
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
        requests.wait(self.peer.deadline(bytes))
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
