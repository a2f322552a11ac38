use std::sync::Arc;

use mooncake_types::{Epoch, ErrorCode};

use super::in_place::{self, Placed};
use super::known_peers::Near;
use super::neighbour::Neighbour;
use super::prefault::MIN_IN_PLACE_BYTES;
use super::segment::NearSegment;
use super::visit::Visit;
use crate::op::Settled;
use crate::{TcpTransport, TransferError, Way, WriteOp};

impl Near {
    /// Writes the unsettled operations whose nodes are on this host.
    pub(crate) fn write(
        &self,
        epoch: Epoch,
        ops: &[WriteOp<'_>],
        settled: &mut Settled,
        tcp: &TcpTransport,
    ) {
        if self.ways.near().is_empty() {
            return;
        }
        for (op, settled) in ops.iter().zip(&mut *settled).filter(|(_, it)| it.is_none()) {
            if op.src.total_len() != op.range.len {
                *settled = Some(Err(TransferError::Refused(ErrorCode::InvalidParams)));
            }
        }
        let open = ops.iter().enumerate().filter(|(position, _)| settled[*position].is_none());
        let open = open.map(|(position, op)| (position, &op.endpoint));
        let visits = self.visits(open, tcp, |position, neighbour| {
            let op = &ops[position];
            let segment = self.mapped(neighbour, op);
            // Other writes from devices are staged in host memory, and then come here again.
            (segment.is_some() || op.src.is_host()).then_some(segment)
        });
        let mut by_message = Vec::new();
        for Visit { neighbour, ops: visited } in visits {
            let (mut positions, mut placed) = (Vec::new(), Vec::new());
            for (position, segment) in visited {
                let op = &ops[position];
                if let Some(segment) = segment {
                    positions.push(position);
                    placed.push(Placed { op, segment });
                } else {
                    let endpoint = Arc::clone(&neighbour.endpoint);
                    by_message.push((position, WriteOp { endpoint, ..op.clone() }));
                }
            }
            let written = in_place::write(&neighbour, epoch, &placed);
            positions.into_iter().zip(written).for_each(|(at, result)| settled[at] = result);
        }
        self.write_by_message(epoch, by_message, settled);
    }

    /// The segment of a write, if it is mapped here and the write is long enough for two questions.
    fn mapped(&self, neighbour: &Neighbour, op: &WriteOp<'_>) -> Option<Arc<NearSegment>> {
        let may = self.ways.near().contains(&Way::Shm) && op.range.len >= MIN_IN_PLACE_BYTES;
        let segment = may.then(|| neighbour.segment(op.range.segment)).flatten()?;
        segment.region().is_some().then_some(segment)
    }

    fn write_by_message(
        &self,
        epoch: Epoch,
        ops: Vec<(usize, WriteOp<'_>)>,
        settled: &mut Settled,
    ) {
        if ops.is_empty() {
            return;
        }
        let (positions, ops): (Vec<usize>, Vec<WriteOp<'_>>) = ops.into_iter().unzip();
        let results = self.sockets.write_if_reached(epoch, &ops);
        for (position, result) in positions.into_iter().zip(results) {
            settled[position] = result;
        }
    }
}
