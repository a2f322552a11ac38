use std::collections::{BTreeMap, BTreeSet};

use mooncake_client::membership::Membership;
use mooncake_client::ops::CallError;
use mooncake_client::{Chance, Version};
use mooncake_meta::{Config, Meta};
use mooncake_types::{ClientId, Epoch, ErrorCode, Reply, Request, SegmentId, Tick};

use crate::Faults;
use crate::node::{Master, Node, beat};

/// How gets and writes ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) right: u64,
    pub(crate) missed: u64,
    pub(crate) failed_gets: BTreeMap<ErrorCode, u64>,
    pub(crate) puts: u64,
    pub(crate) failed_puts: BTreeMap<ErrorCode, u64>,
    pub(crate) refused_writes: u64,
    pub(crate) failovers: u64,
    /// Objects that were written part by part and published.
    pub(crate) sessions: u64,
    /// Reads by routes that were held.
    pub(crate) held_reads: u64,
    /// Routes whose leases were over before all was read.
    pub(crate) expired: u64,
    /// Copies and moves that ended well.
    pub(crate) carried: u64,
}

impl Tally {
    pub(crate) fn count_put(&mut self, result: Result<(), ErrorCode>) {
        match result {
            Ok(()) => self.puts += 1,
            Err(code) => *self.failed_puts.entry(code).or_default() += 1,
        }
    }

    pub(crate) fn count_failed_get(&mut self, code: ErrorCode) {
        match code {
            ErrorCode::ObjectNotFound | ErrorCode::ReplicaIsNotReady => self.missed += 1,
            code => *self.failed_gets.entry(code).or_default() += 1,
        }
    }
}

/// The master, the nodes, the time, and what is known about every version.
pub(crate) struct Pool {
    pub(crate) chance: Chance,
    pub(crate) now: Tick,
    pub(crate) steps: u64,
    pub(crate) nodes: Vec<Node>,
    pure_clients: Vec<(ClientId, Membership)>,
    pub(crate) tally: Tally,
    meta: Meta,
    master_is_up: bool,
    incarnations: u128,
    /// Versions whose puts ended, and the step at which it was acknowledged that they were removed or replaced.
    committed: BTreeMap<Version, Option<u64>>,
    by_key: BTreeMap<String, BTreeSet<Version>>,
}

/// Short times, so that everything that time brings about is met.
fn config(chance: &mut Chance) -> Config {
    Config {
        lease_ttl_ms: 500,
        put_discard_ms: 4_000,
        put_release_ms: 8_000,
        pending_task_ms: 20_000,
        processing_task_ms: 20_000,
        seed: chance.bits(),
        ..Config::default()
    }
}

impl Pool {
    pub(crate) fn new(nodes: usize, mut chance: Chance) -> Self {
        let meta = Meta::new(config(&mut chance), Epoch(1));
        let mut pool = Self {
            chance,
            now: Tick::ZERO,
            steps: 0,
            nodes: Vec::new(),
            pure_clients: Vec::new(),
            tally: Tally::default(),
            meta,
            master_is_up: true,
            incarnations: 0,
            committed: BTreeMap::new(),
            by_key: BTreeMap::new(),
        };
        for _ in 0..nodes {
            let node = pool.fresh_node();
            pool.nodes.push(node);
        }
        pool
    }

    /// A client that lends nothing.
    pub(crate) fn add_pure_client(&mut self, client: ClientId) {
        let membership = Membership::new(1, Chance::new(self.chance.bits()));
        self.pure_clients.push((client, membership));
    }

    fn fresh_node(&mut self) -> Node {
        self.incarnations += 1;
        Node::new(self.incarnations, &mut self.chance)
    }

    pub(crate) fn happens(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.chance.below(one_in) == 0
    }

