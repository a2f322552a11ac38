//! Transfers between a thread and nodes: over connections, straight to memory of the same host, or one-sided.

use std::collections::{BTreeMap, VecDeque};

use mooncake_node::Admission;
use mooncake_ops::{MoveError, Retry, RetryPolicy, Step};
use mooncake_types::{Chance, Epoch, ErrorCode, Medium, RangeWrite};

use crate::extents::{Extents, Piece};
use crate::fiber::Fiber;
use crate::hot::Reading;
use crate::ids::{ConnId, Part, Process, Side, Site};
use crate::intern::intern;
use crate::member::{EventContext, Member};
use crate::message::Message;
use crate::moves::{MoveKind, part_of, payload};
use crate::near_read::{Seen, read_result, see};
use crate::net::Event;
use crate::node::{Writer, WriterTicket};
use crate::one_sided;
use crate::run_state::RunState;
use crate::task::Task;

/// How long a node may be silent before its move fails.
pub(crate) const PATIENCE_US: u64 = 500_000;

/// The moves of one step of an operation.
pub(crate) struct Transfer {
    pub(crate) moves: Vec<Move>,
    left: usize,
    pub(crate) lanes: BTreeMap<Site, Lane>,
}

pub(crate) struct Move {
    pub(crate) what: MoveKind,
    pub(crate) state: TransferState,
    result: Option<Result<(), MoveError>>,
}

#[derive(Clone, Copy)]
pub(crate) enum TransferState {
    /// Waits for its turn, or for the node to learn of the leader.
    Queued,
    /// Waits for the node's answer.
    Asked,
    /// Copies out of memory that this process maps, or one-sided out of memory of another host.
    Reading { holder: Process, seen: Seen, done: u64 },
    /// Waits for an older writer, in a segment of this process.
    Waiting { ticket: WriterTicket },
    /// Copies into memory that this process maps.
    Copying { holder: Process, ticket: WriterTicket, done: u64 },
    /// Waits for its one-sided requests.
    Landing { batch: u64 },
}

/// The moves at one node, which run one after the other.
pub(crate) struct Lane {
    queue: VecDeque<usize>,
    current: Option<usize>,
    pub(crate) generation: u64,
    /// Whether the node has told this writer to stop.
    is_told_to_stop: bool,
    /// Repeats moves at a node that does not know the leader yet.
    retry: Retry,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            current: None,
            generation: 0,
            is_told_to_stop: false,
            retry: Retry::new(RetryPolicy::NEW_LEADER),
        }
    }
}

impl Transfer {
    pub(crate) fn new(step: Step<'static>, task: &Task, run_state: &mut RunState) -> Self {
        let whats: Vec<MoveKind> = match step {
            Step::Read(fetches) => {
                let read = |fetch| MoveKind::Read { fetch, pieces: Vec::new() };
                fetches.into_iter().map(read).collect()
            }
            Step::Write(epoch, deposits) => deposits
                .into_iter()
                .map(|mut deposit| {
                    deposit.range.attributes = intern(deposit.attributes.bytes());
                    let payload = payload(&deposit, &task.buffers);
                    MoveKind::Write { epoch, deposit, payload }
                })
                .collect(),
            Step::Drop(discards) => {
                run_state.tally.drops += discards.len() as u64;
                discards.into_iter().map(MoveKind::Drop).collect()
            }
            _ => unreachable!("only transfers move something"),
        };
        let mut lanes = BTreeMap::<Site, Lane>::new();
        for (index, what) in whats.iter().enumerate() {
            lanes.entry(what.peer()).or_default().queue.push_back(index);
        }
        let moves =
            whats.into_iter().map(|what| Move { what, state: TransferState::Queued, result: None });
        let moves: Vec<Move> = moves.collect();
        Self { left: moves.len(), moves, lanes }
    }

    /// The results, once all moves have ended. Writes the bytes of reads to the buffers of their items.
    pub(crate) fn finish(self, buffers: &mut [Extents]) -> Vec<Result<(), MoveError>> {
        let finish = |done: Move| {
            if let MoveKind::Read { fetch, pieces } = &done.what {
                buffers[fetch.position].write(fetch.at, pieces);
            }
            done.result.expect("all have ended")
        };
        self.moves.into_iter().map(finish).collect()
    }
}

