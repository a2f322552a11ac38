//! Connections between processes: ordered, delayed, and broken at times.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use mooncake_types::Chance;

use crate::ids::{ConnId, Part, Process, Side, Site};
use crate::message::Message;
use crate::one_sided::Requests;
use crate::scenario::{Faults, Scenario};

/// An event that the network delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The next message of a connection arrives at this side.
    Arrive { conn: ConnId, to: Side },
    /// A thread's wait ends, unless the thread has a newer wait.
    Wake { process: Process, part: Part, generation: u64 },
    /// A thread's transfer with this peer goes on, unless it went on before.
    Move { process: Process, fiber: usize, peer: Site, generation: u64 },
    /// A node's server goes on with a connection.
    Serve { process: Process, conn: ConnId },
    /// Bytes of a one-sided request reach their node.
    Land { request: u64 },
    /// The timer of a master is due.
    Timer { process: Process },
    /// The first pending write of a master is durable.
    Written { process: Process },
    /// A master renews its lease, or tries to take it.
    Lead { process: Process },
    /// A process starts at a site where another one died.
    Start { site: Site },
    /// A paused process resumes.
    Resume { site: Site },
    /// Messages from one site reach the other again.
    Heal { from: Site, to: Site },
}

#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) client: Process,
    pub(crate) server: Process,
    /// The client's thread that uses the connection.
    pub(crate) part: Part,
    is_local: bool,
    ways: [Way; 2],
}

/// One direction of a connection, named after its receiver's side.
#[derive(Debug, Default)]
struct Way {
    messages: VecDeque<(u64, Message)>,
    last_us: u64,
    /// The receiver has closed its end, or no more messages can come.
    is_closed: bool,
}

impl Conn {
    /// Whether both ends are on one host.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    pub(crate) fn process(&self, side: Side) -> Process {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }
}

pub(crate) struct Net {
    pub(crate) now_us: u64,
    /// The [`Instant`] at which `now_us` was zero.
    zero: Instant,
    queue: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    conns: BTreeMap<ConnId, Conn>,
    opened: u64,
    chance: Chance,
    latency_us: u64,
    pub(crate) faults: Faults,
    pub(crate) requests: Requests,
    has_neighbours: bool,
    blocked: BTreeSet<(Site, Site)>,
    /// The process that runs at each site, or ran there last.
    processes: BTreeMap<Site, Process>,
    masters: usize,
}

impl Net {
    pub(crate) fn new(scenario: &Scenario, chance: Chance) -> Self {
        Self {
            now_us: 0,
            zero: Instant::now(),
            queue: BTreeMap::new(),
            scheduled: 0,
            conns: BTreeMap::new(),
            opened: 0,
            chance,
            latency_us: scenario.latency_us,
            faults: scenario.faults,
            requests: Requests::default(),
            has_neighbours: scenario.has_neighbours,
            blocked: BTreeSet::new(),
            processes: BTreeMap::new(),
            masters: 0,
        }
    }

    /// A moment of virtual time as an [`Instant`], for the machines of nodes.
    pub(crate) fn instant(&self, us: u64) -> Instant {
        self.zero + Duration::from_micros(us)
    }

    /// Registers a process at its site.
    pub(crate) fn settle(&mut self, process: Process) {
        self.processes.insert(process.site, process);
        self.masters = self.processes.keys().filter(|it| matches!(it, Site::Master(_))).count();
    }

    /// How many masters have a site.
    pub(crate) fn masters(&self) -> usize {
        self.masters
    }

    pub(crate) fn process_at(&self, site: Site) -> Process {
        self.processes[&site]
    }

    pub(crate) fn happens(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.chance.below(one_in) == 0
    }

    /// Whether two sites are on one host: a site with itself, and the first two members if the run has neighbours.
    pub(crate) fn are_neighbours(&self, one: Site, other: Site) -> bool {
        let on_host = |site| matches!(site, Site::Member(0..=1));
        one == other || (self.has_neighbours && on_host(one) && on_host(other))
    }

