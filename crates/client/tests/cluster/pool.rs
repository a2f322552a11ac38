use std::collections::BTreeMap;

use mooncake_client::membership::Membership;
use mooncake_meta::{Config, Meta, Shadow};
use mooncake_ops::{CallError, MoveError};
use mooncake_types::{
    Chance, ClientId, Epoch, ErrorCode, RangeDrop, Reply, Request, ScanAction, SegmentId, Tick,
    Version,
};

use crate::Faults;
use crate::history::{History, Removal};
use crate::key::KEYS;
use crate::node::{Master, Node, PAGE_ENTRIES, beat};

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
    /// Items of gets that began with a known route.
    pub(crate) hits: u64,
    /// Entries that nodes were asked to drop.
    pub(crate) drops: u64,
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
    /// What the next master knows.
    shadows: BTreeMap<SegmentId, Shadow>,
    master_is_up: bool,
    incarnations: u128,
    pub(crate) history: History,
    /// How many of the keys are used.
    pub(crate) keys: usize,
    /// Nodes are not asked to drop anything: a mistake that must show.
    pub(crate) skips_drops: bool,
    /// Whether a miss of a key that was there all the time is a mistake.
    pub(crate) judges_misses: bool,
    /// What clients had removed, or ended, and were not told of yet.
    removals: Vec<(ClientId, Removal)>,
    ends: BTreeMap<(ClientId, usize), Version>,
}

/// How long a lease lasts.
const LEASE_MS: u64 = 500;

/// Short times, so that everything that time brings about is met.
fn config(chance: &mut Chance) -> Config {
    Config {
        lease_ttl_ms: LEASE_MS,
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
            shadows: BTreeMap::new(),
            master_is_up: true,
            incarnations: 0,
            history: History::default(),
            keys: KEYS.len(),
            skips_drops: false,
            judges_misses: false,
            removals: Vec::new(),
            ends: BTreeMap::new(),
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
        self.follow();
        self.beat();
        self.meta.check().expect("the master's invariants hold");
        self.note_absent();
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
            self.history.lose_master(self.now.after_ms(LEASE_MS));
            let epoch = Epoch(self.meta.epoch().0 + 1 + self.chance.below(3));
            self.meta = Meta::new(config(&mut self.chance), epoch);
            let shadows = std::mem::take(&mut self.shadows);
            if self.happens(2) {
                self.meta.remember(shadows);
            }
        }
    }

    /// A master that stands by asks one of the nodes what it holds, or what changed there.
    fn follow(&mut self) {
        if !self.happens(4) {
            return;
        }
        let node = &self.nodes[self.chance.below(self.nodes.len() as u64) as usize];
        if !node.is_reachable() {
            return;
        }
        let shadow = self.shadows.entry(node.segment).or_insert_with(|| node.shadow());
        match node.ledger.follow(&shadow.ask(node.segment), PAGE_ENTRIES) {
            Ok(told) => assert!(shadow.take(&told.page()).is_ok(), "{told:?}"),
            Err(_) => *shadow = node.shadow(),
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
            beat(membership, &mut None, *client, self.now, &mut master);
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
        let before = self.held_keys(request);
        let reply = self.meta.handle(self.now, client, request);
        self.note(client, request, &reply, &before);
        self.note_absent();
        if self.happens(faults.lost_call_in) {
            return Err(CallError::TimedOut { after_ms: 1 });
        }
        Ok(reply)
    }

    fn is_there(&self, key: usize) -> bool {
        self.meta.peek(KEYS[key]).is_some_and(|report| report.complete)
    }

    /// The keys that a request may empty, of those that are there.
    fn held_keys(&self, request: &Request<'_>) -> Vec<usize> {
        let all = 0..KEYS.len();
        let may_empty = |key: &usize| match request {
            Request::Remove { keys, .. } | Request::ClearReplicas { keys, .. } => {
                keys.contains(&KEYS[*key])
            }
            Request::Scan(scan) => scan.action != ScanAction::List,
            _ => false,
        };
        all.filter(may_empty).filter(|&key| self.is_there(key)).collect()
    }

    /// Learns what was ended and what was removed, whether or not the client hears of it.
    fn note(&mut self, client: ClientId, request: &Request<'_>, reply: &Reply, before: &[usize]) {
        for &key in before {
            if !self.is_there(key) {
                let removal = self.history.remove(key);
                self.removals.push((client, removal));
            }
        }
        let (Reply::Statuses(results) | Reply::Remaining { results, .. }) = reply else { return };
        if let Request::PutEnd { puts } = request {
            for (put, _) in puts.iter().zip(results).filter(|(_, status)| status.is_ok()) {
                let key = KEYS.iter().position(|key| *key == put.key).expect("it is one of them");
                self.history.end(key, put.version);
                self.ends.insert((client, key), put.version);
            }
        }
    }

    /// A client was told that what it put under a key is in place.
    pub(crate) fn acknowledge_put(&mut self, client: ClientId, key: usize) {
        if let Some(&version) = self.ends.get(&(client, key)) {
            self.history.know(key, version, self.steps);
        }
    }

    /// A client was told what became of removals: those of these keys are done.
    pub(crate) fn acknowledge_removals(
        &mut self,
        client: ClientId,
        is_done: impl Fn(usize) -> bool,
    ) {
        let told = self.removals.extract_if(.., |(of, _)| *of == client);
        for (_, removal) in told.filter(|(_, removal)| is_done(removal.key)) {
            self.history.acknowledge(&removal, self.steps);
        }
    }

    /// A client died, and will be told of nothing.
    pub(crate) fn forget_removals(&mut self, client: ClientId) {
        self.removals.retain(|(of, _)| *of != client);
    }

    fn note_absent(&mut self) {
        if self.judges_misses {
            for key in (0..self.keys).filter(|&key| !self.is_there(key)).collect::<Vec<_>>() {
                self.history.absent(key, self.steps);
            }
        }
    }

    /// A get that began at that step returned this version.
    pub(crate) fn check_version(&mut self, key: usize, version: Version, began_at: u64) {
        self.history.check(key, version, began_at, self.now);
        self.history.know(key, version, self.steps);
    }

    /// A get that began at that step found nothing.
    pub(crate) fn check_miss(&self, key: usize, began_at: u64) {
        if self.judges_misses {
            self.history.check_miss(key, began_at);
        }
    }

    /// A client has a node drop an entry; either way may fail. Then the client tells the master of the node.
    pub(crate) fn drop_entry(
        &mut self,
        client: ClientId,
        range: &RangeDrop,
        faults: &Faults,
    ) -> Result<(), MoveError> {
        let dropped = self.try_drop(range, faults);
        let of_nodes = self.nodes.iter_mut().map(|node| (node.client, &mut node.membership));
        let others = self.pure_clients.iter_mut().map(|(client, membership)| (*client, membership));
        if let (Err(_), Some((_, membership))) =
            (dropped, of_nodes.chain(others).find(|(of, _)| *of == client))
        {
            membership.report(vec![range.segment]);
        }
        dropped
    }

    fn try_drop(&mut self, range: &RangeDrop, faults: &Faults) -> Result<(), MoveError> {
        if self.happens(faults.lost_call_in) {
            return Err(MoveError::Broken);
        }
        let skips = self.skips_drops;
        let Some(node) = self.node_of(range.segment) else { return Err(MoveError::Broken) };
        if !skips {
            node.drop_entry(range);
        }
        match self.happens(faults.lost_call_in) {
            true => Err(MoveError::Broken),
            false => Ok(()),
        }
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
