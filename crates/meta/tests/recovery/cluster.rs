//! A master, its membership record, nodes, and the calls of clients.

use std::collections::{BTreeMap, VecDeque};

use mooncake_meta::{Config, Effect, Member, Meta, RecordedMembers};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, Located, MountOutcome, MountSegment, OverruledKeys, Remains, Reply,
    Request, SegmentAddress, SegmentId, SegmentState, Tick, Version,
};

use crate::action::{Action, KEYS, NODES};
use crate::call::{Call, Put};
use crate::follow::Follower;
use crate::node::Node;
use crate::promise::Promises;

/// The states that the random worlds must meet, since they test little otherwise.
pub(crate) const RARE: [&str; 19] = [
    "a master died",
    "all nodes reported to a new leader",
    "a segment started empty",
    "an inventory began anew",
    "a call was refused because it was too early",
    "a call named entries that a node held",
    "a node did not confirm",
    "a call was asked again of a new leader",
    "a put was acknowledged by a leader that did not grant it",
    "a segment was marked behind",
    "a segment caught up",
    "a key was overruled",
    "a segment was struck",
    "a node was told to drop something",
    "a stripe was recovered",
    "a range that was being written was recovered",
    "a reader used a route of an earlier leader",
    "a node told what changed",
    "a node had forgotten what changed",
];

/// Segment, offset and length of each range.
type Places = Vec<(SegmentId, u64, u64)>;

/// A reader's route to a version.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) key: String,
    pub(crate) version: Version,
    pub(crate) places: Places,
    pub(crate) until: Tick,
    pub(crate) granted_by: Epoch,
}

pub(crate) struct Cluster {
    pub(crate) config: Config,
    pub(crate) now: Tick,
    pub(crate) meta: Meta,
    /// The membership record: for each member since when it is behind, if it is.
    record: BTreeMap<SegmentId, Option<Version>>,
    /// The overruled keys of the record.
    overruled: OverruledKeys,
    unrecorded: VecDeque<Effect>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) follower: Follower,
    numbered: u128,
    /// How many inventory pages were reported.
    pages: u64,
    pub(crate) puts: Vec<Put>,
    pub(crate) calls: Vec<Call>,
    routes: Vec<Route>,
    pub(crate) promises: Promises,
    pub(crate) met: BTreeMap<&'static str, u64>,
    pub(crate) log: Vec<String>,
}

impl Cluster {
    pub(crate) fn new(config: Config) -> Cluster {
        let lens = [192 << 10, 256 << 10, 128 << 10, 320 << 10];
        let nodes = (0..NODES).map(|at| Node::new(at as u128 + 1, lens[at])).collect();
        let mut cluster = Cluster {
            meta: Meta::new(config.clone(), Epoch(1)),
            config,
            now: Tick(1_000),
            record: BTreeMap::new(),
            overruled: OverruledKeys::default(),
            unrecorded: VecDeque::new(),
            nodes,
            follower: Follower::default(),
            numbered: 1_000,
            pages: 0,
            puts: Vec::new(),
            calls: Vec::new(),
            routes: Vec::new(),
            promises: Promises::default(),
            met: BTreeMap::new(),
            log: Vec::new(),
        };
        cluster.lead(Epoch(1), true);
        cluster
    }

    fn lead(&mut self, epoch: Epoch, fresh: bool) {
        let member = |(&segment, &behind): (&SegmentId, &Option<Version>)| Member {
            segment,
            behind,
            is_disk: false,
        };
        let members = self.record.iter().map(member).collect();
        let record = RecordedMembers { fresh, members, overruled: self.overruled.clone() };
        self.meta = Meta::recover(self.config.clone(), epoch, self.now, &record);
        self.meta.remember(self.follower.lead(!epoch.0.is_multiple_of(3)));
        self.unrecorded.clear();
    }

