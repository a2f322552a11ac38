use std::sync::Arc;

use mooncake_types::Epoch;

use super::in_place::{self, Placed};
use super::known_peers::Near;
use super::neighbour::Neighbour;
use super::prefault::MIN_IN_PLACE_BYTES;
use super::segment::NearSegment;
use super::visit::{Visit, reopen};
use crate::carrier::{Fate, Pending};
use crate::{Source, TransferError, Way, WriteOp};

/// Writes to nodes of this host, each with its segment if it is made in place.
pub(super) struct NearWrites<'a> {
    pub(super) near: &'a Near,
    pub(super) epoch: Epoch,
    pub(super) ops: &'a [WriteOp<'a>],
    pub(super) visits: Vec<Visit<Option<Arc<NearSegment>>>>,
}

impl Near {
    /// The segment of a write, if it is mapped here and the write is long enough for two questions.
    pub(super) fn mapped(
        &self,
        neighbour: &Neighbour,
        op: &WriteOp<'_>,
    ) -> Option<Arc<NearSegment>> {
        let may = self.ways.near().contains(&Way::Shm) && op.range.len >= MIN_IN_PLACE_BYTES;
        let segment = may.then(|| neighbour.segment(op.range.segment)).flatten()?;
        segment.region().is_some().then_some(segment)
    }
}

impl Pending for NearWrites<'_> {
    fn complete(self: Box<Self>, fates: &mut [Fate]) -> bool {
        let mut by_message = Vec::new();
        for Visit { neighbour, ops: visited } in &self.visits {
            let (mut positions, mut placed) = (Vec::new(), Vec::new());
            for (position, segment) in visited {
                let op = &self.ops[*position];
                if let Some(segment) = segment {
                    positions.push(*position);
                    placed.push(Placed { op, segment });
                } else {
                    let endpoint = Arc::clone(&neighbour.endpoint);
                    by_message.push((*position, WriteOp { endpoint, ..op.clone() }));
                }
            }
            let written = in_place::write(neighbour, self.epoch, &placed);
            settle(fates, &positions, written);
        }
        if !by_message.is_empty() {
            let (positions, ops): (Vec<usize>, Vec<WriteOp<'_>>) = by_message.into_iter().unzip();
            settle(fates, &positions, self.near.sockets.write_if_reached(self.epoch, &ops));
        }
        reopen(fates, &self.visits)
    }
}

fn settle(
    fates: &mut [Fate],
    positions: &[usize],
    results: Vec<Option<Result<(), TransferError>>>,
) {
    for (&position, result) in positions.iter().zip(results) {
        if let Some(result) = result {
            fates[position] = Fate::Over(result.map(|()| Source::Host));
        }
    }
}
