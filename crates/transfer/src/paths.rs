use mooncake_types::{Epoch, SegmentId};

use crate::{DropOp, LocalTransport, ReadOp, TcpTransport, TransferError, Transport, WriteOp};

/// Every way to nodes that this process has: a copy for its own segments, TCP for all others.
pub struct Paths {
    /// To this process's own segments, if it hosts any.
    pub local: Option<LocalTransport>,
    /// To everybody else's.
    pub tcp: TcpTransport,
}

impl Paths {
    fn local_for(&self, segment: SegmentId) -> Option<&LocalTransport> {
        self.local.as_ref().filter(|local| local.owns(segment))
    }

    /// Has nodes drop entries, by whichever way is nearest; see [`TcpTransport::drop_ranges`].
    #[must_use]
    pub fn drop_ranges(&self, ops: &[DropOp]) -> Vec<Result<(), TransferError>> {
        let drop_here = |op: &DropOp| {
            let local = self.local_for(op.range.segment)?;
            local.drop_one(op);
            Some(Ok(()))
        };
        let local: Vec<_> = ops.iter().map(drop_here).collect();
        let away = |position: usize| local[position].is_none();
        let mut results = self.tcp.drop_where(ops, away);
        settle(&mut results, local);
        results
    }
}

impl Transport for Paths {
    fn read(&self, ops: &[ReadOp]) -> Vec<Result<(), TransferError>> {
        let local: Vec<_> =
            ops.iter().map(|op| Some(self.local_for(op.range.segment)?.read_one(op))).collect();
        let away = |position: usize| local[position].is_none();
        let mut results = self.tcp.read_where(ops, away);
        settle(&mut results, local);
        results
    }

    fn write(&self, epoch: Epoch, ops: &[WriteOp<'_>]) -> Vec<Result<(), TransferError>> {
        let local: Vec<_> = ops
            .iter()
            .map(|op| Some(self.local_for(op.range.segment)?.write_one(epoch, op)))
            .collect();
        let away = |position: usize| local[position].is_none();
        let mut results = self.tcp.write_where(epoch, ops, away);
        settle(&mut results, local);
        results
    }
}

fn settle(
    results: &mut [Result<(), TransferError>],
    local: Vec<Option<Result<(), TransferError>>>,
) {
    for (result, local) in results.iter_mut().zip(local) {
        if let Some(local) = local {
            *result = local;
        }
    }
}