    pub(crate) fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        let line = format!("      {}", what());
        self.log.push(line);
    }

    pub(crate) fn ask(&mut self, from: ClientId, request: &Request<'_>) -> Reply {
        let reply = self.meta.handle(self.now, from, request);
        self.unrecorded.extend(self.meta.take_effects());
        reply
    }

    pub(crate) fn check(&mut self) {
        if let Err(violation) = self.meta.check() {
            panic!("{violation}");
        }
    }

    pub(crate) fn step(&mut self, action: &Action) {
        self.follower.look(&self.nodes);
        match *action {
            Action::Advance { ms } => self.advance(ms),
            Action::Beat { node } => self.beat(node),
            Action::Cut { node, from_master, from_clients } => {
                self.nodes[node].hears_clients &= !from_clients;
                if from_master && self.nodes[node].hears_master {
                    self.nodes[node].hears_master = false;
                    self.meta.handle_disconnect(self.now, self.nodes[node].client);
                }
            }
            Action::Mend { node } => {
                (self.nodes[node].hears_master, self.nodes[node].hears_clients) = (true, true);
            }
            Action::Lose { node } => self.lose(node),
            Action::Start { key, len, replicas, upsert, hard } => {
                self.start(&name(key), len, replicas, upsert, hard);
            }
            Action::Write { nth, place } => self.write(nth, place),
            Action::End { nth } => self.end(nth),
            Action::Abandon { nth } => self.abandon(nth),
            Action::Revoke { nth } => self.revoke(nth),
            Action::Get { key } => self.get(&name(key)),
            Action::Read { nth } => self.read(nth),
            Action::Remove { key, force } => self.remove(&name(key), force),
            Action::Retry { nth } => self.retry(nth),
            Action::RecordedMembers { count } => self.write_record(count as usize),
            Action::Die { calm } => self.die(calm),
        }
    }

    fn advance(&mut self, ms: u64) {
        self.now = self.now.after_ms(ms);
        while self.meta.poll_timeout().is_some_and(|due| due <= self.now) {
            self.meta.handle_timeout(self.now);
        }
        self.unrecorded.extend(self.meta.take_effects());
        self.routes.retain(|route| route.until > self.now);
    }

    /// Writes changes to the membership record, and confirms them to the master.
    fn write_record(&mut self, count: usize) {
        for _ in 0..count {
            let Some(effect) = self.unrecorded.pop_front() else { return };
            self.note(|| format!("recorded {effect:?}"));
            match effect {
                Effect::Join(id) | Effect::JoinDisk(id) => {
                    self.record.insert(id, None);
                }
                Effect::Strike(id) => {
                    self.meet("a segment was struck");
                    self.record.remove(&id);
                }
                Effect::MarkBehind(id, since) => {
                    self.meet("a segment was marked behind");
                    let earlier =
                        |behind: Option<Version>| behind.map_or(since, |it| it.min(since));
                    self.record.entry(id).and_modify(|behind| *behind = Some(earlier(*behind)));
                }
                Effect::CaughtUp(id) => {
                    self.meet("a segment caught up");
                    self.record.entry(id).and_modify(|behind| *behind = None);
                }
                Effect::Overrule(hash, key) => {
                    self.meet("a key was overruled");
                    self.overruled.add(hash, key);
                }
            }
            if self.record.values().all(Option::is_none) {
                self.overruled.clear();
            }
            self.meta.handle_recorded(self.now, effect);
            self.unrecorded.extend(self.meta.take_effects());
        }
    }

    fn lose(&mut self, at: usize) {
        self.numbered += 1;
        if self.nodes[at].hears_master {
            self.meta.handle_disconnect(self.now, self.nodes[at].client);
        }
        self.nodes[at] = Node::new(self.numbered, self.nodes[at].len);
    }

    /// One ping of a node, and what the master asks of it.
    fn beat(&mut self, at: usize) {
        if !self.nodes[at].hears_master {
            return;
        }
        let (client, segment) = (self.nodes[at].client, self.nodes[at].segment);
        let hosted = if self.nodes[at].mounted_under.is_some() { vec![segment] } else { vec![] };
        let ping = Request::Ping { segments: hosted, unreachable: vec![], reads: None };
        let Reply::Pong(pong) = self.ask(client, &ping) else { panic!("no pong") };
        let node = &mut self.nodes[at];
        node.seen = node.seen.max(pong.epoch);
        if pong.need_remount || node.mounted_under != Some(pong.epoch) {
            return self.mount(at, pong.epoch);
        }
        if node.telling.is_some() {
            return self.tell(at, 3);
        }
        if node.next_page.is_some() {
            return self.report(at, 3);
        }
        if pong.has_drops || !node.dropped.is_empty() {
            let dropped = std::mem::take(&mut node.dropped);
            let fetch = Request::FetchDrops { dropped, limit: 3 };
            let Reply::Drops(drops) = self.ask(client, &fetch) else { panic!("no drops") };
            for range in drops {
                self.meet("a node was told to drop something");
                assert_eq!(range.segment, segment, "nodes drop what is theirs");
                self.nodes[at].drop_entry(range.offset, range.version);
                self.nodes[at].dropped.push(range);
            }
        }
    }

    fn mount(&mut self, at: usize, epoch: Epoch) {
        let node = &self.nodes[at];
        let (client, id, len) = (node.client, node.segment, node.len);
        let name = format!("node-{at}");
        let (seen_epoch, is_empty) = (node.seen, node.ledger.is_empty());
        let (name, endpoint) = (&*name, &*name);
        let medium = mooncake_types::Medium::Memory;
        let mount = MountSegment {
            id,
            name,
            endpoint,
            len,
            seen_epoch,
            is_empty,
            run: 1,
            medium,
            domains: &[],
            seal_key: None,
        };
        for effect in self.meta.effects_before(&mount) {
            let since = match effect {
                Effect::MarkBehind(_, since) => Some(since),
                _ => None,
            };
            self.record.insert(id, since);
            self.meta.handle_recorded(self.now, effect);
        }
        let reply = self.ask(client, &Request::MountSegment(mount));
        self.note(|| format!("{id} of node {at}: {reply:?}"));
        let node = &mut self.nodes[at];
        match reply {
            Reply::Mounted(MountOutcome::Ready) => {
                (node.mounted_under, node.next_page, node.telling) = (Some(epoch), None, None);
            }
            Reply::Mounted(MountOutcome::WantsInventory) => {
                let is_anew = node.next_page.is_some_and(|page| page > 0)
                    && node.mounted_under == Some(epoch);
                (node.mounted_under, node.next_page) = (Some(epoch), Some(0));
                node.telling = None;
                if is_anew {
                    self.meet("an inventory began anew");
                }
            }
            Reply::Mounted(MountOutcome::WantsChanges { since }) => {
                (node.mounted_under, node.next_page) = (Some(epoch), None);
                self.begin_telling(at, since);
                if self.nodes[at].telling.is_none() {
                    self.nodes[at].next_page = Some(0);
                }
            }
            Reply::Mounted(MountOutcome::StartEmpty) => {
                self.numbered += 1;
                node.start_empty(self.numbered);
                self.meet("a segment started empty");
            }
            Reply::Done(Err(_)) => {}
            other => panic!("{other:?}"),
        }
    }

    /// Reports a page of at most `most` entries. Sometimes the node starts its inventory anew.
    fn report(&mut self, at: usize, most: usize) {
        let node = self.nodes[at].clone();
        let mut number = node.next_page.expect("it reports");
        self.pages += 1;
        if number > 0 && self.pages.is_multiple_of(23) {
            self.meet("an inventory began anew");
            number = 0;
        }
        let page = node.page(number, most);
        let (entries, last) = (page.entries.clone(), page.last);
        let reply = self.ask(node.client, &Request::ReportInventory(page));
        if reply == Reply::Done(Err(ErrorCode::UnavailableInCurrentStatus)) {
            // The report took too long, so the node must mount the segment again.
            self.nodes[at].mounted_under = None;
            return;
        }
        assert_eq!(reply, Reply::Done(Ok(())), "{entries:?}");
        for entry in &entries {
            if entry.state == mooncake_types::EntryState::Writing {
                self.meet("a range that was being written was recovered");
            } else if entry.len < entry.object_len {
                self.meet("a stripe was recovered");
            }
        }
        let end = entries.last().map_or(node.reported_to, |entry| entry.offset + entry.len);
        let node = &mut self.nodes[at];
        node.reported_to = end;
        node.next_page = (!last).then_some(number + 1);
    }

    pub(crate) fn node_of(&self, segment: SegmentId) -> Option<usize> {
        self.nodes.iter().position(|node| node.segment == segment)
    }

    fn get(&mut self, key: &str) {
        let reply = self.ask(ClientId(77), &Request::GetReplicaList { keys: vec![key] });
        let Reply::Located { mut results, successors, predecessors, segments, lease_ms } = reply
        else {
            panic!("{reply:?}")
        };
        let Ok(first) = results.remove(0) else { return };
        let ranges = predecessors.into_iter().map(|(_, range)| range).collect();
        if !self.drop_remains(&Remains { ranges, segments: segments.clone(), lease_ms: 0 }) {
            return;
        }
        for located in [first].into_iter().chain(successors.into_iter().map(|(_, newer)| newer)) {
            let (found, all_asked) = self.try_read(&located, &segments);
            if let Some(places) = found {
                let version = located.version;
                self.log.push(format!("        read {key} {version} at {places:?}"));
                self.promises.read(key, version, "after a look-up");
                let until = self.now.after_ms(lease_ms);
                let (key, granted_by) = (key.to_owned(), self.meta.epoch());
                self.routes.push(Route { key, version, places, until, granted_by });
                return;
            }
            if !all_asked {
                return;
            }
        }
    }

    /// The ranges of a replica that its nodes hold, and whether all nodes answered.
    fn try_read(&self, located: &Located, segments: &[SegmentAddress]) -> (Option<Places>, bool) {
        let mut all_asked = true;
        let replicas = located.placements.chunk_by(|a, b| a.replica == b.replica);
        for replica in replicas {
            let places: Places = replica
                .iter()
                .map(|place| (segments[place.segment as usize].id, place.offset, place.len))
                .collect();
            let mut holds_all = true;
            for &(segment, offset, _) in &places {
                let node = self.node_of(segment).map(|at| &self.nodes[at]);
                match node.filter(|node| node.hears_clients) {
                    Some(node) => holds_all &= node.holds(offset, located.version),
                    None => (holds_all, all_asked) = (false, false),
                }
            }
            if holds_all {
                return (Some(places), all_asked);
            }
        }
        (None, all_asked)
    }

    fn read(&mut self, nth: u64) {
        let count = self.routes.len().max(1);
        let Some(route) = self.routes.get(nth as usize % count).cloned() else { return };
        let is_there = route.places.iter().all(|&(segment, offset, _)| {
            let node = self.node_of(segment).map(|at| &self.nodes[at]);
            node.is_some_and(|node| node.hears_clients && node.holds(offset, route.version))
        });
        if !is_there {
            self.routes.swap_remove(nth as usize % count);
            return;
        }
        if route.granted_by < self.meta.epoch() {
            self.meet("a reader used a route of an earlier leader");
        }
        self.log.push(format!("        read {} {} again", route.key, route.version));
        self.promises.read(&route.key, route.version, "by a route that was known");
    }

    /// Checks that no client reads or writes in a granted range.
    pub(crate) fn range_is_free(&self, segment: SegmentId, offset: u64, len: u64) {
        let overlaps = |at: u64, other: u64| at < offset + len && offset < at + other;
        let Some(node) = self.node_of(segment).map(|at| &self.nodes[at]) else { return };
        for (&at, entry) in node.ledger.iter().filter(|(at, entry)| overlaps(**at, entry.len)) {
            let report = self.meta.peek(&entry.key).filter(|report| report.complete);
            let is_read = report.is_some_and(|report| {
                report.located.version == entry.version
                    && report.located.placements.iter().any(|place| {
                        let address = &report.segments[place.segment as usize];
                        (address.id, place.offset) == (segment, at)
                    })
            });
            assert!(!is_read, "{segment}+{offset} was granted, and {entry:?} is read there");
            let put = self.puts.iter().find(|put| put.version == entry.version);
            let may_write = !entry.complete
                && put.is_some()
                && self.now.since_ms(entry.begun) < self.config.put_discard_ms
                && node.next_page.is_none()
                && node.telling.is_none();
            assert!(!may_write, "{segment}+{offset} was granted, and {entry:?} is being written");
        }
        let lives = |route: &&Route| route.until > self.now && self.is_readable(route);
        for route in self.routes.iter().filter(lives) {
            let is_hit =
                route.places.iter().any(|&(other, at, len)| other == segment && overlaps(at, len));
            assert!(!is_hit, "{segment}+{offset} was granted, and {route:?} leads there");
        }
    }

    /// Whether a route still leads to all bytes, and no segment of it counts as lost.
    fn is_readable(&self, route: &Route) -> bool {
        let mounted = self.meta.segments();
        route.places.iter().all(|&(segment, offset, _)| {
            let node = self.node_of(segment).map(|at| &self.nodes[at]);
            mounted.iter().any(|report| report.id == segment)
                && node.is_some_and(|node| node.holds(offset, route.version))
        })
    }

    fn die(&mut self, calm: bool) {
        self.meet("a master died");
        let kept = self.readable_and_kept();
        self.end_routes();
        self.lead(Epoch(self.meta.epoch().0 + 1), false);
        let record = self.record.clone();
        self.note(|| format!("the record: {record:?}"));
        // Readers may still have routes to objects that were replaced on a stale member.
        let waits_for_routes = record.values().any(Option::is_some);
        if !calm {
            return;
        }
        for at in 0..NODES {
            (self.nodes[at].hears_master, self.nodes[at].hears_clients) = (true, true);
            for _ in 0..400 {
                self.beat(at);
                // The master processes the reports.
                self.advance(0);
                let node = &self.nodes[at];
                if node.mounted_under == Some(self.meta.epoch())
                    && node.next_page.is_none()
                    && node.telling.is_none()
                {
                    break;
                }
                self.write_record(1);
            }
        }
        self.write_record(100);
        // With some leaders, the routes end before the check. Latecomers mostly report before that.
        let is_waiting = waits_for_routes && !self.meta.epoch().0.is_multiple_of(4);
        if waits_for_routes && !is_waiting {
            self.advance(self.config.routes_last_ms);
            self.write_record(100);
        }
        let is_ghost = |(&segment, behind): (&SegmentId, &Option<Version>)| {
            behind.is_none() && self.node_of(segment).is_none()
        };
        let ghosts = is_waiting || self.record.iter().any(is_ghost);
        assert!(ghosts || self.meta.serves(), "all have reported");
        self.meet("all nodes reported to a new leader");
        for (key, version) in kept {
            // A look-up of what replaced another version may have to wait for the record.
            self.get(&key);
            self.write_record(1);
            let found = self.meta.peek(&key).filter(|report| report.complete);
            let found = found.map(|report| report.located.version);
            // The object may be hidden while a member that will not return may hold an older version, or a reader a
            // route to one.
            let is_there = found.is_some_and(|found| found >= version);
            assert!(is_there || ghosts, "{version} of {key} is lost: {found:?}");
        }
        (0..KEYS).for_each(|key| self.get(&name(key)));
    }

    /// The leader dies right after it has told every reader how long routes may be used.
    fn end_routes(&mut self) {
        let ping = Request::Ping { segments: vec![], unreachable: vec![], reads: None };
        let Reply::Pong(pong) = self.ask(ClientId(77), &ping) else { panic!("no pong") };
        let end = self.now.after_ms(pong.routes_ms);
        self.routes.iter_mut().for_each(|route| route.until = route.until.min(end));
    }

    /// The readable keys with a replica on members that are not stale.
    fn readable_and_kept(&self) -> Vec<(String, Version)> {
        let is_kept = |segment: SegmentId| self.record.get(&segment) == Some(&None);
        let mut kept = Vec::new();
        for key in (0..KEYS).map(name) {
            let Some(report) = self.meta.peek(&key).filter(|report| report.complete) else {
                continue;
            };
            let version = report.located.version;
            let replicas = report.located.placements.chunk_by(|a, b| a.replica == b.replica);
            let mut replicas = replicas.filter(|replica| {
                replica.iter().all(|place| {
                    let segment = report.segments[place.segment as usize].id;
                    let node = self.node_of(segment).map(|at| &self.nodes[at]);
                    is_kept(segment) && node.is_some_and(|node| node.holds(place.offset, version))
                })
            });
            if replicas.next().is_some() {
                kept.push((key, version));
            }
        }
        kept
    }

    /// Whether the master may grant ranges of this segment: it is mounted, in sight and recorded as a member.
    pub(crate) fn takes_puts(&self, segment: SegmentId) -> bool {
        let reports = self.meta.segments();
        let report = reports.iter().find(|report| report.id == segment);
        report.is_some_and(|report| report.state == SegmentState::Ok && report.in_sight)
            && self.record.contains_key(&segment)
    }
}

fn name(key: u64) -> String {
    format!("key-{key}")
}