impl Member {
    pub(crate) fn begin_transfer(&mut self, fiber: usize, around: &mut EventContext<'_>) {
        let transfer = self.fibers[fiber].transfer.as_ref().expect("it was just put there");
        let peers: Vec<Site> = transfer.lanes.keys().copied().collect();
        for peer in peers {
            // If the last lane ended the transfer, another transfer may have begun meanwhile.
            let lane = self.fibers[fiber].transfer.as_ref().and_then(|it| it.lanes.get(&peer));
            if lane.is_some_and(|lane| lane.generation == 0) {
                self.next_move(fiber, peer, around);
            }
        }
    }

    pub(crate) fn lane(&mut self, fiber: usize, peer: Site) -> Option<(&mut Transfer, usize)> {
        lane_of(&mut self.fibers, fiber, peer)
    }

    /// Begins the next move at a node. If all moves of the transfer have ended, the task goes on.
    fn next_move(&mut self, fiber: usize, peer: Site, around: &mut EventContext<'_>) {
        let Some(transfer) = self.fibers[fiber].transfer.as_mut() else { return };
        let Some(lane) = transfer.lanes.get_mut(&peer) else { return };
        lane.current = lane.queue.pop_front();
        (lane.is_told_to_stop, lane.generation) = (false, around.net.number());
        let Some(index) = lane.current else {
            if transfer.left == 0 {
                let transfer = self.fibers[fiber].transfer.take().expect("it is here");
                self.transferred(fiber, transfer, around);
            }
            return;
        };
        let what = &transfer.moves[index].what;
        let is_near = around.net.are_neighbours(self.process.site, peer);
        match what {
            MoveKind::Read { fetch, .. } if is_near => {
                let range = fetch.range;
                match see(&range, peer == self.process.site, &around.hosts[site_number(peer)]) {
                    Some(Ok((holder, seen))) => {
                        transfer.moves[index].state =
                            TransferState::Reading { holder, seen, done: 0 };
                        self.step_later(fiber, peer, around);
                    }
                    Some(Err(error)) => self.end_move(fiber, peer, Err(error), around),
                    None => self.ask_node(fiber, peer, is_near, around),
                }
            }
            MoveKind::Write { epoch, deposit, .. } if peer == self.process.site => {
                let (epoch, range) = (*epoch, deposit.range);
                let (net, run_state) = (&mut *around.net, &mut *around.run_state);
                let host = &mut around.hosts[self.number];
                let writer = (Writer::Own, PATIENCE_US);
                match host.begin_write((epoch, &range), writer, net, run_state) {
                    Ok(ticket) => {
                        transfer.moves[index].state = TransferState::Waiting { ticket };
                        self.step_later(fiber, peer, around);
                    }
                    Err(code) => {
                        run_state.tally.refused_writes += 1;
                        self.end_move(fiber, peer, Err(MoveError::Refused(code)), around);
                    }
                }
            }
            MoveKind::Drop(discard) if peer == self.process.site => {
                let range = discard.range;
                let dropped = around.hosts[self.number].drop_range(&range, around.net);
                self.end_move(fiber, peer, dropped.map_err(MoveError::Refused), around);
            }
            _ => self.ask_node(fiber, peer, is_near, around),
        }
    }

    fn step_later(&mut self, fiber: usize, peer: Site, around: &mut EventContext<'_>) {
        let delay_us = around.net.moment_us();
        self.go_on_after(fiber, peer, delay_us, around);
    }

    pub(crate) fn go_on_after(
        &mut self,
        fiber: usize,
        peer: Site,
        delay_us: u64,
        around: &mut EventContext<'_>,
    ) {
        let Some(transfer) = self.fibers[fiber].transfer.as_mut() else { return };
        let Some(lane) = transfer.lanes.get_mut(&peer) else { return };
        lane.generation = around.net.number();
        let (process, generation) = (self.process, lane.generation);
        around.net.after(delay_us, Event::Move { process, fiber, peer, generation });
    }

