use std::sync::Arc;

use mooncake_memory::with_helpers;
use mooncake_types::ErrorCode;

use super::known_peers::Near;
use super::neighbour::Neighbour;
use super::segment::{NearRead, NearSegment, read_to_devices};
use super::visit::{Visit, reopen};
use crate::carrier::{Fate, Pending};
use crate::{ReadOp, Source, TransferError, Transport, Way};

/// Reads from nodes of this host.
pub(super) struct NearReads<'a> {
    pub(super) near: &'a Near,
    pub(super) ops: &'a [ReadOp<'a>],
    pub(super) visits: Vec<Visit<()>>,
}

/// A read by its position, and the visit that it is a part of.
type Wanted = (usize, usize);

impl Pending for NearReads<'_> {
    fn complete(self: Box<Self>, fates: &mut [Fate]) -> bool {
        let wanted = self.visits.iter().enumerate().flat_map(|(visit, Visit { ops, .. })| {
            ops.iter().map(move |&(position, ())| (position, visit))
        });
        let (wanted, of_devices): (Vec<Wanted>, Vec<Wanted>) =
            wanted.partition(|&(position, _)| self.ops[position].dst.is_host());
        self.read_to_devices(&of_devices, fates);
        let bytes = wanted.iter().map(|&(position, _)| self.ops[position].range.len);
        let bytes = bytes.fold(0, u64::saturating_add);
        let looks = with_helpers(&wanted, bytes, |&(position, visit)| {
            self.near.look(&self.visits[visit].neighbour, &self.ops[position])
        });
        for ((position, _), look) in wanted.into_iter().zip(looks) {
            settle(fates, position, look);
        }
        self.read_by_message(fates);
        reopen(fates, &self.visits)
    }
}

/// Notes the result of a read without a message, if there is one.
fn settle(fates: &mut [Fate], position: usize, look: NearRead) {
    if let NearRead::Over(result) = look {
        fates[position] = Fate::Over(result.map(|()| Source::Host));
    }
}

impl NearReads<'_> {
    /// Copies memory that is mapped here to devices. What has to be checked goes through memory of this process instead.
    fn read_to_devices(&self, wanted: &[Wanted], fates: &mut [Fate]) {
        let is_mapped = self.near.ways.near().contains(&Way::Shm);
        if wanted.is_empty() || !is_mapped || self.near.config.verify_reads {
            return;
        }
        let segments = wanted.iter().map(|&(position, visit)| {
            self.visits[visit].neighbour.segment(self.ops[position].range.segment)
        });
        let segments: Vec<Option<Arc<NearSegment>>> = segments.collect();
        let some = wanted.iter().zip(&segments);
        let some =
            some.filter_map(|(&(position, _), segment)| Some((position, segment.as_deref()?)));
        let some: Vec<(usize, &NearSegment)> = some.collect();
        let reads: Vec<_> =
            some.iter().map(|&(position, segment)| (segment, &self.ops[position])).collect();
        for ((position, ..), look) in some.into_iter().zip(read_to_devices(&reads)) {
            settle(fates, position, look);
        }
    }

    /// Reads by message all ranges that could not be read without, and those of nodes that died meanwhile.
    fn read_by_message(&self, fates: &mut [Fate]) {
        let mut by_message: Vec<(usize, ReadOp)> = Vec::new();
        for Visit { neighbour, ops: visited } in &self.visits {
            let positions = || visited.iter().map(|&(position, ())| position);
            // A dead node takes no dropped entries out of its table, so reads from it do not count.
            if positions().any(|at| fates[at].is_over()) && !neighbour.is_alive_now() {
                positions().for_each(|at| fates[at] = Fate::Begun);
            }
            let left = positions().filter(|&at| !fates[at].is_over());
            let left = left.filter(|&at| self.ops[at].dst.is_host());
            by_message.extend(left.map(|at| {
                let endpoint = Arc::clone(&neighbour.endpoint);
                (at, ReadOp { endpoint, ..self.ops[at].clone() })
            }));
        }
        if by_message.is_empty() {
            return;
        }
        let (positions, asked): (Vec<usize>, Vec<ReadOp>) = by_message.into_iter().unzip();
        for (position, result) in positions.into_iter().zip(self.near.sockets.read(&asked)) {
            // A broken socket does not show that the node is dead; the next way will tell.
            if !is_broken(&result) {
                fates[position] = Fate::Over(result.map(|()| Source::Host));
            }
        }
    }
}

impl Near {
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
