use std::sync::Arc;

use mooncake_types::SegmentId;
use mooncake_types::limits::MAX_FRAME_RANGES;

use super::known_peers::Near;
use super::neighbour::Neighbour;
use super::pins::{PinError, Wanted};
use super::segment::NearSegment;
use super::visit::Visit;
use crate::view::View;
use crate::{ViewOp, Way};

impl Neighbour {
    /// Views of ranges; `None` for those that the node does not pin.
    fn show(&self, wanted: &[Wanted<'_>]) -> Vec<Option<View>> {
        // The node may recall everything at this moment. Then a second connection asks.
        for _ in 0..2 {
            let Some(pins) = self.pinning.pins(|| self.new_connection()) else { break };
            match pins.show(wanted) {
                Ok(views) => return views,
                Err(PinError::Closed) => self.pinning.forget(&pins, None),
                Err(PinError::Fault(fault)) => self.pinning.forget(&pins, Some(&fault)),
            }
        }
        wanted.iter().map(|_| None).collect()
    }
}

impl Near {
    /// Views of the wanted ranges at nodes of this host; `None` for all others, and for those that the nodes do not
    /// pin.
    pub(crate) fn show(
        &self,
        ops: &[ViewOp],
        is_wanted: impl Fn(usize) -> bool + Clone,
    ) -> Vec<Option<View>> {
        let mut views: Vec<Option<View>> = ops.iter().map(|_| None).collect();
        if !self.ways.near().contains(&Way::Shm) {
            return views;
        }
        let wanted = ops.iter().enumerate().filter(|(position, _)| is_wanted(*position));
        let wanted = wanted.map(|(position, op)| (position, &op.endpoint));
        let visits = self.visits(wanted, |position, neighbour| visible(neighbour, &ops[position]));
        for Visit { neighbour, ops: wanted } in visits {
            for wanted in wanted.chunks(MAX_FRAME_RANGES) {
                let rows: Vec<Wanted<'_>> =
                    wanted.iter().map(|(at, segment)| (&ops[*at].range, &**segment)).collect();
                for ((position, _), view) in wanted.iter().zip(neighbour.show(&rows)) {
                    views[*position] = view;
                }
            }
        }
        views
    }
}

/// The segment of a range, if it is mapped here and does not say that something else lies there.
fn visible(neighbour: &Neighbour, op: &ViewOp) -> Option<Arc<NearSegment>> {
    let id: SegmentId = op.range.segment;
    let segment = neighbour.segment(id).filter(|segment| segment.region().is_some())?;
    (!matches!(segment.find(&op.range), Some(Err(_)))).then_some(segment)
}
