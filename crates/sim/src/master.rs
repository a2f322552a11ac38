//! A master: the state machine, its clock, its connections, and the checks of its answers.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use mooncake_meta::{Config, Effect, Meta};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, MountOutcome, PutItem, ReplicateConfig, Reply, Request, ScanAction,
    SegmentId, SoftPin, Tick, Version,
};
use mooncake_wire::HEADER_LEN;

use crate::clock::Clock;
use crate::ids::{ConnId, Process, Side};
use crate::key::{KEYS, number_of};
use crate::message::Message;
use crate::net::{Event, Net};
use crate::promises::served;
use crate::run_state::RunState;
use crate::scenario::Scenario;
use crate::store::Store;
use crate::verbs::is_matched;
use crate::watched::Watched;

pub(crate) struct Master {
    pub(crate) process: Process,
    pub(crate) is_alive: bool,
    clock: Clock,
    pub(crate) meta: Watched,
    /// Whether it believes that it leads.
    pub(crate) leads: bool,
    /// From when on, by its own clock, another master may lead. `None` if there is no other.
    valid_until: Option<Tick>,
    /// From when on it closes connections instead of waiting to resume its lease.
    silent_from: Option<Tick>,
    /// Until then it reaches neither the lease nor the record.
    pub(crate) cut_off_until_us: u64,
    /// The client on each connection.
    clients: BTreeMap<ConnId, ClientId>,
    /// The connection on which each client pinged last.
    pings: BTreeMap<ClientId, ConnId>,
    /// When the timer fires, if one is set.
    timer_us: Option<u64>,
    /// Changes to the record that are not durable yet, in order.
    writes: VecDeque<Write>,
    /// When the last page of each segment's inventory or changes came.
    reported: BTreeMap<SegmentId, u64>,
    /// Ranges granted since the last call of [`Master::take_granted`].
    granted: Vec<Granted>,
}

/// See [`Master::hold`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    Sure,
    /// It waits to resume its lease, and refuses puts, removals and look-ups.
    Suspended,
    Over,
}

/// A range that was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) key: &'static str,
    pub(crate) segment: SegmentId,
    pub(crate) range: (u64, u64),
    pub(crate) version: Version,
    /// When the leader received the segment's inventory, if it needed one.
    pub(crate) reported_us: Option<u64>,
}

/// Changes of the record that are written in one step. A mount waits for them, if there is one.
struct Write {
    effects: Vec<Effect>,
    mount: Option<(ConnId, ClientId, Bytes)>,
}

impl Master {
    pub(crate) fn new(process: Process, clock: Clock, meta: Meta) -> Self {
        let (clients, pings) = (BTreeMap::new(), BTreeMap::new());
        let (timer_us, writes) = (None, VecDeque::new());
        let (leads, valid_until, silent_from) = (true, None, None);
        Self {
            process,
            is_alive: true,
            clock,
            meta: Watched::new(meta),
            leads,
            valid_until,
            silent_from,
            cut_off_until_us: 0,
            clients,
            pings,
            timer_us,
            writes,
            reported: BTreeMap::new(),
            granted: Vec::new(),
        }
    }

    pub(crate) fn take_granted(&mut self) -> Vec<Granted> {
        std::mem::take(&mut self.granted)
    }

