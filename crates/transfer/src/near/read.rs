use std::sync::Arc;

use mooncake_memory::with_helpers;
use mooncake_types::ErrorCode;

use super::known_peers::Near;
use super::neighbour::Neighbour;
use super::segment::{NearRead, NearSegment, read_to_devices};
use super::visit::Visit;
use crate::op::Settled;
use crate::{ReadOp, TcpTransport, TransferError, Transport, Way};

impl Near {
    /// Reads the unsettled operations whose nodes are on this host.
    pub(crate) fn read(&self, ops: &[ReadOp], settled: &mut Settled, tcp: &TcpTransport) {
        if self.ways.near().is_empty() {
            return;
        }
        for (op, settled) in ops.iter().zip(&mut *settled).filter(|(_, it)| it.is_none()) {
            if op.dst.total_len() != op.range.len {
                *settled = Some(Err(TransferError::Refused(ErrorCode::InvalidParams)));
            }
        }
        let open = ops.iter().enumerate().filter(|(position, _)| settled[*position].is_none());
        let open = open.map(|(position, op)| (position, &op.endpoint));
        let visits = self.visits(open, tcp, |_, _| Some(()));
        // Positions, each with the visit that it is a part of.
        let wanted = visits.iter().enumerate().flat_map(|(visit, Visit { ops, .. })| {
            ops.iter().map(move |&(position, ())| (position, visit))
        });
        let (wanted, of_devices): (Vec<_>, Vec<_>) =
            wanted.partition(|&(position, _)| ops[position].dst.is_host());
        self.read_to_devices(ops, &of_devices, &visits, settled);
        let bytes = wanted.iter().map(|&(position, _)| ops[position].range.len);
        let bytes = bytes.fold(0, u64::saturating_add);
        let looks = with_helpers(&wanted, bytes, |&(position, visit)| {
            self.look(&visits[visit].neighbour, &ops[position])
        });
        for ((position, _), look) in wanted.into_iter().zip(looks) {
            if let NearRead::Over(result) = look {
                settled[position] = Some(result);
            }
        }
        self.read_by_message(ops, visits, settled);
    }

    /// Copies memory that is mapped here to devices. Other operations stay unsettled, and those of nodes that died
    /// meanwhile become so again.
    fn read_to_devices(
        &self,
        ops: &[ReadOp],
        wanted: &[(usize, usize)],
        visits: &[Visit<()>],
        settled: &mut Settled,
    ) {
        if wanted.is_empty() || !self.ways.near().contains(&Way::Shm) {
            return;
        }
        let segments = wanted
            .iter()
            .map(|&(position, visit)| visits[visit].neighbour.segment(ops[position].range.segment));
        let segments: Vec<Option<Arc<NearSegment>>> = segments.collect();
        let some = wanted.iter().zip(&segments);
        let some =
            some.filter_map(|(&(position, _), segment)| Some((position, segment.as_deref()?)));
        let some: Vec<(usize, &NearSegment)> = some.collect();
        let reads: Vec<_> =
            some.iter().map(|&(position, segment)| (segment, &ops[position])).collect();
        for ((position, ..), look) in some.into_iter().zip(read_to_devices(&reads)) {
            if let NearRead::Over(result) = look {
                settled[position] = Some(result);
            }
        }
    }

    /// Reads by message all ranges that could not be read without, and those of nodes that died meanwhile.
    fn read_by_message(&self, ops: &[ReadOp], visits: Vec<Visit<()>>, settled: &mut Settled) {
        let mut by_message: Vec<(usize, ReadOp)> = Vec::new();
        for Visit { neighbour, ops: visited } in visits {
            let positions = || visited.iter().map(|&(position, ())| position);
            // A dead node takes no dropped entries out of its table, so reads from it do not count.
            if positions().any(|at| settled[at].is_some()) && !neighbour.is_alive_now() {
                positions().for_each(|at| settled[at] = None);
            }
            let left = positions().filter(|&at| settled[at].is_none() && ops[at].dst.is_host());
            by_message.extend(left.map(|at| {
                let endpoint = Arc::clone(&neighbour.endpoint);
                (at, ReadOp { endpoint, ..ops[at].clone() })
            }));
        }
        if by_message.is_empty() {
            return;
        }
        let (positions, asked): (Vec<usize>, Vec<ReadOp>) = by_message.into_iter().unzip();
        for (position, result) in positions.into_iter().zip(self.sockets.read(&asked)) {
            // A broken socket does not show that the node is dead; the next way will tell.
            if !is_broken(&result) {
                settled[position] = Some(result);
            }
        }
    }

    /// Reads a range without a message, by the first way that works. The result counts only if the node is alive
    /// afterwards.
    fn look(&self, neighbour: &Neighbour, op: &ReadOp) -> NearRead {
        let Some(segment) = neighbour.segment(op.range.segment) else { return NearRead::Unknown };
        let mut looked = NearRead::Unknown;
        for way in self.ways.near() {
            looked = match way {
                Way::Shm => segment.read(op),
                _ => neighbour.read_by_kernel(&segment, op),
            };
            if !matches!(looked, NearRead::Unknown) {
                break;
            }
        }
        looked
    }
}

fn is_broken(result: &Result<(), TransferError>) -> bool {
    use TransferError::{Deserted, Protocol, Refused, Unreachable};
    // A node with too many connections replies that it is unavailable.
    let full = ErrorCode::UnavailableInCurrentStatus;
    let broken = matches!(result, Err(Unreachable { .. } | Deserted { .. } | Protocol { .. }));
    broken || *result == Err(Refused(full))
}
