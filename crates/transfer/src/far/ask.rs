use bytes::Bytes;
use mooncake_connection::{Connection, Fault};
use mooncake_fabric::RemoteMemory;
use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::{Begun, Kind, decode_begun, decode_results, encode_expose, encode_results};

use super::bytes::{BytesReader, FoundBytes};
use super::carrier::{Far, InPlace};
use super::peer::{FarPeer, check_count};
use super::staging::StagingBuffer;
use crate::carrier::Fate;
use crate::{ReadOp, Source, TransferError};

/// Reads of one node whose memory has no table of slots: the node is asked for a key of just these ranges, and told when
/// they were read.
pub(super) struct FarAsker<'a> {
    pub(super) far: &'a Far,
    pub(super) peer: &'a FarPeer,
    pub(super) ops: &'a [ReadOp<'a>],
    pub(super) staging: &'a StagingBuffer,
    pub(super) in_place: &'a InPlace,
}

impl FarAsker<'_> {
    /// Reads some ranges. Those for which the node has no key stay begun. On a fault the connection ends, and the node makes
    /// the keys invalid.
    pub(super) fn read(&self, positions: &[usize], fates: &mut [Fate]) -> Result<(), Fault> {
        let mut connection = self.peer.connection()?;
        let ranges: Vec<RangeRead> = positions.iter().map(|&at| self.ops[at].range).collect();
        let expose = |out: &mut Vec<u8>, id| encode_expose(out, id, &ranges);
        let Begun { address, ranges } = decode_begun(&connection.call(expose, Kind::Begun)?)?;
        check_count(ranges.len(), positions.len())?;
        let mut exposed: Vec<Result<RemoteMemory, TransferError>> = Vec::new();
        for (range, &at) in ranges.into_iter().zip(positions) {
            let memory = range.map_err(TransferError::Refused);
            exposed.push(memory.and_then(|it| self.peer.described(&it, self.ops[at].range.len)));
        }
        let read = self.read_exposed(&address, (positions, &exposed), fates);
        read.inspect_err(|_| self.peer.forget_writer(&address))?;
        let completed = complete(&mut connection, &exposed)?;
        // The node has closed its endpoint if one of the ranges that it exposed was not read.
        match exposed.iter().all(|it| matches!(it, Ok(_) | Err(TransferError::Refused(_)))) {
            true => self.peer.give_back(connection),
            false => self.peer.forget_writer(&address),
        }
        for ((&at, exposed), completed) in positions.iter().zip(exposed).zip(completed) {
            let result = exposed.and(completed.map_err(TransferError::Refused));
            let has_no_way = result == Err(TransferError::Refused(ErrorCode::NoAvailableHandle));
            if !fates[at].is_over() && !has_no_way {
                fates[at] = Fate::Over(result.map(|()| Source::Fabric));
            }
        }
        Ok(())
    }

    /// Reads the ranges for which the node has a key.
    fn read_exposed(
        &self,
        address: &Bytes,
        (positions, exposed): (&[usize], &[Result<RemoteMemory, TransferError>]),
        fates: &mut [Fate],
    ) -> Result<(), Fault> {
        if exposed.iter().all(Result::is_err) {
            return Ok(());
        }
        let by = self.peer.writer(address).map_err(|reason| {
            self.peer.lose();
            Fault::Protocol(reason)
        })?;
        let FarAsker { far, peer, staging, in_place, .. } = *self;
        let found = exposed.iter().zip(positions).filter_map(|(exposed, &position)| {
            let (op, remote) = (&self.ops[position], exposed.as_ref().ok()?);
            Some(FoundBytes { position, op, remote, offset: 0 })
        });
        let found: Vec<FoundBytes<'_>> = found.collect();
        let read = BytesReader { far, peer, by: &by, staging, in_place }.read(&found, fates);
        read.map_err(|error| self.far.fault(self.peer, &error))
    }
}

/// Tells the node that all was read, and asks whether it held the memory until now.
fn complete(
    connection: &mut Connection,
    exposed: &[Result<RemoteMemory, TransferError>],
) -> Result<Vec<Result<(), ErrorCode>>, Fault> {
    let done: Vec<Result<(), ErrorCode>> = exposed
        .iter()
        .map(|it| it.as_ref().map(|_| ()).map_err(|_| ErrorCode::TransferFail))
        .collect();
    let complete = |out: &mut Vec<u8>, id| encode_results(out, Kind::Complete, id, &done);
    let completed = decode_results(&connection.call(complete, Kind::CompleteReply)?)?;
    check_count(completed.len(), exposed.len())?;
    Ok(completed)
}
