use std::sync::atomic::{AtomicU64, Ordering};

use mooncake_transfer::{DataServer, Paths, ReadOp, TransferError, Transport, WriteOp};
use mooncake_types::{Epoch, ErrorCode, Request, SegmentId};

use super::memory::Memory;
use crate::chance::Chance;
use crate::clock::Clock;
use crate::heartbeat::Heartbeat;
use crate::node::Populating;
use crate::ops::{CallError, Deposit, Fetch, MoveError, Op, Step};
use crate::rpc::{Dialer, Pool};

/// Everything of an open store. Each call holds it until it returns, so that closing takes nothing away from under
/// a transfer.
pub(super) struct Session {
    pub(super) clock: Clock,
    pub(super) own: Vec<SegmentId>,
    pub(super) pool: Pool,
    pub(super) paths: Paths,
    pub(super) heartbeat: Heartbeat,
    pub(super) server: Option<DataServer>,
    /// The port of a process that serves nothing, held so that its hostname is its own.
    pub(super) _held_port: Option<socket2::Socket>,
    /// For saying goodbye, which is not worth a long wait.
    pub(super) goodbye: Dialer,
    pub(super) _populating: Populating,
    pub(super) choices: AtomicU64,
}

impl Session {
    /// A generator for the choices of one operation.
    pub(super) fn chance(&self) -> Chance {
        Chance::new(self.choices.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed))
    }

    /// Runs an operation to its end on this thread.
    pub(super) fn drive<'a, O: Op<'a>>(&self, mut op: O, mut memory: impl Memory) -> O::Output {
        self.drive_with(&mut op, &mut memory);
        op.finish()
    }

    /// As [`Session::drive`], for callers that want their memory back.
    pub(super) fn drive_with<'a>(&self, op: &mut impl Op<'a>, memory: &mut impl Memory) {
        loop {
            match op.next(self.clock.now()) {
                Step::Call(request) => {
                    let reply = self.pool.call(&request);
                    if let Err(error) = &reply {
                        log_call(error);
                    }
                    op.on_reply(self.clock.now(), reply);
                }
                Step::Read(fetches) => op.on_transfer(self.read(fetches, memory)),
                Step::Write(epoch, deposits) => {
                    op.on_transfer(self.write(epoch, deposits, memory));
                }
                Step::Done => return,
            }
        }
    }

    fn read(&self, fetches: Vec<Fetch>, memory: &mut impl Memory) -> Vec<Result<(), MoveError>> {
        let mut ops = Vec::with_capacity(fetches.len());
        let mut has_room = Vec::with_capacity(fetches.len());
        for Fetch { position, endpoint, range, object_from, object_len } in fetches {
            let dst = memory.part(position, object_from, range.len, object_len);
            has_room.push(dst.is_some());
            ops.extend(dst.map(|dst| ReadOp { endpoint, range, dst }));
        }
        let mut results = self.paths.read(&ops).into_iter().map(|result| result.map_err(why));
        has_room
            .into_iter()
            .map(|has_room| match has_room {
                true => results.next().expect("one result per range"),
                false => Err(MoveError::Refused(ErrorCode::BufferOverflow)),
            })
            .collect()
    }

    fn write(
        &self,
        epoch: Epoch,
        deposits: Vec<Deposit<'_>>,
        memory: &mut impl Memory,
    ) -> Vec<Result<(), MoveError>> {
        let ops: Vec<WriteOp<'_>> = deposits
            .into_iter()
            .map(|Deposit { position, endpoint, range }| {
                let part = memory.part(position, range.object_offset, range.len, range.object_len);
                WriteOp { endpoint, range, src: part.expect("a put has its bytes") }
            })
            .collect();
        let results = self.paths.write(epoch, &ops).into_iter();
        results.map(|result| result.map_err(why)).collect()
    }

    /// Leaves the pool: nothing is pinged any more, the segments are taken back, and nobody is served.
    pub(super) fn leave(&self) {
        // First of all the heartbeat: it would mount the segments again.
        self.heartbeat.stop();
        if let Err(error) = self.unmount() {
            tracing::info!(%error, "the master was not told that this client leaves");
        }
        self.pool.clear();
        if let Some(server) = &self.server {
            server.stop();
        }
    }

    fn unmount(&self) -> Result<(), CallError> {
        if self.own.is_empty() {
            return Ok(());
        }
        let mut dialed =
            (0..self.goodbye.addresses.len()).map(|address| self.goodbye.dial(address));
        let connection = dialed.find_map(|dialed| dialed.ok().map(|(connection, _)| connection));
        let unreachable = || CallError::Unreachable { reason: "nobody answers".to_owned() };
        let mut connection = connection.ok_or_else(unreachable)?;
        for &id in &self.own {
            let request = Request::UnmountSegment { id, grace_ms: 0 };
            connection.call(&request).map_err(|failure| failure.error)?;
        }
        Ok(())
    }
}

/// What a failed transfer means to an operation.
fn why(error: TransferError) -> MoveError {
    tracing::debug!(%error, "a range was not moved");
    match error {
        TransferError::Stale => MoveError::Stale,
        // It has no connection left for us, and so cannot be reached; it says nothing about the range.
        TransferError::Refused(ErrorCode::UnavailableInCurrentStatus) => MoveError::Broken,
        TransferError::Refused(code) => MoveError::Refused(code),
        TransferError::BadMemory { .. } => MoveError::Refused(ErrorCode::InvalidParams),
        TransferError::Unreachable { .. }
        | TransferError::TimedOut { .. }
        | TransferError::Corrupt { .. }
        | TransferError::Protocol { .. } => MoveError::Broken,
    }
}

fn log_call(error: &CallError) {
    tracing::debug!(%error, "a call to the master failed");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_transfer_means_that_the_node_the_route_or_the_call_is_wrong() {
        let endpoint = || "node:1".into();
        let reason = || "gone".to_owned();
        for (error, meaning) in [
            (TransferError::Stale, MoveError::Stale),
            (
                TransferError::Refused(ErrorCode::InvalidVersion),
                MoveError::Refused(ErrorCode::InvalidVersion),
            ),
            (TransferError::Refused(ErrorCode::UnavailableInCurrentStatus), MoveError::Broken),
            (
                TransferError::BadMemory { reason: reason() },
                MoveError::Refused(ErrorCode::InvalidParams),
            ),
            (
                TransferError::Unreachable { endpoint: endpoint(), reason: reason() },
                MoveError::Broken,
            ),
            (TransferError::TimedOut { endpoint: endpoint() }, MoveError::Broken),
            (TransferError::Corrupt { endpoint: endpoint() }, MoveError::Broken),
            (TransferError::Protocol { endpoint: endpoint(), reason: reason() }, MoveError::Broken),
        ] {
            assert_eq!(why(error.clone()), meaning, "{error:?}");
        }
    }
}
