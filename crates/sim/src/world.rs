//! All processes of a run, and the loop that drives them.

use std::collections::BTreeMap;

use mooncake_client::membership::{Lent, Membership};
use mooncake_meta::{Config, Meta, Replication, ReplicationMode};
use mooncake_types::{Chance, ClientId, DrainId, FailureDomains, Medium, SegmentId, Tick, Version};

use crate::beat::Beat;
use crate::clock::Clock;
use crate::follow::Follower;
use crate::host::Host;
use crate::ids::{ConnId, Part, Process, Side, Site};
use crate::intern::intern;
use crate::key::KEYS;
use crate::log::{Detail, Log};
use crate::master::{Master, version_of};
use crate::member::{CALLER, EventContext, Member};
use crate::message::Message;
use crate::net::{Event, Net};
use crate::node::Node;
use crate::quotas;
use crate::run_state::RunState;
use crate::scenario::{Faults, Kind, Scenario};
use crate::service;
use crate::store::Store;
use crate::task::leak;
use crate::verbs::{Doer, random};

/// How long a task of the master may wait for its node, and then how long it may run.
pub(crate) const TASK_MS: u64 = 3_000;

/// A version, and the segment and offset of one of its ranges.
pub(crate) type EntryPlace = (Version, SegmentId, u64);

pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) net: Net,
    pub(crate) run_state: RunState,
    pub(crate) hosts: Vec<Host>,
    pub(crate) members: Vec<Member>,
    pub(crate) masters: Vec<Master>,
    /// The master that leads, or led last.
    pub(crate) leader: usize,
    /// Paused sites, each with the events that wait for it.
    pub(crate) paused: BTreeMap<Site, Vec<Event>>,
    pub(crate) store: Store,
    pub(crate) follower: Follower,
    /// Drain jobs that the operator ordered.
    pub(crate) drains: Vec<DrainId>,
    pub(crate) names: Vec<&'static str>,
    pub(crate) processes: u64,
    /// By key, the ranges that the leader gives to readers.
    pub(crate) places: Vec<Vec<EntryPlace>>,
    /// Whether `places` was up to date after the last event.
    pub(crate) knows_places: bool,
}

/// The parts of a process that outlive it.
struct Past {
    nodes: Vec<Node>,
    client: ClientId,
}

impl World {
    pub(crate) fn new(seed: u64, kind: Kind, events: u64, detail: Detail) -> Self {
        let scenario = Scenario::new(seed, kind, events);
        let mut chance = Chance::new(seed);
        let mut net = Net::new(&scenario, Chance::new(chance.bits()));
        net.faults = Faults::default();
        let mut run_state =
            RunState::new(&scenario, kind, Chance::new(chance.bits()), Log::new(detail));
        run_state.log.add(0, format_args!("{scenario:?}"));
        let names = (0..scenario.nodes).map(name_of).collect();
        let process = Process { site: Site::Master(0), incarnation: 1 };
        net.settle(process);
        let mut store = Store::new(1_000 * scenario.leadership_ms, scenario.most_overruled);
        let (record, epoch) = store.lead(1);
        let mut meta =
            Meta::recover(config(&scenario, &mut run_state.chance), epoch, Tick::ZERO, &record);
        quotas::set(&scenario, &mut meta);
        let master = Master::new(process, clock(&scenario, 0, &mut run_state.chance), meta);
        let (hosts, members, paused) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut world = Self {
            scenario,
            net,
            run_state,
            hosts,
            members,
            masters: vec![master],
            leader: 0,
            store,
            follower: Follower::new(seed),
            drains: Vec::new(),
            paused,
            names,
            processes: 1,
            places: vec![Vec::new(); KEYS.len()],
            knows_places: false,
        };
        if kind == Kind::Leaders {
            world.add_standby();
        }
        for number in 0..world.scenario.nodes + world.scenario.pure_clients {
            let (host, member) = world.process(number, None);
            world.hosts.push(host);
            world.members.push(member);
        }
        world
    }

