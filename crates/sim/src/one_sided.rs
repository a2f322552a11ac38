//! One-sided transfers between hosts: no process at the far end takes part.
//!
//! A writer gets a door to the range that it has begun, and posts requests. These land piece by piece and arbitrarily
//! late, whatever has become of the writer, of its connection and of the range by then. Only a closed door keeps them
//! out.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_types::RangeWrite;
use mooncake_types::mutation::{Rule, is_broken};

use crate::extents::Piece;
use crate::ids::{Process, Side, Site};
use crate::member::{EventContext, Member};
use crate::message::Message;
use crate::moves::{MoveKind, part_of};
use crate::net::{Event, Net};
use crate::node::WriterTicket;
use crate::run_state::RunState;
use crate::transfer::{PATIENCE_US, TransferState};
use crate::world::{World, number_of};

/// How a writer reaches a range: a key that is valid for this write, at an endpoint for the writer's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Door {
    endpoint: u64,
    key: u64,
}

/// The doors of a node's process that are open.
#[derive(Default)]
pub(crate) struct Doors {
    endpoints: BTreeSet<u64>,
    keys: BTreeSet<u64>,
}

impl Doors {
    /// Opens a door for one more write of a connection, which may have an endpoint already.
    pub(crate) fn open(&mut self, kept: Option<u64>, net: &mut Net) -> Door {
        let door = Door { endpoint: kept.unwrap_or_else(|| net.number()), key: net.number() };
        self.endpoints.insert(door.endpoint);
        self.keys.insert(door.key);
        door
    }

    /// Makes the key invalid, as a node does before it completes or abandons the write. Returns the endpoint, which
    /// stays open for the connection's next write if the writer says that all of its requests have ended.
    pub(crate) fn close(&mut self, door: Door, have_ended: bool) -> Option<u64> {
        if is_broken(Rule::WritersAreShutOut) {
            return None;
        }
        self.keys.remove(&door.key);
        if !have_ended {
            self.endpoints.remove(&door.endpoint);
        }
        have_ended.then_some(door.endpoint)
    }

    /// Closes the endpoint of a connection that ends.
    pub(crate) fn close_endpoint(&mut self, endpoint: u64) {
        self.endpoints.remove(&endpoint);
    }

    /// Whether bytes of a request land. Providers in software look at the key when the request begins, so one that has
    /// begun goes on until the endpoint is closed.
    fn let_in(&self, door: Door, has_begun: bool) -> bool {
        self.endpoints.contains(&door.endpoint) && (has_begun || self.keys.contains(&door.key))
    }
}

/// All requests that are under way, and the batches that writers wait for.
#[derive(Default)]
pub(crate) struct Requests {
    under_way: BTreeMap<u64, Request>,
    batches: BTreeMap<u64, Batch>,
}

struct Request {
    holder: Process,
    door: Door,
    ticket: WriterTicket,
    range: RangeWrite<'static>,
    /// Where its next bytes go, from the start of the range on.
    from: u64,
    pieces: Vec<Piece>,
    has_begun: bool,
    batch: u64,
}

struct Batch {
    left: usize,
    has_failed: bool,
    /// Goes on when all requests have ended.
    waiting: Event,
}

impl Net {
    /// When the next bytes of a request land. Some take as long as a run.
    fn land_later(&mut self, request: u64) {
        let mut delay_us = self.delay_us(false);
        if self.happens(self.faults.late_request_in) {
            delay_us += self.up_to_a_minute_us();
        }
        self.after(delay_us, Event::Land { request });
    }

    /// A request has ended. Tells its writer if that was the last one.
    fn end_request(&mut self, batch: u64, is_good: bool) {
        let Some(waited) = self.requests.batches.get_mut(&batch) else { return };
        waited.left -= 1;
        waited.has_failed |= !is_good;
        if waited.left == 0 {
            let (event, delay_us) = (waited.waiting, self.delay_us(false));
            self.after(delay_us, event);
        }
    }
}

