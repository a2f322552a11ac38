//! Nodes that take their segment back and lend another one while their process runs, as stores unmount and mount.

use std::cell::Cell;
use std::rc::Rc;

use mooncake_client::membership::Lent;
use mooncake_types::{ErrorCode, SegmentId};

use crate::errand::{Change, LenderStep};
use crate::ids::{Process, Site};
use crate::member::{EventContext, LENDER, Member};
use crate::task::leak;
use crate::verbs::{come, drain, outlast_promises, stay_away, unmount};
use crate::world::{World, domains_of, endpoint_of};

impl World {
    /// Takes a node's segment back, unless its lender thread is busy. With `may_drain` it is sometimes drained first.
    pub(crate) fn begin_to_leave(&mut self, number: usize, may_drain: bool) {
        let node = self.hosts[number].nodes.first().filter(|node| node.is_lent);
        let Some(node) = node.filter(|_| self.members[number].fibers[LENDER].is_idle()) else {
            return;
        };
        let id = node.segment();
        if !may_drain || self.run_state.chance.below(2) == 0 {
            return self.leave(number, may_drain);
        }
        let patience_ms = 1 + self.run_state.chance.below(2_000);
        let Self { net, run_state, hosts, members, .. } = self;
        let member = &mut members[number];
        let until = member.clock.tick(net.now_us).after_ms(patience_ms);
        let task = drain(member.process, id, until, run_state);
        member.begin(LENDER, task, &mut EventContext { net, run_state, hosts });
    }

    fn leave(&mut self, number: usize, may_take_time: bool) {
        let Self { net, run_state, hosts, members, .. } = self;
        let longest_ms = [0, 0, 50, 1_000][run_state.chance.below(4) as usize];
        let grace_ms = if may_take_time { run_state.chance.below(longest_ms + 1) } else { 0 };
        let taken = Rc::new(Cell::new(None));
        let member = &mut members[number];
        member.change(Change::TakeBack { taken: Rc::clone(&taken) }, net);
        let task = outlast_promises(member.process, taken, grace_ms, run_state);
        member.begin(LENDER, task, &mut EventContext { net, run_state, hosts });
    }

    /// Runs the errands that tasks of nodes have left.
    pub(crate) fn run_errands(&mut self) {
        while let Some((process, errand)) = self.run_state.errands.pop() {
            if self.net.process_at(process.site) == process {
                self.run_errand(process, errand);
            }
        }
    }

    fn run_errand(&mut self, process: Process, errand: LenderStep) {
        let Site::Member(number) = process.site else { unreachable!("masters lend nothing") };
        self.run_state.log.add(self.net.now_us, format_args!("{process:?}: {errand:?}"));
        match errand {
            LenderStep::Leave => self.leave(number, true),
            LenderStep::Unmount { id, grace_ms } => self.unmount(number, id, grace_ms),
            LenderStep::Left { id, grace_ms, result } => self.left(number, id, grace_ms, result),
            LenderStep::Come => self.come(number),
            LenderStep::Came { id } => {
                self.run_state.meet("segments lent at run time", 1);
                self.lend(number, id);
            }
            LenderStep::Stay { id, is_unsure } => {
                self.hosts[number].withdraw(&mut self.net, &mut self.run_state);
                if is_unsure {
                    self.members[number].change(Change::Unmount(id), &mut self.net);
                }
                self.stay_away(number);
            }
        }
    }

    fn unmount(&mut self, number: usize, id: SegmentId, grace_ms: u64) {
        let Self { net, run_state, hosts, members, .. } = self;
        let member = &mut members[number];
        if grace_ms == 0 {
            // Without a grace period, the node stops serving before the master hears of it.
            hosts[number].withdraw(net, run_state);
            member.own = leak(hosts[number].own());
        }
        let task = unmount(member.process, id, grace_ms, run_state);
        member.begin(LENDER, task, &mut EventContext { net, run_state, hosts });
    }

    fn left(&mut self, number: usize, id: SegmentId, grace_ms: u64, result: Result<(), ErrorCode>) {
        match (grace_ms, result) {
            (0, Ok(())) => self.run_state.meet("segments taken back", 1),
            (_, Ok(())) => {
                self.run_state.meet("segments taken back after a while", 1);
                self.hosts[number].withdraw(&mut self.net, &mut self.run_state);
                self.members[number].own = leak(self.hosts[number].own());
            }
            (0, Err(_)) => self.members[number].change(Change::Unmount(id), &mut self.net),
            // The master refused: the segment stays lent.
            (_, Err(_)) => return self.lend(number, id),
        }
        self.stay_away(number);
    }

    /// The master has mounted a segment: heartbeats name it from now on.
    fn lend(&mut self, number: usize, id: SegmentId) {
        let lent = Lent { id, ..self.lent(number) };
        self.hosts[number].memory().is_lent = true;
        let member = &mut self.members[number];
        member.own = leak(self.hosts[number].own());
        member.change(Change::Lend(lent), &mut self.net);
    }

    /// The description of the segment in memory for the master.
    fn lent(&self, number: usize) -> Lent {
        let run = self.hosts[number].run();
        let node = self.hosts[number].nodes.first().expect("it lends something now and then");
        let (name, endpoint) = (node.name.to_owned(), endpoint_of(number));
        let (id, len, medium) = (node.segment(), node.len(), node.medium);
        Lent { id, name, endpoint, len, run, medium, domains: domains_of(number) }
    }

    fn stay_away(&mut self, number: usize) {
        let Self { net, run_state, hosts, members, .. } = self;
        let member = &mut members[number];
        let longest_ms = [1, 50, 1_000][run_state.chance.below(3) as usize];
        let away_ms = run_state.chance.below(longest_ms);
        let until = member.clock.tick(net.now_us).after_ms(away_ms);
        let task = stay_away(member.process, until, run_state);
        member.begin(LENDER, task, &mut EventContext { net, run_state, hosts });
    }

    fn come(&mut self, number: usize) {
        let lent = self.lent(number);
        let Self { net, run_state, hosts, members, .. } = self;
        let member = &mut members[number];
        let task = come(member.process, lent, hosts[number].epoch(), run_state);
        member.begin(LENDER, task, &mut EventContext { net, run_state, hosts });
    }
}

impl Member {
    /// Queues a change for the heartbeat, and wakes it.
    fn change(&mut self, change: Change, net: &mut crate::net::Net) {
        self.beat.changes.push(change);
        self.beat.wake(self.process, net);
    }

    /// Applies the queued changes, between two steps of the heartbeat.
    pub(crate) fn make_changes(&mut self, around: &mut EventContext<'_>) {
        let host = &mut around.hosts[self.number];
        for change in std::mem::take(&mut self.beat.changes) {
            match change {
                Change::Lend(lent) => self.beat.membership.lend_also(lent),
                Change::Unmount(id) => self.beat.membership.unmount(id, ""),
                Change::TakeBack { taken } => {
                    let id = host.memory().segment();
                    self.beat.membership.take_back(id);
                    let now = around.net.instant(around.net.now_us);
                    let left = host.memory().end_promises(now).as_millis() as u64 + 1;
                    taken.set(Some((id, self.clock.tick(around.net.now_us).after_ms(left))));
                    host.memory().is_lent = false;
                }
            }
        }
    }
}