    /// Lets everybody join.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100 {
            self.now = self.now.after_ms(100);
            self.beat();
        }
        assert!(self.nodes.iter().all(|node| node.membership.is_settled()));
    }

    pub(crate) fn step(&mut self, faults: &Faults) {
        self.steps += 1;
        self.now = self.now.after_ms(self.chance.below(4));
        if self.happens(faults.jump_in) {
            self.now = self.now.after_ms(self.chance.below(1_000));
        }
        if self.happens(faults.node_in) {
            self.trouble_a_node();
        }
        self.mend();
        if self.master_is_up && self.happens(faults.master_in) {
            self.trouble_the_master();
        }
        self.beat();
        self.meta.check().expect("the master's invariants hold");
    }

    fn trouble_a_node(&mut self) {
        let index = self.chance.below(self.nodes.len() as u64) as usize;
        let node = &mut self.nodes[index];
        match self.chance.below(2) {
            0 => node.cut = true,
            _ => node.alive = false,
        }
    }

    /// What is broken does not stay so for long.
    fn mend(&mut self) {
        for index in 0..self.nodes.len() {
            if self.nodes[index].cut && self.happens(150) {
                self.nodes[index].cut = false;
            }
            if !self.nodes[index].alive && self.happens(150) {
                // It comes back as another: its memory is new.
                self.nodes[index] = self.fresh_node();
            }
        }
        if !self.master_is_up && self.happens(50) {
            self.trouble_the_master();
        }
    }

    fn trouble_the_master(&mut self) {
        self.master_is_up = !self.master_is_up;
        if self.master_is_up {
            let epoch = Epoch(self.meta.epoch().0 + 1 + self.chance.below(3));
            self.meta = Meta::new(config(&mut self.chance), epoch);
        }
    }

    /// Everything that was broken is whole again, and everybody knows.
    pub(crate) fn heal(&mut self) {
        if !self.master_is_up {
            self.trouble_the_master();
        }
        for index in 0..self.nodes.len() {
            self.nodes[index].cut = false;
            if !self.nodes[index].alive {
                self.nodes[index] = self.fresh_node();
            }
        }
    }

    fn beat(&mut self) {
        self.pass_time();
        let mut master = match self.master_is_up {
            true => Master::Up(&mut self.meta),
            false => Master::Unreachable,
        };
        for node in self.nodes.iter_mut().filter(|node| node.alive) {
            node.beat(self.now, &mut master);
            node.notice(&mut self.chance);
        }
        for (client, membership) in &mut self.pure_clients {
            beat(membership, *client, self.now, &mut master);
        }
    }

    fn pass_time(&mut self) {
        while self.meta.poll_timeout().is_some_and(|due| due <= self.now) {
            self.meta.handle_timeout(self.now);
        }
    }

    /// A client asks the master; either way may fail.
    pub(crate) fn ask(
        &mut self,
        client: ClientId,
        request: &Request<'_>,
        faults: &Faults,
    ) -> Result<Reply, CallError> {
        if !self.master_is_up || self.happens(faults.lost_call_in) {
            return Err(CallError::Unreachable { reason: "the request was lost".to_owned() });
        }
        self.pass_time();
        let reply = self.meta.handle(self.now, client, request);
        self.note(request, &reply);
        if self.happens(faults.lost_call_in) {
            return Err(CallError::TimedOut { after_ms: 1 });
        }
        Ok(reply)
    }

    /// Learns what was committed and what was removed, whether or not the client hears of it.
    fn note(&mut self, request: &Request<'_>, reply: &Reply) {
        let Reply::Statuses(statuses) = reply else { return };
        match request {
            Request::PutEnd { puts } => {
                for (put, _) in puts.iter().zip(statuses).filter(|(_, status)| status.is_ok()) {
                    self.note_committed(put.key, put.version);
                }
            }
            Request::Remove { keys, .. } => {
                for (key, _) in keys.iter().zip(statuses).filter(|(_, status)| status.is_ok()) {
                    for version in self.by_key.remove(*key).unwrap_or_default() {
                        self.committed.insert(version, Some(self.steps));
                    }
                }
            }
            _ => {}
        }
    }

    /// The newest version of a key that was ended is what readers get from now on.
    fn note_committed(&mut self, key: &str, version: Version) {
        self.committed.entry(version).or_insert(None);
        let versions = self.by_key.entry(key.to_owned()).or_default();
        versions.insert(version);
        while versions.len() > 1 {
            let older = versions.pop_first().expect("there are two");
            self.committed.entry(older).and_modify(|gone_at| *gone_at = Some(self.steps));
        }
    }

    /// A get that began at that step returned this version.
    pub(crate) fn check_version(&self, version: Version, began_at: u64) {
        let gone_at = self.committed.get(&version).expect("only what was committed is read");
        let was_there = gone_at.is_none_or(|gone_at| gone_at >= began_at);
        assert!(was_there, "{version} was removed or replaced before the get began");
    }

    pub(crate) fn node_of(&mut self, segment: SegmentId) -> Option<&mut Node> {
        let mut nodes = self.nodes.iter_mut();
        nodes.find(|node| node.segment == segment && node.is_reachable())
    }

    /// The node's incarnation, reachable or not, as long as its memory is there.
    pub(crate) fn memory_of(&mut self, segment: SegmentId) -> Option<&mut Node> {
        self.nodes.iter_mut().find(|node| node.segment == segment && node.alive)
    }
}