    /// Makes the next process of a site, with what its predecessor left behind.
    fn process(&mut self, number: usize, past: Option<Past>) -> (Host, Member) {
        self.processes += 1;
        let process = Process { site: Site::Member(number), incarnation: self.processes };
        self.net.settle(process);
        let Past { nodes, client } = past.unwrap_or_else(|| self.nothing_past(number));
        let chance = &mut self.run_state.chance;
        let mut membership = Membership::new(self.masters.len(), Chance::new(chance.bits()));
        let host = Host::new(process, nodes);
        let lent = host.nodes.iter().map(|node| {
            let (name, endpoint) = (node.name.to_owned(), endpoint_of(number));
            let (id, len, medium) = (node.segment(), node.len(), node.medium);
            Lent { id, name, endpoint, len, run: host.run(), medium, domains: domains_of(number) }
        });
        if !host.nodes.is_empty() {
            membership.lend(lent.collect());
        }
        let own = leak(host.own());
        let clock = clock(&self.scenario, self.net.now_us, chance);
        let mut member = Member::new(process, client, clock, Beat::new(membership), own);
        member.beat.wake(process, &mut self.net);
        (host, member)
    }

    /// The state of a process that has no predecessor, or nothing of it.
    fn nothing_past(&self, number: usize) -> Past {
        let (segment, len) =
            (SegmentId(u128::from(self.processes) << 64), self.scenario.segment_len);
        let lends = number < self.scenario.nodes;
        let mut nodes = Vec::new();
        if lends {
            nodes.push(Node::new(segment, self.names[number], len, self.scenario.has_named));
        }
        if lends && self.scenario.disk_len > 0 {
            let segment = SegmentId(segment.0 + (1 << 48));
            nodes.push(Node::disk(segment, disk_name_of(number), self.scenario.disk_len));
        }
        Past { nodes, client: ClientId(u128::from(self.processes)) }
    }

    /// The state that the last process of a site left behind; `None` if nothing of it remains.
    fn past(&mut self, number: usize) -> Option<Past> {
        let is_forgetful = self.scenario.is_forgetful;
        let has_room = |run_state: &mut RunState| !is_forgetful || run_state.chance.below(4) > 0;
        let before = std::mem::take(&mut self.hosts[number].nodes);
        before.iter().for_each(|node| self.run_state.promises.note_gone(node));
        let mut nodes = Vec::new();
        for node in before {
            let medium = node.medium;
            // A disk keeps all of its rows.
            let keeps = |run_state: &mut RunState| medium == Medium::Disk || has_room(run_state);
            nodes.extend(node.start_again(keeps, &mut self.run_state));
        }
        if nodes.is_empty() {
            return None;
        }
        if nodes[0].medium == Medium::Disk {
            self.run_state.fault("came back with its disk alone");
            let fresh = self.nothing_past(number).nodes;
            nodes.splice(0..0, fresh.into_iter().take(1));
        } else {
            self.run_state.fault("came back with its memory");
        }
        Some(Past { nodes, client: self.members[number].client })
    }