    /// Sends the first messages of a move.
    fn ask_node(&mut self, fiber: usize, peer: Site, is_near: bool, around: &mut EventContext<'_>) {
        let known = self.fibers[fiber].lanes.get(&peer).copied();
        let host = &around.hosts[site_number(peer)];
        let Some((transfer, index)) = lane_of(&mut self.fibers, fiber, peer) else { return };
        let asked = &mut transfer.moves[index];
        let may_copy = !is_near && around.run_state.has_hot_caches;
        let reading = may_copy
            .then(|| self.hot.begin(&mut asked.what, around.net.now_us, around.run_state))
            .flatten();
        let copied = match reading {
            Some(Reading::Done) => return self.end_move(fiber, peer, Ok(()), around),
            Some(Reading::Ask(question)) => Some(question),
            None => None,
        };
        let node = host.segment_ever(asked.what.segment());
        let is_one_sided = one_sided::is_taken(is_near, around.run_state);
        if let (MoveKind::Read { fetch, .. }, true, None) = (&asked.what, is_one_sided, &copied) {
            match see(&fetch.range, false, host) {
                Some(Ok((holder, seen))) => {
                    asked.state = TransferState::Reading { holder, seen, done: 0 };
                    return self.step_later(fiber, peer, around);
                }
                Some(Err(error)) => return self.end_move(fiber, peer, Err(error), around),
                None => {}
            }
        }
        let is_shared = match is_near {
            true => node.is_some_and(|node| !node.is_named()),
            false => is_one_sided && node.is_some_and(|node| node.medium == Medium::Memory),
        };
        asked.state = TransferState::Asked;
        let chance = &mut around.run_state.chance;
        let mut messages = Vec::new();
        match &asked.what {
            MoveKind::Read { .. } if copied.is_some() => messages.extend(copied),
            MoveKind::Read { fetch, .. } => messages.push(Message::Read(fetch.range)),
            MoveKind::Drop(discard) => messages.push(Message::Drop(discard.range)),
            MoveKind::Write { epoch, deposit, payload } => {
                let (epoch, range) = (*epoch, deposit.range);
                if is_shared && (!is_near || chance.below(4) > 0) {
                    messages.push(Message::Begin { epoch, range });
                } else {
                    messages = write_messages((epoch, range), payload, chance);
                }
            }
        }
        let mut messages = messages.into_iter();
        let first = messages.next().expect("a move begins with a message");
        let conn = match known {
            Some(conn) => {
                around.net.send(conn, Side::Client, first);
                conn
            }
            None => {
                let server = around.net.process_at(peer);
                let conn = around.net.open((self.process, Part::Fiber(fiber)), server, first);
                self.fibers[fiber].lanes.insert(peer, conn);
                conn
            }
        };
        for message in messages {
            around.net.send(conn, Side::Client, message);
        }
        self.go_on_after(fiber, peer, PATIENCE_US, around);
    }

    /// A move goes on, or its node was silent for too long.
    pub(crate) fn on_move(
        &mut self,
        fiber: usize,
        peer: Site,
        generation: u64,
        around: &mut EventContext<'_>,
    ) {
        let Some((transfer, index)) = self.lane(fiber, peer) else { return };
        if transfer.lanes[&peer].generation != generation {
            return;
        }
        match transfer.moves[index].state {
            TransferState::Queued => {
                let lane = transfer.lanes.get_mut(&peer).expect("it is at work");
                lane.queue.push_front(index);
                self.next_move(fiber, peer, around);
            }
            TransferState::Asked => {
                let segment = transfer.moves[index].what.segment();
                self.doubt(segment, around);
                self.break_off(fiber, peer, around);
            }
            TransferState::Reading { holder, seen, done } => {
                self.read_near(fiber, peer, (holder, seen, done), around);
            }
            TransferState::Landing { batch } => self.on_landed((fiber, peer), batch, around),
            TransferState::Waiting { ticket } => self.wait_own(fiber, peer, ticket, around),
            TransferState::Copying { holder, ticket, done } => {
                self.copy_near(fiber, peer, (holder, ticket, done), around);
            }
        }
    }

    /// Fails a move, and closes the connection for it.
    pub(crate) fn break_off(&mut self, fiber: usize, peer: Site, around: &mut EventContext<'_>) {
        self.drop_lane(fiber, peer, around);
        self.end_move(fiber, peer, Err(MoveError::Broken), around);
    }

