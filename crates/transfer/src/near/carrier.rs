use std::sync::Arc;

use mooncake_calls::Stage;
use mooncake_types::{ErrorCode, SegmentId};

use super::known_peers::Near;
use super::peer_discovery::Distance;
use super::reach::Reach;
use super::read::NearReads;
use super::write::NearWrites;
use crate::carrier::{Batch, Carrier, Examined, Fate, Pending, open};
use crate::{TransferError, Way};

/// Reaches the nodes of this host. It finds them when an operation is submitted; bytes move when it is completed.
impl Carrier for Near {
    fn stage(&self) -> Stage {
        Stage::Host
    }

    fn submit<'a>(&'a self, batch: Batch<'a>, fates: &mut [Fate]) -> Option<Box<dyn Pending + 'a>> {
        for (position, fate) in fates.iter_mut().enumerate().filter(|(_, fate)| fate.is_open()) {
            if batch.memory(position).total_len() != batch.len_bytes(position) {
                *fate = Fate::Over(Err(TransferError::Refused(ErrorCode::InvalidParams)));
            }
        }
        let open = open(fates).map(|position| (position, batch.endpoint(position)));
        match batch {
            Batch::Reads(ops) => {
                let visits = self.visits(open, |_, _| Some(()));
                visits.iter().flat_map(|visit| &visit.ops).for_each(|&(at, ())| {
                    fates[at] = Fate::Begun;
                });
                let is_any = !visits.is_empty();
                is_any.then(|| Box::new(NearReads { near: self, ops, visits }) as Box<dyn Pending>)
            }
            Batch::Writes(epoch, ops) => {
                let visits = self.visits(open, |position, neighbour| {
                    let op = &ops[position];
                    let segment = self.mapped(neighbour, op);
                    // Other writes from devices are staged in host memory, and then come here again.
                    (segment.is_some() || op.src.is_host()).then_some(segment)
                });
                visits.iter().flat_map(|visit| &visit.ops).for_each(|&(at, _)| {
                    fates[at] = Fate::Begun;
                });
                let is_any = !visits.is_empty();
                is_any.then(|| {
                    Box::new(NearWrites { near: self, epoch, ops, visits }) as Box<dyn Pending>
                })
            }
        }
    }

    fn examine(&self, endpoint: &Arc<str>, segment: SegmentId) -> Result<Examined, String> {
        let Distance::Near(met) = self.distance(endpoint) else {
            return Err(self.distance(endpoint).to_string());
        };
        let reach = self.reach(&met, segment);
        let way = match reach {
            Reach::Kernel { .. } => Way::ProcessVm,
            Reach::Mapped | Reach::LocalSocket { .. } => Way::Shm,
        };
        Ok(Examined { way: Some(way), how: reach.to_string() })
    }
}