    /// Lets all members join without faults, and then begins the run.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1_000 + 500 * self.members.len() {
            if self.is_settled() {
                break;
            }
            self.step();
        }
        if !self.is_settled() {
            self.run_state.blame("every process can join", "one did not".to_owned());
        }
        self.run_state.event = 0;
        self.net.faults = self.scenario.faults;
        for number in 0..self.members.len() {
            self.start_caller(number);
        }
    }

    fn start_caller(&mut self, number: usize) {
        let Self { net, run_state, hosts, members, .. } = self;
        let when_us = net.now_us + run_state.chance.below(1_000);
        members[number].wake_at(CALLER, when_us, &mut EventContext { net, run_state, hosts });
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.members.iter().all(|member| member.beat.membership.is_settled())
    }

    /// Handles one event, then injects faults and checks the invariants.
    pub(crate) fn step(&mut self) {
        let Some(event) = self.net.next() else {
            return self
                .run_state
                .blame("something always happens", "nothing is left to do".to_owned());
        };
        self.run_state.event += 1;
        if let Some(held) = self.site_of(event).and_then(|site| self.paused.get_mut(&site)) {
            held.push(event);
        } else {
            self.handle(event);
            self.run_errands();
        }
        self.inject();
        self.follower.ask(&self.hosts, &mut self.run_state);
        self.operate();
        self.check();
        self.check_promises();
    }

    /// The site that handles an event, or `None` if the network does.
    fn site_of(&self, event: Event) -> Option<Site> {
        match event {
            Event::Arrive { conn, to } => Some(self.net.conn(conn)?.process(to).site),
            Event::Wake { process, .. }
            | Event::Move { process, .. }
            | Event::Serve { process, .. }
            | Event::Timer { process }
            | Event::Written { process }
            | Event::Lead { process } => Some(process.site),
            Event::Start { .. }
            | Event::Resume { .. }
            | Event::Heal { .. }
            | Event::Land { .. } => None,
        }
    }

    fn is_alive(&self, process: Process) -> bool {
        match process.site {
            Site::Master(number) => {
                self.masters[number].is_alive && self.masters[number].process == process
            }
            Site::Member(number) => {
                self.hosts[number].is_alive && self.hosts[number].process == process
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { conn, to } => return self.arrive(conn, to),
            Event::Start { site } => return self.start(site),
            Event::Resume { site } => return self.resume(site),
            Event::Heal { from, to } => return self.net.heal(from, to),
            Event::Land { request } => return self.land(request),
            Event::Wake { process, .. }
            | Event::Move { process, .. }
            | Event::Serve { process, .. }
            | Event::Timer { process }
            | Event::Written { process }
            | Event::Lead { process } => {
                if !self.is_alive(process) {
                    return;
                }
            }
        }
        let number = self.site_of(event).map_or(0, number_of);
        let Self { net, run_state, hosts, members, masters, store, .. } = self;
        let mut around = EventContext { net, run_state, hosts };
        match event {
            Event::Wake { part: Part::Beat, generation, .. } => {
                members[number].on_beat_wake(generation, &mut around);
            }
            Event::Wake { part: Part::Fiber(fiber), generation, .. } => {
                let is_free = members[number].on_wake(fiber, generation, &mut around);
                if is_free && fiber == CALLER && !around.run_state.is_ending {
                    self.do_something(number);
                }
            }
            Event::Move { fiber, peer, generation, .. } => {
                members[number].on_move(fiber, peer, generation, &mut around);
            }
            Event::Serve { conn, .. } => service::serve(conn, &mut hosts[number], net, run_state),
            Event::Timer { .. } => masters[number].on_timer(net, run_state),
            Event::Written { .. } => masters[number].on_written(store, net, run_state),
            Event::Lead { .. } => self.lead_or_wait(number),
            _ => unreachable!("they were handled above"),
        }
    }

    fn arrive(&mut self, conn: ConnId, to: Side) {
        let Some(process) = self.net.conn(conn).map(|it| it.process(to)) else { return };
        let part = self.net.conn(conn).map(|it| it.part);
        let Some(message) = self.net.receive(conn, to) else { return };
        self.run_state
            .log
            .add(self.net.now_us, format_args!("{process:?} {to:?} {conn:?} gets {message:?}"));
        if !self.is_alive(process) {
            return match to {
                Side::Server => self.net.refuse(conn, Message::Deserted),
                Side::Client => self.net.close(conn, Side::Client),
            };
        }
        let number = number_of(process.site);
        let Self { net, run_state, hosts, members, masters, .. } = self;
        match (to, process.site) {
            (Side::Server, Site::Master(_)) => {
                masters[number].on_message(conn, message, net, run_state);
            }
            (Side::Server, Site::Member(_)) => {
                service::on_message(conn, message, &mut hosts[number], net, run_state);
            }
            (Side::Client, _) => {
                let mut around = EventContext { net, run_state, hosts };
                match part.expect("the connection is there") {
                    Part::Beat => members[number].on_beat_message(conn, message, &mut around),
                    Part::Fiber(fiber) => {
                        members[number].on_message(fiber, conn, message, &mut around);
                    }
                }
            }
        }
    }

    fn do_something(&mut self, number: usize) {
        let leave_in = self.scenario.leave_in;
        if number < self.scenario.nodes
            && leave_in > 0
            && self.run_state.chance.below(leave_in) == 0
        {
            self.begin_to_leave(number, true);
        }
        let Self { net, run_state, hosts, members, names, .. } = self;
        let member = &mut members[number];
        member.routes.epoch = hosts[number].epoch();
        let now = member.clock.tick(net.now_us);
        let doer = Doer { own: member.own, routes: &member.routes, now, names };
        let task = random(&doer, run_state);
        member.begin(CALLER, task, &mut EventContext { net, run_state, hosts });
    }

    /// Starts a process at a site where another one died.
    pub(crate) fn start(&mut self, site: Site) {
        if self.is_alive(self.net.process_at(site)) {
            return;
        }
        self.run_state.log.add(self.net.now_us, format_args!("{site:?} starts"));
        match site {
            Site::Member(number) => {
                let past = self.past(number);
                (self.hosts[number], self.members[number]) = self.process(number, past);
                self.start_caller(number);
            }
            Site::Master(_) => {
                self.processes += 1;
                let process = Process { site, incarnation: self.processes };
                self.net.settle(process);
                let clock = clock(&self.scenario, self.net.now_us, &mut self.run_state.chance);
                if number_of(site) == self.leader {
                    self.remember_survivors();
                }
                self.end_term(number_of(site));
                self.masters[number_of(site)] = Master::standby(process, clock);
                match self.masters.len() {
                    1 => self.lead(0),
                    _ => self.net.after(0, Event::Lead { process }),
                }
            }
        }
    }

    fn resume(&mut self, site: Site) {
        self.run_state.log.add(self.net.now_us, format_args!("{site:?} goes on"));
        for event in self.paused.remove(&site).unwrap_or_default() {
            self.net.after(0, event);
        }
    }
}