    fn read_near(
        &mut self,
        fiber: usize,
        peer: Site,
        (holder, seen, done): (Process, Seen, u64),
        around: &mut EventContext<'_>,
    ) {
        let own = self.process.site;
        let is_near = around.net.are_neighbours(own, peer);
        let is_reached = is_near || !around.net.are_cut_off(own, peer);
        let (run_state, host) = (&mut *around.run_state, &around.hosts[site_number(peer)]);
        let Some((transfer, index)) = lane_of(&mut self.fibers, fiber, peer) else { return };
        let is_there = host.is_alive && host.process == holder && is_reached;
        let reading = &mut transfer.moves[index];
        let MoveKind::Read { fetch, pieces } = &mut reading.what else { return };
        let range = fetch.range;
        let Some(node) = host.segment_ever(range.segment).filter(|_| is_there) else {
            return self.end_move(fiber, peer, Err(MoveError::Broken), around);
        };
        let len = (1 + run_state.chance.below(2 * (range.len - done))).min(range.len - done);
        pieces.extend(node.copy_out(range.offset + range.from + done, len));
        if done + len < range.len {
            reading.state = TransferState::Reading { holder, seen, done: done + len };
            return self.step_later(fiber, peer, around);
        }
        let still_holds = match seen {
            Seen::Entry(grant) => host.still_holds(&range, grant),
            Seen::Slot(number) => host.slot_still_holds(&range, number),
        };
        if still_holds && !is_near {
            run_state.meet("one-sided reads", 1);
            self.hot.keep(range, pieces.clone());
        }
        let result = if still_holds { Ok(()) } else { Err(MoveError::Stale) };
        self.end_move(fiber, peer, result, around);
    }

    fn wait_own(
        &mut self,
        fiber: usize,
        peer: Site,
        ticket: WriterTicket,
        around: &mut EventContext<'_>,
    ) {
        let holder = self.process;
        match around.hosts[self.number].admit(ticket, around.net) {
            Admission::Granted => {
                let Some((transfer, index)) = self.lane(fiber, peer) else { return };
                transfer.moves[index].state = TransferState::Copying { holder, ticket, done: 0 };
                self.step_later(fiber, peer, around);
            }
            Admission::Wait(_) => self.step_later(fiber, peer, around),
            Admission::Refused(code) => {
                self.end_move(fiber, peer, Err(MoveError::Refused(code)), around);
            }
        }
    }

    fn copy_near(
        &mut self,
        fiber: usize,
        peer: Site,
        (holder, ticket, done): (Process, WriterTicket, u64),
        around: &mut EventContext<'_>,
    ) {
        let is_own = peer == self.process.site;
        let host = &mut around.hosts[site_number(peer)];
        let is_there = host.is_alive && host.process == holder;
        let Some((transfer, index)) = self.lane(fiber, peer) else { return };
        let is_told_to_stop = transfer.lanes[&peer].is_told_to_stop;
        let node = host.nodes.get_mut(ticket.node);
        let Some(node) = node.filter(|_| is_there && !is_told_to_stop) else {
            self.drop_lane(fiber, peer, around);
            return self.end_move(fiber, peer, Err(MoveError::Broken), around);
        };
        if is_own && node.is_interrupted(ticket.id) && around.run_state.chance.below(2) == 0 {
            node.abandon(ticket.id);
            let refused = Err(MoveError::Refused(ErrorCode::InvalidVersion));
            return self.end_move(fiber, peer, refused, around);
        }
        let copying = &mut transfer.moves[index];
        let MoveKind::Write { deposit, payload, .. } = &copying.what else { return };
        let range_len = deposit.range.len;
        let len = (1 + around.run_state.chance.below(2 * (range_len - done))).min(range_len - done);
        node.change_bytes(ticket.id, done, &part_of(payload, done, len), around.run_state);
        if done + len < range_len {
            copying.state = TransferState::Copying { holder, ticket, done: done + len };
            return self.step_later(fiber, peer, around);
        }
        if is_own {
            let completed = node.complete(ticket.id, around.run_state).map_err(MoveError::Refused);
            return self.end_move(fiber, peer, completed, around);
        }
        copying.state = TransferState::Asked;
        if let Some(&conn) = self.fibers[fiber].lanes.get(&peer) {
            around.net.send(conn, Side::Client, Message::Complete(Ok(())));
        }
        self.go_on_after(fiber, peer, PATIENCE_US, around);
    }