    /// A master that waits until it may lead.
    pub(crate) fn standby(process: Process, clock: Clock) -> Self {
        let meta = Meta::new(Config::default(), Epoch(0));
        Self { leads: false, ..Self::new(process, clock, meta) }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Renews the lease. It counts from `asked_us`, when the master asked for it.
    pub(crate) fn prolong(&mut self, asked_us: u64, scenario: &Scenario) {
        // The coordinator's clock may run faster than this one.
        let sure_ms = scenario.leadership_ms * 9 / 10;
        let until = self.clock.tick(asked_us).after_ms(sure_ms);
        self.valid_until = Some(until);
        self.meta.change().set_lease_end(Some(until));
        self.silent_from = Some(until.after_ms(scenario.suspension_ms * 9 / 10));
    }

    /// Whether it leads, and no other master can.
    pub(crate) fn is_sure(&self, now_us: u64) -> bool {
        self.is_alive && self.hold(now_us) == LeaseState::Sure
    }

    /// What the master may do now, as its lease says.
    fn hold(&self, now_us: u64) -> LeaseState {
        let now = self.clock.tick(now_us);
        let is_over = |end: Option<Tick>| end.is_some_and(|end| now >= end);
        match self.leads {
            false => LeaseState::Over,
            true if is_over(self.silent_from) => LeaseState::Over,
            true if is_over(self.valid_until) => LeaseState::Suspended,
            true => LeaseState::Sure,
        }
    }

    /// Stops leading: closes all connections, and gives up writes that are not durable.
    pub(crate) fn step_down(&mut self, net: &mut Net) {
        self.leads = false;
        for conn in std::mem::take(&mut self.clients).into_keys() {
            net.close(conn, Side::Server);
        }
        self.pings.clear();
        self.writes.clear();
    }

    pub(crate) fn on_message(
        &mut self,
        conn: ConnId,
        message: Message,
        net: &mut Net,
        run_state: &mut RunState,
    ) {
        let hold = self.hold(net.now_us);
        if hold == LeaseState::Over {
            self.step_down(net);
            return net.close(conn, Side::Server);
        }
        match (message, self.clients.get(&conn).copied()) {
            (Message::Hello(client), None) => {
                self.clients.insert(conn, client);
                net.send(conn, Side::Server, Message::Welcome(self.meta.epoch()));
            }
            (Message::Request(body), Some(client)) if hold == LeaseState::Suspended => {
                return self.answer_suspended((conn, client), body, net);
            }
            (Message::Request(body), Some(client)) => {
                self.answer((conn, client), body, net, run_state);
            }
            (_, known) => {
                net.forget(conn, Side::Server);
                if let Some(client) = known {
                    self.clients.remove(&conn);
                    if self.pings.get(&client) == Some(&conn) {
                        self.pings.remove(&client);
                        self.meta.change().handle_disconnect(self.clock.tick(net.now_us), client);
                    }
                }
            }
        }
        self.set_timer(net);
    }

    /// Answers a request after the end of the lease, without changing any object.
    fn answer_suspended(&mut self, (conn, client): (ConnId, ClientId), body: Bytes, net: &mut Net) {
        let message = mooncake_wire::decode_request(body).expect("a client's request is sound");
        let request = message.request().expect("a client's request is sound");
        if let Request::MountSegment(mount) = &request
            && mount.seen_epoch > self.meta.epoch()
        {
            self.step_down(net);
            return net.close(conn, Side::Server);
        }
        let now = self.clock.tick(net.now_us);
        let reply = self.meta.change().handle_suspended(now, client, &request);
        self.send(conn, client, &reply, net);
    }

    fn send(&mut self, conn: ConnId, client: ClientId, reply: &Reply, net: &mut Net) {
        if matches!(reply, Reply::Pong(_)) {
            self.pings.insert(client, conn);
        }
        let mut frame = Vec::new();
        mooncake_wire::encode_reply(&mut frame, 0, reply);
        let body = Bytes::from(frame).slice(HEADER_LEN..);
        net.send(conn, Side::Server, Message::Reply(body));
    }

    fn answer(
        &mut self,
        (conn, client): (ConnId, ClientId),
        body: Bytes,
        net: &mut Net,
        run_state: &mut RunState,
    ) {
        let message = mooncake_wire::decode_request(body.clone());
        let message = message.expect("a client's request is sound");
        let request = message.request().expect("a client's request is sound");
        if let Request::MountSegment(mount) = &request {
            let effects = self.meta.effects_before(mount);
            if !effects.is_empty() {
                return self.write(effects, Some((conn, client, body)), net);
            }
        }
        let before = held(&self.meta, &request, run_state.keys);
        if self.meta.serves() {
            run_state.survivors.retain(|key, _| !names(&request, *key));
        }
        // What callers in the process of a node ask says nothing about its heartbeats.
        let is_of_node = matches!(
            request,
            Request::Ping { .. }
                | Request::MountSegment(_)
                | Request::ReportInventory(_)
                | Request::ReportChanges(_)
        );
        if is_of_node {
            run_state.promises.note_heard(client);
        }
        let known = served(&self.meta, run_state.keys);
        let now = self.clock.tick(net.now_us);
        let reply = self.watch(run_state, |meta| meta.handle(now, client, &request));
        if let (Request::PutStart(start), Reply::Granted { results, .. }) = (&request, &reply) {
            // A put takes the place of versions that the leader does not know of yet.
            let granted = start.puts.iter().zip(results).filter(|(_, grant)| grant.is_ok());
            let keys = granted.map(|(put, _)| number_of(put.key));
            for key in keys.filter(|key| !known.contains_key(key)) {
                run_state.promises.note_removed(key, self.meta.newest_version());
            }
        }
        self.note(conn, &request, &reply, &before, (net.now_us, run_state));
        self.send(conn, client, &reply, net);
    }

    /// Makes a change, and notes what the master evicts in it.
    fn watch<T>(&mut self, run_state: &mut RunState, change: impl FnOnce(&mut Meta) -> T) -> T {
        // What sinks to a disk first leaves memory later than the attempt.
        let evictions = |meta: &Meta| {
            let counters = meta.stats().counters;
            (counters.evictions_attempted, counters.evicted_bytes)
        };
        let (before, evicted) = (served(&self.meta, run_state.keys), evictions(&self.meta));
        let result = change(self.meta.change());
        if evictions(&self.meta) != evicted {
            run_state.promises.note_evicted(&before, &served(&self.meta, run_state.keys));
        }
        result
    }

    /// Records what was granted, ended and removed, whether or not the client hears of it.
    fn note(
        &mut self,
        conn: ConnId,
        request: &Request<'_>,
        reply: &Reply,
        before: &[(usize, Version)],
        (now_us, run_state): (u64, &mut RunState),
    ) {
        let is_late = matches!(reply, Reply::Refused(ErrorCode::UnavailableInCurrentStatus));
        if !matches!(reply, Reply::Refused(_)) || (is_late && self.meta.serves()) {
            // Objects out of sight are removed, too. A client that is to ask again may give up, and cannot tell then
            // whether the object is removed.
            let named = (0..run_state.keys).filter(|&key| names(request, key));
            let is_gone = |&key: &usize| is_late || version_of(&self.meta, key).is_none();
            let gone: Vec<usize> = named.filter(is_gone).collect();
            for key in gone {
                run_state.promises.note_removed(key, self.meta.newest_version());
            }
        }
        for &(key, version) in before {
            // Replicas on nodes that are out of sight remain.
            let is_hidden = self.meta.is_out_of_sight(KEYS[key]);
            if is_hidden || version_of(&self.meta, key) == Some(version) {
                continue;
            }
            run_state.note_removal(conn, key, version);
            if let Request::Retract { ranges, .. } = request
                && ranges.iter().all(|range| range.version != version)
            {
                let text = format!("{version} of key {key}, by {request:?}");
                run_state.blame("a removal asked for again takes only what it took", text);
            }
        }
        match (request, reply) {
            (Request::MountSegment(_), Reply::Mounted(MountOutcome::Ready)) => {
                self.note_mounted(conn, run_state);
            }
            (Request::ReportInventory(page), Reply::Done(Ok(()))) if page.last => {
                self.reported.insert(page.segment, now_us);
                self.note_mounted(conn, run_state);
            }
            (Request::ReportChanges(page), Reply::Done(Ok(()))) if page.last => {
                self.reported.insert(page.segment, now_us);
                self.note_mounted(conn, run_state);
            }
            (Request::PutStart(start), Reply::Granted { results, segments }) => {
                let puts = start.puts.iter().zip(results);
                for (put, grant) in
                    puts.filter_map(|(put, grant)| Some((put, grant.as_ref().ok()?)))
                {
                    let key = KEYS[number_of(put.key)];
                    self.granted.extend(grant.placements.iter().map(|range| {
                        let segment = segments[range.segment as usize].id;
                        let reported_us = self.reported.get(&segment).copied();
                        let (version, range) = (grant.version, (range.offset, range.len));
                        Granted { key, segment, range, version, reported_us }
                    }));
                }
                for (put, grant) in start.puts.iter().zip(results) {
                    if let Ok(grant) = grant {
                        tally_put(put, &start.config, run_state);
                        run_state.survivors.remove(&number_of(put.key));
                        run_state.note_grant(
                            self.clients[&conn],
                            number_of(put.key),
                            grant.version,
                        );
                    }
                }
            }
            (
                Request::PutEnd { puts },
                Reply::Statuses(results) | Reply::Remaining { results, .. },
            ) => {
                for (put, _) in puts.iter().zip(results).filter(|(_, status)| status.is_ok()) {
                    run_state.note_end(conn, number_of(put.key), put.version);
                }
            }
            _ => {}
        }
    }

    /// The client on a connection has mounted a segment, with what it holds.
    fn note_mounted(&self, conn: ConnId, run_state: &mut RunState) {
        if let Some(&client) = self.clients.get(&conn) {
            run_state.promises.note_mounted(client);
        }
    }

    fn write(
        &mut self,
        effects: Vec<Effect>,
        mount: Option<(ConnId, ClientId, Bytes)>,
        net: &mut Net,
    ) {
        self.writes.push_back(Write { effects, mount });
        if self.writes.len() == 1 {
            self.write_on(net);
        }
    }

    /// Schedules the moment at which the first write is durable.
    fn write_on(&mut self, net: &mut Net) {
        let delay_us = 20 * net.moment_us();
        net.after(delay_us, Event::Written { process: self.process });
    }

    /// The first write is durable.
    pub(crate) fn on_written(
        &mut self,
        store: &mut Store,
        net: &mut Net,
        run_state: &mut RunState,
    ) {
        if net.now_us < self.cut_off_until_us {
            return net.at(self.cut_off_until_us, Event::Written { process: self.process });
        }
        if store.fences(self.process) {
            self.step_down(net);
        }
        let Some(write) = self.writes.pop_front() else { return };
        run_state
            .log
            .add(net.now_us, format_args!("{:?} has written {:?}", self.process, write.effects));
        for effect in write.effects {
            run_state.promises.note_written(effect, store);
            store.apply(effect);
            self.meta.change().handle_recorded(self.clock.tick(net.now_us), effect);
        }
        if !self.writes.is_empty() {
            self.write_on(net);
        }
        match (write.mount, self.hold(net.now_us)) {
            (Some((conn, client, body)), LeaseState::Sure) => {
                self.answer((conn, client), body, net, run_state);
            }
            (Some((conn, client, body)), LeaseState::Suspended) => {
                self.answer_suspended((conn, client), body, net);
            }
            _ => {}
        }
        self.set_timer(net);
    }

    /// The process dies. Some of its pending writes became durable, in order.
    pub(crate) fn lose_writes(&mut self, store: &mut Store, run_state: &mut RunState) {
        let done = run_state.chance.below(self.writes.len() as u64 + 1) as usize;
        for effect in self.writes.drain(..).take(done).flat_map(|write| write.effects) {
            run_state.promises.note_written(effect, store);
            store.apply(effect);
        }
    }

    pub(crate) fn on_timer(&mut self, net: &mut Net, run_state: &mut RunState) {
        if self.timer_us.is_none_or(|due_us| due_us > net.now_us) {
            return;
        }
        self.timer_us = None;
        if self.hold(net.now_us) != LeaseState::Sure {
            return;
        }
        let now = self.clock.tick(net.now_us);
        if self.meta.poll_timeout().is_some_and(|due| due <= now) {
            self.watch(run_state, |meta| meta.handle_timeout(now));
        }
        self.set_timer(net);
    }

    /// Writes pending effects to the record, and schedules the next timeout. Call it after each use of the state
    /// machine.
    pub(crate) fn set_timer(&mut self, net: &mut Net) {
        if self.meta.has_effects() {
            for effect in self.meta.change().take_effects() {
                self.write(vec![effect], None, net);
            }
        }
        let Some(due) = self.meta.poll_timeout() else { return };
        // A timeout that is already due waits, so that requests are answered in between.
        let due_us = self.clock.moment(due).max(net.now_us + 100);
        if self.timer_us.is_none_or(|set_us| due_us < set_us) {
            self.timer_us = Some(due_us);
            net.at(due_us, Event::Timer { process: self.process });
        }
    }

    /// The key and version that the master gives to readers in this range, if any.
    pub(crate) fn owner_of(
        &self,
        segment: SegmentId,
        (offset, len): (u64, u64),
        keys: usize,
    ) -> Option<(usize, Version)> {
        (0..keys).find_map(|key| {
            let report = self.meta.peek(KEYS[key]).filter(|report| report.complete)?;
            let overlaps = report.located.placements.iter().any(|range| {
                report.segments[range.segment as usize].id == segment
                    && range.offset < offset + len
                    && offset < range.offset + range.len
            });
            overlaps.then_some((key, report.located.version))
        })
    }
}

/// The version that readers of a key are given.
pub(crate) fn version_of(meta: &Meta, key: usize) -> Option<Version> {
    meta.peek(KEYS[key]).filter(|report| report.complete).map(|report| report.located.version)
}

/// Counts the pins and groups of granted puts.
fn tally_put(put: &PutItem<'_>, config: &ReplicateConfig<'_>, run_state: &mut RunState) {
    let is_soft = !matches!(config.soft_pin, SoftPin::Preserve | SoftPin::Disable);
    run_state.meet("puts in groups", u64::from(!put.group.is_empty()));
    run_state.meet("hard-pinned puts", u64::from(config.hard_pin));
    run_state.meet("soft-pinned puts", u64::from(is_soft));
}

/// Whether a request may remove the object under a key.
fn names(request: &Request<'_>, key: usize) -> bool {
    match request {
        Request::Remove { keys, .. }
        | Request::ClearReplicas { keys, .. }
        | Request::Retract { keys, .. } => keys.contains(&KEYS[key]),
        Request::Scan(scan) => {
            scan.action != ScanAction::List
                && scan.pattern.is_none_or(|pattern| is_matched(pattern, KEYS[key]))
        }
        _ => false,
    }
}

/// The readable objects that a request may remove.
fn held(meta: &Meta, request: &Request<'_>, keys: usize) -> Vec<(usize, Version)> {
    let named = (0..keys).filter(|&key| names(request, key));
    named.filter_map(|key| Some((key, version_of(meta, key)?))).collect()
}
