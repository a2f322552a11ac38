use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use bytes::Bytes;
use mooncake_connection::{Connection, Fault, is_quiet};
use mooncake_fabric::{Batch as Requests, Direction, Part, RemoteMemory};
use mooncake_memory::gather_from_caller;
use mooncake_types::limits::MAX_BEGIN_RANGES;
use mooncake_types::{Epoch, ErrorCode, RangeWrite};
use mooncake_wire::{Begun, Kind, decode_begun, decode_results, encode_begin, encode_complete};

use super::carrier::{Far, FarVisit, InPlace, reopen};
use super::peer::{FarPeer, check_count};
use super::staging::{StagedPiece, StagingBuffer, windows};
use crate::carrier::{Fate, Pending};
use crate::copy_out::bad_memory;
use crate::{Source, TransferError, WriteOp};

/// A shorter range is written by message: one question instead of two.
pub(super) const MIN_ONE_SIDED_BYTES: u64 = 64 << 10;

/// Writes to nodes of other hosts.
pub(super) struct FarWrites<'a> {
    pub(super) far: &'a Far,
    pub(super) epoch: Epoch,
    pub(super) ops: &'a [WriteOp<'a>],
    pub(super) visits: Vec<FarVisit>,
}

impl Pending for FarWrites<'_> {
    fn complete(self: Box<Self>, fates: &mut [Fate]) -> bool {
        for FarVisit { peer, positions, in_place } in &self.visits {
            let lease = match self.far.staging.lease() {
                Ok(lease) => lease,
                Err(error) => {
                    positions.iter().for_each(|&at| fates[at] = Fate::Over(Err(error.clone())));
                    continue;
                }
            };
            let FarWrites { far, epoch, ops, .. } = *self;
            let writer = FarWriter { far, peer, epoch, ops, staging: &lease, in_place };
            let is_lent =
                |&&at: &&usize| self.far.asks || peer.segment(self.ops[at].range.segment).is_some();
            let lent: Vec<usize> = positions.iter().filter(is_lent).copied().collect();
            for positions in lent.chunks(MAX_BEGIN_RANGES) {
                // Without a connection nothing begins, and another carrier may do it.
                let Ok(connection) = peer.connection() else { break };
                let results = writer.write(connection, positions).unwrap_or_else(|fault| {
                    let error = TransferError::of_fault(&fault, peer.endpoint());
                    positions.iter().map(|_| Some(Err(error.clone()))).collect()
                });
                for (&position, result) in positions.iter().zip(results) {
                    if let Some(result) = result {
                        fates[position] = Fate::Over(result.map(|()| Source::Fabric));
                    }
                }
            }
        }
        reopen(fates, &self.visits)
    }
}

/// The result of each write; `None` if it has to take another way.
type Written = Vec<Option<Result<(), TransferError>>>;

/// Writes to one node.
struct FarWriter<'a> {
    far: &'a Far,
    peer: &'a FarPeer,
    epoch: Epoch,
    ops: &'a [WriteOp<'a>],
    staging: &'a StagingBuffer,
    in_place: &'a InPlace,
}

