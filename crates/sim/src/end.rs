//! The end of a run: faults stop, and the cluster must recover.

use crate::ids::Site;
use crate::member::{CALLER, EventContext};
use crate::net::Event;
use crate::scenario::Faults;
use crate::task::Task;
use crate::verbs::{Doer, get, put, remove};
use crate::world::{TASK_MS, World};

/// Most events that one phase of recovery may take, for each process.
const MOST_EVENTS: u64 = 4_000;

/// Longest virtual time that one phase of recovery may take, in microseconds.
const LONGEST_US: u64 = 120_000_000;

impl World {
    /// Ends the faults. All operations must then end, all nodes be mounted, and the pool work.
    pub(crate) fn converge(&mut self) {
        self.heal();
        let is_calm = |world: &World| {
            world.is_settled()
                && world.leader().meta.serves()
                && world.leader().leads
                && world
                    .members
                    .iter()
                    .all(|it| it.beat.membership.seen_epoch() == world.leader().meta.epoch())
                && world.members.iter().all(|it| it.fibers.iter().all(crate::fiber::Fiber::is_idle))
                && world.hosts.iter().all(|it| it.nodes.iter().all(|node| node.is_lent))
        };
        self.run_until("everything that was begun ends", is_calm);
        self.end_drains();
        self.run_until("what was drained comes back", is_calm);
        // By then unfinished puts have released their ranges, and clients that are gone have been forgotten.
        let scenario = &self.scenario;
        let puts_ms = scenario.put_release_ms.max(2 * TASK_MS);
        let wait_ms = puts_ms + 4 * scenario.client_ttl_ms + scenario.lease_ms;
        let until_us = self.net.now_us + 1_000 * wait_ms;
        self.run_until("time passes", |world| world.net.now_us >= until_us);
        if self.run_state.violation.is_some() {
            return;
        }
        self.check_mounted();
        self.check_survival();
        self.read_all();
        self.prove_life();
    }

    /// Ends all faults, and starts or resumes all processes.
    fn heal(&mut self) {
        self.run_state.log.add(self.net.now_us, format_args!("the faults end"));
        self.run_state.is_ending = true;
        self.net.faults = Faults::default();
        self.net.heal_all();
        self.masters.iter_mut().for_each(|master| master.cut_off_until_us = 0);
        let paused: Vec<Site> = self.paused.keys().copied().collect();
        for site in paused {
            self.net.after(0, Event::Resume { site });
        }
        for number in 0..self.masters.len() {
            self.start(Site::Master(number));
        }
        for number in 0..self.hosts.len() {
            if !self.hosts[number].is_alive {
                self.start(Site::Member(number));
            }
        }
        // Misses count from here on; earlier ones are forgiven.
        self.run_state.judges_misses = true;
        for key in 0..self.run_state.keys {
            self.run_state.history.absent(key, self.run_state.event);
        }
    }

    fn run_until(&mut self, what: &'static str, is_over: impl Fn(&World) -> bool) {
        let most = MOST_EVENTS * (self.members.len() as u64).max(5);
        let (last, last_us) = (self.run_state.event + most, self.net.now_us + LONGEST_US);
        while self.run_state.violation.is_none() && !is_over(self) {
            if self.run_state.event >= last || self.net.now_us >= last_us {
                let waits = self.members.iter().flat_map(|it| {
                    it.fibers
                        .iter()
                        .enumerate()
                        .filter(|(_, fiber)| !fiber.is_idle())
                        .map(move |(index, _)| (it.process, index))
                });
                let waits: Vec<_> = waits.collect();
                return self.run_state.blame(what, format!("it did not; {waits:?} wait"));
            }
            self.step();
        }
    }

    fn check_mounted(&mut self) {
        let mounted = self.leader().meta.segments();
        let mut found: Vec<_> = mounted.iter().map(|it| (it.id, it.in_sight)).collect();
        found.sort_unstable();
        let nodes = self.hosts.iter().flat_map(|host| &host.nodes);
        let mut wanted: Vec<_> = nodes.map(|node| (node.segment(), true)).collect();
        wanted.sort_unstable();
        if found != wanted {
            let text = format!("{found:?} are, {wanted:?} should be");
            self.run_state.blame("all nodes are mounted", text);
        }
    }

    /// Each member must be able to read every object that the master has.
    fn read_all(&mut self) {
        let there = self.keys_there();
        if let Some(key) = there.iter().find(|&&key| self.is_ghost(key)) {
            self.run_state.blame("what is there can be read", format!("no node holds key {key}"));
        }
        for number in 0..self.members.len() {
            let there = there.clone();
            let (right, failed) =
                (self.run_state.tally.right, self.run_state.tally.failed_gets.clone());
            let count = there.len() as u64;
            self.run_task(number, |doer, world| get(there, doer, &mut world.run_state));
            if self.run_state.tally.failed_gets != failed
                || self.run_state.tally.right != right + count
            {
                let text = format!("{:?} before, {:?} after", failed, self.run_state.tally);
                self.run_state.blame("what is there can be read", text);
            }
        }
    }

    /// In a healthy pool, objects that are put can be read.
    fn prove_life(&mut self) {
        for number in 0..self.members.len() {
            let all = (0..self.run_state.keys).collect();
            self.run_task(number, |_, world| remove(all, true, &world.run_state));
            let before = self.run_state.tally.clone();
            let most = self.scenario.most_len;
            let lens = vec![most / 2, most / 3];
            self.run_task(number, |_, world| put(vec![0, 1], lens, 2, false, &mut world.run_state));
            self.run_task(number, |_, world| {
                put(vec![1], vec![most / 4], 1, true, &mut world.run_state)
            });
            self.run_task(number, |doer, world| get(vec![0, 1, 0], doer, &mut world.run_state));
            let after = &self.run_state.tally;
            if (after.puts, after.right) != (before.puts + 3, before.right + 3) {
                let text = format!("{before:?} before, {after:?} after");
                self.run_state.blame("a pool that is well works", text);
            }
        }
    }

    fn run_task(&mut self, number: usize, make: impl FnOnce(&Doer<'_>, &mut World) -> Task) {
        if self.run_state.violation.is_some() {
            return;
        }
        let member = &mut self.members[number];
        member.routes.epoch = self.hosts[number].epoch();
        let routes = member.routes.clone();
        let now = member.clock.tick(self.net.now_us);
        let doer = Doer { own: member.own, routes: &routes, now, names: &[] };
        let task = make(&doer, self);
        let Self { net, run_state, hosts, members, .. } = self;
        members[number].begin(CALLER, task, &mut EventContext { net, run_state, hosts });
        self.run_until("an operation ends", |world| world.members[number].fibers[CALLER].is_idle());
    }
}