impl World {
    /// Some bytes of a request arrive at the memory of a node, unless the door is closed.
    pub(crate) fn land(&mut self, number: u64) {
        let Self { net, run_state, hosts, .. } = self;
        let Some(mut request) = net.requests.under_way.remove(&number) else { return };
        let host = &mut hosts[number_of(request.holder.site)];
        let is_there = host.is_alive && host.process == request.holder;
        if !is_there || !host.doors.let_in(request.door, request.has_begun) {
            run_state.meet("requests that were shut out", 1);
            return net.end_request(request.batch, false);
        }
        let len: u64 = request.pieces.iter().map(|piece| piece.len).sum();
        let landed = (1 + run_state.chance.below(2 * len)).min(len);
        let node = host.node_of(request.ticket);
        let pieces = part_of(&request.pieces, 0, landed);
        node.land(&request.range, request.from, &pieces, run_state);
        if landed == len {
            return net.end_request(request.batch, true);
        }
        request.pieces = part_of(&request.pieces, landed, len - landed);
        (request.from, request.has_begun) = (request.from + landed, true);
        net.requests.under_way.insert(number, request);
        net.land_later(number);
    }
}

impl Member {
    /// Posts the requests of a write that has begun, and waits for them.
    pub(crate) fn post(
        &mut self,
        (fiber, peer): (usize, Site),
        (holder, ticket, door): (Process, WriterTicket, Door),
        around: &mut EventContext<'_>,
    ) {
        let batch = around.net.number();
        let Some((transfer, index)) = self.lane(fiber, peer) else { return };
        let posting = &mut transfer.moves[index];
        let MoveKind::Write { deposit, payload, .. } = &posting.what else { return };
        let (range, payload) = (deposit.range, payload.clone());
        posting.state = TransferState::Landing { batch };
        self.go_on_after(fiber, peer, PATIENCE_US, around);
        let Some((transfer, _)) = self.lane(fiber, peer) else { return };
        let generation = transfer.lanes[&peer].generation;
        let waiting = Event::Move { process: self.process, fiber, peer, generation };
        let EventContext { net, run_state, .. } = around;
        let step = 1 + run_state.chance.below(range.len);
        let step = step.max(range.len / 3 + 1).min(range.len);
        let starts = (0..range.len).step_by(step as usize);
        let left = starts.clone().count();
        net.requests.batches.insert(batch, Batch { left, has_failed: false, waiting });
        for from in starts {
            let pieces = part_of(&payload, from, step.min(range.len - from));
            let (number, has_begun) = (net.number(), false);
            let request = Request { holder, door, ticket, range, from, pieces, has_begun, batch };
            net.requests.under_way.insert(number, request);
            net.land_later(number);
        }
        run_state.meet("one-sided writes", 1);
    }

    /// All requests of a write have ended, or did not in time. A writer that does not know what became of its bytes
    /// closes its connection.
    pub(crate) fn on_landed(
        &mut self,
        (fiber, peer): (usize, Site),
        batch: u64,
        around: &mut EventContext<'_>,
    ) {
        let batch = around.net.requests.batches.remove(&batch);
        let is_good = batch.is_some_and(|batch| batch.left == 0 && !batch.has_failed);
        let conn = self.fibers[fiber].lanes.get(&peer).copied();
        let Some((transfer, index)) = self.lane(fiber, peer) else { return };
        match conn.filter(|_| is_good) {
            Some(conn) => {
                transfer.moves[index].state = TransferState::Asked;
                around.net.send(conn, Side::Client, Message::Complete(Ok(())));
                self.go_on_after(fiber, peer, PATIENCE_US, around);
            }
            None => self.break_off(fiber, peer, around),
        }
    }
}

/// Whether this run reads and writes a range of another host one-sided this time.
pub(crate) fn is_taken(is_near: bool, run_state: &mut RunState) -> bool {
    !is_near && run_state.has_fabric && run_state.chance.below(4) > 0
}