impl FarWriter<'_> {
    /// Asks the node for the ranges, moves the bytes, and reports the results. On a fault the connection ends: the node
    /// makes the keys invalid, and abandons the writes.
    fn write(&self, mut connection: Connection, positions: &[usize]) -> Result<Written, Fault> {
        let ops: Vec<&WriteOp<'_>> = positions.iter().map(|&at| &self.ops[at]).collect();
        let ranges: Vec<RangeWrite<'_>> = ops.iter().map(|op| op.range).collect();
        let begin = |out: &mut Vec<u8>, id| encode_begin(out, id, self.epoch, &ranges);
        let Begun { address, ranges } = decode_begun(&connection.call(begin, Kind::Begun)?)?;
        check_count(ranges.len(), ops.len())?;
        let mut results: Vec<Result<(), TransferError>> = Vec::with_capacity(ops.len());
        let mut begun: Vec<(usize, RemoteMemory)> = Vec::new();
        for (index, range) in ranges.into_iter().enumerate() {
            results.push(range.map_err(TransferError::Refused).and_then(|memory| {
                let memory = self.peer.described(&memory, ops[index].range.len)?;
                begun.push((index, memory));
                Ok(())
            }));
        }
        let has_a_way: Vec<bool> = results.iter().map(|result| !is_no_way(result)).collect();
        let moved = self.move_bytes(&connection, (&address, &begun), positions, &mut results);
        let may_be_late = moved.inspect_err(|_| self.peer.forget_writer(&address))?;
        let done: Vec<Result<(), ErrorCode>> = results
            .iter()
            .map(|it| it.as_ref().map_err(|_| ErrorCode::TransferFail).copied())
            .collect();
        let complete = |out: &mut Vec<u8>, id| encode_complete(out, id, &done, may_be_late);
        let completed = decode_results(&connection.call(complete, Kind::CompleteReply)?)?;
        check_count(completed.len(), ops.len())?;
        // The node has closed its endpoint if one of the writes that it began did not end well, or may be late.
        match !may_be_late && begun.iter().all(|(index, _)| results[*index].is_ok()) {
            true => self.peer.give_back(connection),
            false => self.peer.forget_writer(&address),
        }
        let both = results.into_iter().zip(completed);
        let both = both.map(|(moved, done)| moved.and(done.map_err(TransferError::Refused)));
        Ok(both.zip(has_a_way).map(|(result, has_a_way)| has_a_way.then_some(result)).collect())
    }

    /// Moves the bytes of the ranges that were begun, out of memory of callers that is known in place. For others, one
    /// half of the staging buffer is in flight while the other is filled. Returns whether a way to the node has broken: what
    /// it had under way may arrive after others have moved the same bytes.
    fn move_bytes(
        &self,
        connection: &Connection,
        (address, begun): (&Bytes, &[(usize, RemoteMemory)]),
        positions: &[usize],
        results: &mut [Result<(), TransferError>],
    ) -> Result<bool, Fault> {
        if begun.is_empty() {
            return Ok(false);
        }
        let writer = self.peer.writer(address).map_err(|reason| {
            self.peer.lose();
            Fault::Protocol(reason)
        })?;
        let held = |index: usize| self.in_place.get(&positions[index]);
        let each = begun.iter().filter_map(|(index, remote)| Some((held(*index)?, remote, 0)));
        let placed = self.far.submit_in_place((&writer, Direction::Write), each);
        let placed = placed.map_err(|error| self.far.fault(self.peer, &error))?;
        let staged = |(index, _): &(usize, _)| match held(*index) {
            Some(_) => 0,
            None => self.ops[positions[*index]].range.len,
        };
        let mut in_flight: VecDeque<(Requests, u64)> = VecDeque::new();
        for (number, window) in windows(begun.iter().map(staged)).iter().enumerate() {
            if in_flight.len() == 2 {
                self.land(in_flight.pop_front())?;
            }
            if !is_quiet(connection.stream().as_fd()) {
                return Err(Fault::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            let parts = window.iter().filter_map(|piece| {
                let (index, remote) = &begun[piece.index];
                let local = self.staging.halves[number % 2].sub(piece.at, piece.len as usize);
                match gather(&self.ops[positions[*index]], piece, local.raw()) {
                    Ok(()) => Some(Part { local: local.into(), remote, offset: piece.from }),
                    Err(error) => {
                        results[*index] = Err(error);
                        None
                    }
                }
            });
            let parts: Vec<Part<'_>> = parts.collect();
            let bytes = parts.iter().map(|part| part.local.len() as u64).sum();
            let requests = writer.submit(Direction::Write, &parts);
            in_flight
                .push_back((requests.map_err(|error| self.far.fault(self.peer, &error))?, bytes));
        }
        while !in_flight.is_empty() {
            self.land(in_flight.pop_front())?;
        }
        self.land(placed)?;
        Ok(writer.has_lost_ways())
    }

    fn land(&self, landing: Option<(Requests, u64)>) -> Result<(), Fault> {
        let Some((requests, bytes)) = landing else { return Ok(()) };
        requests.wait(self.peer.deadline(bytes)).map_err(|error| self.far.fault(self.peer, &error))
    }
}

fn gather(
    op: &WriteOp<'_>,
    piece: &StagedPiece,
    dst: mooncake_memory::RawSlice<'_>,
) -> Result<(), TransferError> {
    gather_from_caller(op.src.sub(piece.from, piece.len), dst).map_err(|error| bad_memory(&error))
}

/// Whether the node has no key for the range: then the bytes go by message.
fn is_no_way(result: &Result<(), TransferError>) -> bool {
    *result == Err(TransferError::Refused(ErrorCode::NoAvailableHandle))
}