    /// A message of a node arrived.
    pub(crate) fn on_lane_message(
        &mut self,
        fiber: usize,
        conn: ConnId,
        message: Message,
        around: &mut EventContext<'_>,
    ) {
        let lanes = &self.fibers[fiber].lanes;
        let found = lanes.iter().find(|(_, lane)| **lane == conn).map(|(&peer, _)| peer);
        let Some(peer) = found else {
            // An answer on a connection that was given up.
            return around.net.forget(conn, Side::Client);
        };
        let is_over = matches!(message, Message::Close | Message::Deserted);
        let Some((transfer, index)) = lane_of(&mut self.fibers, fiber, peer) else {
            if is_over {
                self.drop_lane(fiber, peer, around);
            }
            return;
        };
        let current = &mut transfer.moves[index];
        let result = match (message, current.state, &mut current.what) {
            (Message::Close, TransferState::Copying { .. }, _) => {
                // The next step of the copy notices it.
                transfer.lanes.get_mut(&peer).expect("it is at work").is_told_to_stop = true;
                return;
            }
            (Message::Done(done), TransferState::Asked, _) => done.map_err(MoveError::Refused),
            (Message::Found(Ok(found)), TransferState::Asked, MoveKind::Read { fetch, pieces }) => {
                // If the hot cache has filled `pieces`, the message only confirms the copy.
                if pieces.is_empty() {
                    self.hot.keep(fetch.range, found.clone());
                    *pieces = found;
                }
                Ok(())
            }
            (Message::Found(Err(code)), TransferState::Asked, _) => read_result(Err(code)),
            (Message::Promised(promised), TransferState::Asked, MoveKind::Read { fetch, .. }) => {
                self.hot.on_promised(&fetch.range, promised.is_ok());
                if promised.is_err() {
                    // Without a promise, the range may still be there.
                    let question = Message::Read(fetch.range.question());
                    return around.net.send(conn, Side::Client, question);
                }
                Ok(())
            }
            (Message::Begun(Ok((ticket, door))), TransferState::Asked, _) => {
                let holder = around.net.process_at(peer);
                if let Some(door) = door {
                    return self.post((fiber, peer), (holder, ticket, door), around);
                }
                current.state = TransferState::Copying { holder, ticket, done: 0 };
                return self.step_later(fiber, peer, around);
            }
            (Message::Begun(Err(code)), TransferState::Asked, _) => Err(MoveError::Refused(code)),
            (_, _, what) => {
                let segment = what.segment();
                self.doubt(segment, around);
                self.drop_lane(fiber, peer, around);
                return self.end_move(fiber, peer, Err(MoveError::Broken), around);
            }
        };
        self.end_move(fiber, peer, result, around);
    }

    fn drop_lane(&mut self, fiber: usize, peer: Site, around: &mut EventContext<'_>) {
        if let Some(conn) = self.fibers[fiber].lanes.remove(&peer) {
            around.net.close(conn, Side::Client);
        }
    }

    fn end_move(
        &mut self,
        fiber: usize,
        peer: Site,
        result: Result<(), MoveError>,
        around: &mut EventContext<'_>,
    ) {
        if result == Err(MoveError::Refused(ErrorCode::UNKNOWN_LEADER))
            && self.ask_again(fiber, peer, around)
        {
            return;
        }
        let Some((transfer, index)) = self.lane(fiber, peer) else { return };
        transfer.moves[index].result = Some(result);
        transfer.left -= 1;
        self.next_move(fiber, peer, around);
    }
}

impl Member {
    /// Repeats a move later, since the node does not know the leader yet. False if the time for that is over.
    fn ask_again(&mut self, fiber: usize, peer: Site, around: &mut EventContext<'_>) -> bool {
        let clock = self.clock;
        let Some((transfer, index)) = self.lane(fiber, peer) else { return false };
        let lane = transfer.lanes.get_mut(&peer).expect("it is at work");
        let now_us = around.net.now_us;
        let Some(at) = lane.retry.again_at(clock.tick(now_us)) else { return false };
        transfer.moves[index].state = TransferState::Queued;
        around.run_state.fault("reached a node before its leader did");
        self.go_on_after(fiber, peer, clock.moment(at).saturating_sub(now_us), around);
        true
    }
}

/// A write whose bytes go with it, in some parts.
fn write_messages(
    (epoch, range): (Epoch, RangeWrite<'static>),
    payload: &[Piece],
    chance: &mut Chance,
) -> Vec<Message> {
    let is_small = chance.below(3) == 0;
    let step = if is_small { range.len } else { 1 + chance.below(range.len) };
    let step = step.max(range.len / 3 + 1).min(range.len);
    let parts = (0..range.len).step_by(step as usize).map(|from| {
        let len = step.min(range.len - from);
        Message::Part(part_of(payload, from, len))
    });
    std::iter::once(Message::Write { epoch, range, is_small }).chain(parts).collect()
}

/// The move that a thread runs at a node at present, with its transfer.
fn lane_of(fibers: &mut [Fiber], fiber: usize, peer: Site) -> Option<(&mut Transfer, usize)> {
    let transfer = fibers[fiber].transfer.as_mut()?;
    let current = transfer.lanes.get(&peer)?.current?;
    Some((transfer, current))
}

fn site_number(site: Site) -> usize {
    match site {
        Site::Member(number) | Site::Master(number) => number,
    }
}