pub(crate) fn number_of(site: Site) -> usize {
    match site {
        Site::Master(number) | Site::Member(number) => number,
    }
}

/// The address of this node's server.
pub(crate) fn endpoint_of(number: usize) -> String {
    format!("host:{number}")
}

/// The failure domains of this node. Every fourth node names none, as nodes of earlier releases.
pub(crate) fn domains_of(number: usize) -> FailureDomains {
    let domains = match number % 4 {
        3 => String::new(),
        number => format!("rack={}", number % 2),
    };
    domains.parse().expect("a list of failure domains")
}

fn name_of(number: usize) -> &'static str {
    leak_text(format!("node {number}"))
}

/// The name of the disk of this node.
fn disk_name_of(number: usize) -> &'static str {
    leak_text(format!("disk {number}"))
}

fn leak_text(text: String) -> &'static str {
    std::str::from_utf8(intern(text.as_bytes())).expect("it was text")
}

pub(crate) fn clock(scenario: &Scenario, now_us: u64, chance: &mut Chance) -> Clock {
    let drift = scenario.drift as i64;
    Clock::new(now_us, chance.below(2 * scenario.drift + 1) as i64 - drift)
}

/// The master's configuration, with short times so that all that time brings about occurs.
pub(crate) fn config(scenario: &Scenario, chance: &mut Chance) -> Config {
    Config {
        lease_ttl_ms: scenario.lease_ms,
        client_ttl_ms: scenario.client_ttl_ms,
        report_silence_ms: scenario.client_ttl_ms,
        put_discard_ms: scenario.put_discard_ms,
        put_release_ms: scenario.put_release_ms,
        stripe_threshold_bytes: scenario.stripe_threshold,
        pending_task_ms: TASK_MS,
        processing_task_ms: TASK_MS,
        routes_last_ms: scenario.routes_last_ms,
        soft_pin_ttl_ms: 300,
        allow_evict_soft_pinned: scenario.evicts_soft_pinned,
        eviction_high_watermark_ratio: scenario.watermark,
        multi_tenants: scenario.has_quotas,
        replication: Replication {
            mode: match scenario.replicates {
                true => ReplicationMode::Enforce,
                false => ReplicationMode::Off,
            },
            window_ms: 1_000,
            admission_qps: 4.0,
            max_replicas: 3,
        },
        // Repairs are on where nodes die.
        repair_bytes_per_second: if scenario.faults.node_death_in > 0 { 256 << 20 } else { 0 },
        offload: scenario.disk_len > 0,
        offload_on_evict: scenario.sinks,
        offload_force_evict: scenario.sinks && scenario.forces_eviction,
        promotion_on_hit: scenario.promotes,
        max_overruled_keys: scenario.most_overruled.0,
        max_filtered_keys: scenario.most_overruled.1,
        seed: chance.bits(),
        ..Config::default()
    }
}

impl World {
    /// The keys of the objects that the leader gives to readers.
    pub(crate) fn keys_there(&self) -> Vec<usize> {
        (0..self.run_state.keys.min(KEYS.len()))
            .filter(|&key| version_of(&self.masters[self.leader].meta, key).is_some())
            .collect()
    }
}
