//! An operator, which drains segments and then lets drained nodes leave.

use mooncake_types::{DrainOrder, DrainStatus, SegmentState};

use crate::ids::Site;
use crate::world::World;

impl World {
    /// At some events, orders or cancels a drain, and lets drained nodes leave.
    pub(crate) fn operate(&mut self) {
        let drain_in = self.scenario.drain_in;
        if self.run_state.is_ending || drain_in == 0 || self.run_state.chance.below(drain_in) > 0 {
            return;
        }
        let can_answer = self.masters[self.leader].is_sure(self.net.now_us)
            && !self.paused.contains_key(&Site::Master(self.leader));
        if !can_answer {
            return;
        }
        match self.run_state.chance.below(3) {
            0 => self.cancel_drain(),
            _ => self.start_drain(),
        }
        self.see_off_the_drained();
        self.masters[self.leader].set_timer(&mut self.net);
    }

    fn start_drain(&mut self) {
        let mut any = || self.names[self.run_state.chance.below(self.names.len() as u64) as usize];
        let (source, target) = (any(), any());
        let targets = match self.run_state.chance.below(3) {
            0 => vec![target.to_owned()],
            _ => Vec::new(),
        };
        let max_concurrency = 1 + self.run_state.chance.below(3) as u32;
        let order = DrainOrder { segments: vec![source.to_owned()], targets, max_concurrency };
        let master = &mut self.masters[self.leader];
        let now = master.clock().tick(self.net.now_us);
        let begun = master.meta.change().start_drain(now, &order);
        self.run_state.log.add(self.net.now_us, format_args!("{order:?} comes to {begun:?}"));
        if let Ok(id) = begun {
            self.run_state.meet("drains begun", 1);
            self.drains.push(id);
        }
    }

    fn cancel_drain(&mut self) {
        let Some(last) = self.drains.len().checked_sub(1) else { return };
        let id = self.drains.swap_remove(self.run_state.chance.below(last as u64 + 1) as usize);
        let master = &mut self.masters[self.leader];
        let now = master.clock().tick(self.net.now_us);
        let canceled = master.meta.change().cancel_drain(now, id);
        self.run_state.log.add(self.net.now_us, format_args!("to end {id} comes to {canceled:?}"));
        self.run_state.meet("drains canceled", u64::from(canceled.is_ok()));
    }

    /// Nodes whose segments have been drained take them back.
    fn see_off_the_drained(&mut self) {
        for job in self.masters[self.leader].meta.change().take_ended_drains() {
            let (name, is_drained) = match job.status {
                DrainStatus::Succeeded => ("drains that moved all", true),
                DrainStatus::Failed => ("drains that failed", false),
                _ => continue,
            };
            self.run_state.meet(name, 1);
            let numbers = (0..self.scenario.nodes).filter(|_| is_drained);
            let named: Vec<usize> = numbers
                .filter(|&number| job.segments.iter().any(|name| *name == self.names[number]))
                .collect();
            for number in named {
                let stands = self.paused.contains_key(&Site::Member(number));
                if self.hosts[number].is_alive && !stands {
                    self.begin_to_leave(number, false);
                }
            }
        }
    }

    /// At the end, cancels all jobs. Nodes whose segments are draining or drained take them back, and lend them again.
    pub(crate) fn end_drains(&mut self) {
        if self.run_state.violation.is_some() {
            return;
        }
        let master = &mut self.masters[self.leader];
        let now = master.clock().tick(self.net.now_us);
        for job in master.meta.running_drains() {
            let canceled = master.meta.change().cancel_drain(now, job.id);
            canceled.expect("the job runs");
        }
        master.set_timer(&mut self.net);
        let drained = |state| matches!(state, SegmentState::Draining | SegmentState::Drained);
        let segments = self.masters[self.leader].meta.segments();
        for segment in segments.into_iter().filter(|segment| drained(segment.state)) {
            let holds = |node: &crate::node::Node| node.segment() == segment.id;
            let number = self.hosts.iter().position(|it| it.nodes.iter().any(holds));
            if let Some(number) = number {
                self.begin_to_leave(number, false);
            }
        }
    }
}
