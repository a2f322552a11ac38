//! Drain jobs. The model sees only their tasks.

use mooncake_types::{DrainOrder, DrainStatus, SegmentState};

use crate::model::{Extent, Run};

impl Run {
    pub(crate) fn drain(&mut self, nth: u64, targets: usize) {
        let segments = self.world.meta.segments();
        if segments.is_empty() {
            return;
        }
        let place = |step: usize| segments[(nth as usize + step) % segments.len()].name.to_string();
        let order = DrainOrder {
            segments: vec![place(0)],
            targets: (1..=targets).map(place).collect(),
            max_concurrency: 1 + (nth % 3) as u32,
        };
        // A refused drain changes nothing; `rules` tests which drains are refused.
        if self.world.meta.start_drain(self.world.now, &order).is_ok() {
            let states = self.world.meta.segments();
            let drained = states.iter().filter(|segment| *segment.name == *order.segments[0]);
            assert!(drained.map(|segment| segment.state).all(|it| it == SegmentState::Draining));
        }
    }

    /// Whether the master names only some of the expected replicas, and each of the others lies partly on a draining
    /// segment.
    pub(crate) fn leaves_out_drained(&self, named: &[Extent], expected: &[Vec<Extent>]) -> bool {
        let segments = self.world.meta.segments();
        let is_drained = |&(id, ..): &Extent| {
            let segment = segments.iter().find(|segment| segment.id == id);
            let states = [SegmentState::Draining, SegmentState::GracefullyUnmounting];
            segment.is_some_and(|segment| states.contains(&segment.state))
        };
        let is_named = |replica: &&Vec<Extent>| replica.iter().all(|extent| named.contains(extent));
        let (kept, left_out): (Vec<_>, Vec<_>) = expected.iter().partition(is_named);
        !kept.is_empty()
            && kept.into_iter().flatten().eq(named)
            && left_out.iter().all(|replica| replica.iter().any(is_drained))
    }

    pub(crate) fn cancel_drain(&mut self) {
        if let Some(job) = self.world.meta.running_drains().first() {
            assert_eq!(self.world.meta.cancel_drain(self.world.now, job.id), Ok(()));
        }
    }

    pub(crate) fn learn_of_drains(&mut self) {
        for job in self.world.meta.take_ended_drains() {
            match job.status {
                DrainStatus::Succeeded => {
                    assert_eq!((job.remaining_units, job.failed_units), (0, 0), "{job:?}");
                    self.meet("a drain has succeeded");
                }
                DrainStatus::Failed => self.meet("a drain has failed"),
                DrainStatus::Canceled => self.meet("a drain was canceled"),
                other => panic!("a job has ended as {other:?}"),
            }
        }
    }
}
