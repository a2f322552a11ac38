use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_connection::{Connection, Fault};
use mooncake_types::SegmentId;
use mooncake_types::limits::MAX_FRAME_RANGES;

use super::Near;
use super::neighbour::Neighbour;
use super::pins::{NoPins, PinConnection, Wanted};
use super::segment::NearSegment;
use crate::view::View;
use crate::{TcpTransport, ViewOp, Way};

/// A node that could not be asked for pins is not asked again for this long.
const DOUBT: Duration = Duration::from_secs(1);

/// The connection that ranges of one node are pinned by.
#[derive(Default)]
pub(super) struct Pinning(Mutex<PinningState>);

#[derive(Default)]
struct PinningState {
    pins: Option<Arc<PinConnection>>,
    doubted_until: Option<Instant>,
}

impl Pinning {
    fn lock(&self) -> MutexGuard<'_, PinningState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection; a new one if there is none.
    fn pins(&self, open: impl FnOnce() -> Result<Connection, Fault>) -> Option<Arc<PinConnection>> {
        let mut state = self.lock();
        if state.doubted_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        if state.pins.is_none() {
            match open().and_then(|connection| Ok(PinConnection::start(connection)?)) {
                Ok(pins) => state.pins = Some(pins),
                Err(fault) => state.doubt(&fault),
            }
        }
        state.pins.clone()
    }

    /// The connection is of no more use.
    fn forget(&self, pins: &Arc<PinConnection>, fault: Option<&Fault>) {
        let mut state = self.lock();
        let forgotten = state.pins.take_if(|current| Arc::ptr_eq(current, pins));
        if let Some(fault) = fault {
            state.doubt(fault);
        }
        drop(state);
        drop(forgotten);
    }
}

impl PinningState {
    fn doubt(&mut self, fault: &Fault) {
        tracing::debug!(?fault, "a node of this host pins nothing");
        self.doubted_until = Some(Instant::now() + DOUBT);
    }
}

impl Neighbour {
    /// Views of ranges, as far as the node keeps them as they are.
    fn show(&self, wanted: &[Wanted<'_>]) -> Vec<Option<View>> {
        // The node may want everything back at the moment of asking; a second connection is asked then.
        for _ in 0..2 {
            let Some(pins) = self.pinning.pins(|| self.new_connection()) else { break };
            match pins.show(wanted) {
                Ok(views) => return views,
                Err(NoPins::Over) => self.pinning.forget(&pins, None),
                Err(NoPins::Fault(fault)) => self.pinning.forget(&pins, Some(&fault)),
            }
        }
        wanted.iter().map(|_| None).collect()
    }
}

/// What one call wants to see at one node, as positions of its operations.
struct Visit {
    neighbour: Arc<Neighbour>,
    wanted: Vec<(usize, Arc<NearSegment>)>,
}

impl Near {
    /// Shows those of the ranges that are wanted and lie at nodes of this host, as far as these keep them as they are.
    pub(crate) fn show(
        &self,
        ops: &[ViewOp],
        is_wanted: impl Fn(usize) -> bool,
        tcp: &TcpTransport,
    ) -> Vec<Option<View>> {
        let mut views: Vec<Option<View>> = ops.iter().map(|_| None).collect();
        if !self.ways.near().contains(&Way::Shm) {
            return views;
        }
        if ops.len() > 1 {
            let wanted = ops.iter().enumerate().filter(|(position, _)| is_wanted(*position));
            self.measure_all(wanted.map(|(_, op)| &op.endpoint), tcp);
        }
        let mut visits: Vec<Visit> = Vec::new();
        for (position, op) in ops.iter().enumerate() {
            if !is_wanted(position) {
                continue;
            }
            let Some(neighbour) = self.neighbour(&op.endpoint, tcp) else { continue };
            let Some(segment) = visible(&neighbour, op) else { continue };
            let known = visits.iter_mut().find(|it| Arc::ptr_eq(&it.neighbour, &neighbour));
            match known {
                Some(visit) => visit.wanted.push((position, segment)),
                None => visits.push(Visit { neighbour, wanted: vec![(position, segment)] }),
            }
        }
        for Visit { neighbour, wanted } in visits {
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