    /// A number that was not used before. Events and generations share the sequence.
    pub(crate) fn number(&mut self) -> u64 {
        self.scheduled += 1;
        self.scheduled
    }

    pub(crate) fn at(&mut self, when_us: u64, event: Event) {
        self.scheduled += 1;
        self.queue.insert((when_us.max(self.now_us), self.scheduled), event);
    }

    pub(crate) fn after(&mut self, delay_us: u64, event: Event) {
        self.at(self.now_us + delay_us, event);
    }

    /// Takes the next event, and moves the time to it.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let ((when_us, _), event) = self.queue.pop_first()?;
        self.now_us = when_us;
        Some(event)
    }

    pub(crate) fn conn(&self, conn: ConnId) -> Option<&Conn> {
        self.conns.get(&conn)
    }

    /// Opens a connection with its first message.
    pub(crate) fn open(
        &mut self,
        client: (Process, Part),
        server: Process,
        first: Message,
    ) -> ConnId {
        self.opened += 1;
        let id = ConnId(self.opened);
        let is_local = self.are_neighbours(client.0.site, server.site);
        let ways = [Way::default(), Way::default()];
        self.conns.insert(id, Conn { client: client.0, server, part: client.1, is_local, ways });
        self.send(id, Side::Client, first);
        id
    }

    /// Sends a message. It is lost without notice if the connection is gone.
    pub(crate) fn send(&mut self, id: ConnId, from: Side, message: Message) {
        let Some(conn) = self.conns.get(&id) else { return };
        if !conn.is_local && self.happens(self.faults.reset_in) {
            // The message may have left before the connection broke.
            if self.chance.below(2) == 0 {
                self.push(id, from.other(), message);
            }
            return self.reset(id);
        }
        self.push(id, from.other(), message);
    }

    fn push(&mut self, id: ConnId, to: Side, message: Message) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let is_local = conn.is_local;
        if conn.ways[to as usize].is_closed {
            return;
        }
        let arrives_us = self.now_us + self.delay_us(is_local);
        let way = &mut self.conns.get_mut(&id).expect("it is there").ways[to as usize];
        // Messages stay in order, whatever their delays.
        way.last_us = arrives_us.max(way.last_us + 1);
        way.messages.push_back((way.last_us, message));
        let when_us = way.last_us;
        self.at(when_us, Event::Arrive { conn: id, to });
    }

    pub(crate) fn delay_us(&mut self, is_local: bool) -> u64 {
        let usual = if is_local { 5 } else { self.latency_us };
        let delay_us = usual / 2 + self.chance.below(usual + 1);
        let is_late = !is_local && self.happens(self.faults.straggler_in);
        if is_late { delay_us * 100 } else { delay_us }
    }

    /// A random time of about one message delay.
    pub(crate) fn moment_us(&mut self) -> u64 {
        1 + self.chance.below(2 * self.latency_us + 20)
    }

    /// A random time; short ones are as likely as long ones.
    pub(crate) fn up_to_a_minute_us(&mut self) -> u64 {
        1 << self.chance.below(26)
    }

    /// Whether nothing gets from one site to the other, or back.
    pub(crate) fn are_cut_off(&self, one: Site, other: Site) -> bool {
        self.blocked.contains(&(one, other)) || self.blocked.contains(&(other, one))
    }

    /// Takes the next message if it is due and its way is not blocked.
    pub(crate) fn receive(&mut self, id: ConnId, to: Side) -> Option<Message> {
        let conn = self.conns.get(&id)?;
        let (from, at) = (conn.process(to.other()).site, conn.process(to).site);
        if !conn.is_local && self.blocked.contains(&(from, at)) {
            return None;
        }
        let now_us = self.now_us;
        let way = &mut self.conns.get_mut(&id)?.ways[to as usize];
        way.messages.pop_front_if(|(due_us, _)| *due_us <= now_us).map(|(_, message)| message)
    }

    /// Closes one side. The other side gets [`Message::Close`] after everything that was sent before.
    pub(crate) fn close(&mut self, id: ConnId, by: Side) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let own = &mut conn.ways[by as usize];
        own.is_closed = true;
        own.messages.clear();
        self.push(id, by.other(), Message::Close);
        self.forget_if_closed(id);
    }

    /// A node tells a peer that writes its memory to stop. The node keeps listening.
    pub(crate) fn tell_to_stop(&mut self, id: ConnId) {
        self.push(id, Side::Client, Message::Close);
    }

    /// Answers for a process that is gone, and closes the server's side.
    pub(crate) fn refuse(&mut self, id: ConnId, message: Message) {
        self.push(id, Side::Client, message);
        self.forget(id, Side::Server);
    }

    /// A side that received [`Message::Close`] releases the connection.
    pub(crate) fn forget(&mut self, id: ConnId, by: Side) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.ways[by as usize].is_closed = true;
        conn.ways[by as usize].messages.clear();
        conn.ways[by.other() as usize].is_closed |=
            conn.ways[by.other() as usize].messages.is_empty();
        self.forget_if_closed(id);
    }

    fn forget_if_closed(&mut self, id: ConnId) {
        let is_over =
            |conn: &Conn| conn.ways.iter().all(|way| way.is_closed && way.messages.is_empty());
        if self.conns.get(&id).is_some_and(is_over) {
            self.conns.remove(&id);
        }
    }

    /// Breaks a connection. Either side gets some of the messages under way, and then [`Message::Close`].
    pub(crate) fn reset(&mut self, id: ConnId) {
        for to in [Side::Client, Side::Server] {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            let way = &mut conn.ways[to as usize];
            if way.is_closed {
                continue;
            }
            let kept = self.chance.below(way.messages.len() as u64 + 1) as usize;
            way.messages.truncate(kept);
            self.push(id, to, Message::Close);
        }
    }

    /// Breaks all connections from one site to another.
    pub(crate) fn reset_all(&mut self, client: Site, server: Site) {
        let is_one = |conn: &Conn| conn.client.site == client && conn.server.site == server;
        let broken = self.conns.iter().filter(|(_, conn)| is_one(conn)).map(|(&id, _)| id);
        for id in broken.collect::<Vec<_>>() {
            self.reset(id);
        }
    }

    /// Closes all connections of a process that died.
    pub(crate) fn close_all(&mut self, process: Process) {
        let ends = self.conns.iter().flat_map(|(&id, conn)| {
            [(id, Side::Client, conn.client), (id, Side::Server, conn.server)]
        });
        let of_process: Vec<(ConnId, Side)> =
            ends.filter(|(_, _, end)| *end == process).map(|(id, side, _)| (id, side)).collect();
        for (id, side) in of_process {
            self.close(id, side);
        }
    }

    pub(crate) fn block(&mut self, from: Site, to: Site) {
        self.blocked.insert((from, to));
    }

    /// Unblocks a way. Messages that were held up arrive now.
    pub(crate) fn heal(&mut self, from: Site, to: Site) {
        self.blocked.remove(&(from, to));
        let held = self.conns.iter().filter_map(|(&id, conn)| {
            let sides = [Side::Client, Side::Server];
            let side = sides.into_iter().find(|&side| {
                conn.process(side).site == to && conn.process(side.other()).site == from
            })?;
            Some((id, side, conn.ways[side as usize].messages.len()))
        });
        for (conn, to, count) in held.collect::<Vec<_>>() {
            for _ in 0..count {
                self.after(1, Event::Arrive { conn, to });
            }
        }
    }

    pub(crate) fn heal_all(&mut self) {
        for (from, to) in self.blocked.clone() {
            self.heal(from, to);
        }
    }
}
