//! The node's server: the state machine of one connection.

use std::collections::VecDeque;

use mooncake_node::Admission;
use mooncake_types::{Epoch, ErrorCode, RangeRead, RangeWrite, Version};

use crate::extents::Piece;
use crate::host::Host;
use crate::ids::{ConnId, Side};
use crate::message::Message;
use crate::net::{Conn, Event, Net};
use crate::node::{Writer, WriterTicket};
use crate::one_sided::Door;
use crate::run_state::RunState;

/// How long a writer waits at most for an older one to stop.
const PATIENCE_US: u64 = 300_000;

/// How often a waiting writer is tried again.
const LOOK_US: u64 = 2_000;

/// One connection at the node's server.
#[derive(Default)]
pub(crate) struct Service {
    inbox: VecDeque<Message>,
    state: ServiceState,
    /// The endpoint for the peer's one-sided writes, between two of them.
    endpoint: Option<u64>,
}

#[derive(Default)]
enum ServiceState {
    #[default]
    Idle,
    /// The write has begun, and an older writer may still be at work in its range.
    Waiting { ticket: WriterTicket, range: RangeWrite<'static>, kind: WriteKind },
    /// The parts of a large write arrive.
    Receiving { ticket: WriterTicket, range: RangeWrite<'static>, done: u64 },
    /// A small write begins once its only part has arrived.
    Gathering { epoch: Epoch, range: RangeWrite<'static> },
    /// The parts of a refused write are discarded.
    Skipping { left: u64, code: ErrorCode },
    /// The peer writes into the shared memory itself.
    InPlace { ticket: WriterTicket },
    /// The peer writes one-sided, through this door.
    OneSided { ticket: WriterTicket, door: Door },
    /// The bytes of a read are copied out.
    Sending { range: RangeRead, grant: Version, pieces: Vec<Piece>, done: u64 },
}

enum WriteKind {
    Large,
    /// With its bytes, which have arrived.
    Small(Vec<Piece>),
    InPlace,
}

/// Whether the server goes on with the connection.
enum Next {
    /// The next step may run at once.
    GoOn,
    /// The next step waits for a message or for time.
    Pause,
    /// The connection ends.
    End,
}

/// A connection at a node, with the rest of the world as one event sees it.
struct Site<'w> {
    conn: ConnId,
    host: &'w mut Host,
    net: &'w mut Net,
    run_state: &'w mut RunState,
}

/// Handles a message that arrived at a node.
pub(crate) fn on_message(
    conn: ConnId,
    message: Message,
    host: &mut Host,
    net: &mut Net,
    run_state: &mut RunState,
) {
    host.services.entry(conn).or_default().inbox.push_back(message);
    serve(conn, host, net, run_state);
}

/// Takes steps of a connection until one has to wait.
pub(crate) fn serve(conn: ConnId, host: &mut Host, net: &mut Net, run_state: &mut RunState) {
    let Some(mut service) = host.services.remove(&conn) else { return };
    let mut site = Site { conn, host, net, run_state };
    loop {
        match service.step(&mut site) {
            Next::GoOn => {}
            Next::Pause => break,
            Next::End => {
                service.give_up(&mut site);
                site.net.close(conn, Side::Server);
                return;
            }
        }
    }
    host.services.insert(conn, service);
}

impl Site<'_> {
    fn answer(&mut self, message: Message) {
        self.net.send(self.conn, Side::Server, message);
    }

    fn is_local(&self) -> bool {
        self.net.conn(self.conn).is_some_and(Conn::is_local)
    }

    /// Completes or abandons a write that the peer made itself, and answers.
    fn finish(&mut self, ticket: WriterTicket, done: Result<(), ErrorCode>) -> Next {
        let node = self.host.node_of(ticket);
        let done = match done {
            Ok(()) => node.complete(ticket.id, self.run_state),
            Err(code) => {
                node.abandon(ticket.id);
                Err(code)
            }
        };
        self.answer(Message::Done(done));
        Next::GoOn
    }

    fn again_after(&mut self, delay_us: u64) {
        let event = Event::Serve { process: self.host.process, conn: self.conn };
        self.net.after(delay_us, event);
    }

    fn begin(
        &mut self,
        epoch: Epoch,
        range: &RangeWrite<'static>,
    ) -> Result<WriterTicket, ErrorCode> {
        let writer = (Writer::Peer(self.conn), PATIENCE_US);
        self.host.begin_write((epoch, range), writer, self.net, self.run_state)
    }
}

impl Service {
    fn step(&mut self, site: &mut Site<'_>) -> Next {
        if matches!(self.inbox.front(), Some(Message::Close | Message::Deserted)) {
            return Next::End;
        }
        match std::mem::take(&mut self.state) {
            ServiceState::Idle => self.accept(site),
            ServiceState::Waiting { ticket, range, kind } => self.wait(ticket, range, kind, site),
            ServiceState::Receiving { ticket, range, done } => {
                self.take_part(ticket, range, done, site)
            }
            ServiceState::Gathering { epoch, range } => match self.inbox.pop_front() {
                Some(Message::Part(pieces)) => {
                    self.begin(epoch, range, WriteKind::Small(pieces), site)
                }
                Some(_) => Next::End,
                None => self.stay(ServiceState::Gathering { epoch, range }),
            },
            ServiceState::Skipping { left, code } => self.skip(left, code, site),
            ServiceState::InPlace { ticket } => self.finish_in_place(ticket, site),
            ServiceState::OneSided { ticket, door } => self.finish_one_sided(ticket, door, site),
            ServiceState::Sending { range, grant, pieces, done } => {
                self.send_part(range, grant, (pieces, done), site)
            }
        }
    }

    /// Whether the peer may be writing into the shared memory itself.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self.state, ServiceState::InPlace { .. })
    }

    fn stay(&mut self, state: ServiceState) -> Next {
        self.state = state;
        Next::Pause
    }

    fn accept(&mut self, site: &mut Site<'_>) -> Next {
        let Some(message) = self.inbox.pop_front() else { return Next::Pause };
        match message {
            Message::Write { epoch, range, is_small: true } => {
                self.state = ServiceState::Gathering { epoch, range };
                Next::GoOn
            }
            Message::Write { epoch, range, is_small: false } => {
                self.begin(epoch, range, WriteKind::Large, site)
            }
            Message::Begin { epoch, range } => self.begin(epoch, range, WriteKind::InPlace, site),
            Message::Drop(range) => {
                let dropped = site.host.drop_range(&range, site.net);
                site.answer(Message::Done(dropped));
                Next::GoOn
            }
            Message::Promise(range) => {
                let promised = site.host.promise(&range, site.net);
                site.answer(Message::Promised(promised));
                Next::GoOn
            }
            Message::Read(range) => {
                let found = site.host.find(&range);
                match found {
                    Ok(grant) => {
                        self.state =
                            ServiceState::Sending { range, grant, pieces: Vec::new(), done: 0 };
                    }
                    Err(code) => site.answer(Message::Found(Err(code))),
                }
                Next::GoOn
            }
            _ => Next::End,
        }
    }

    fn begin(
        &mut self,
        epoch: Epoch,
        range: RangeWrite<'static>,
        kind: WriteKind,
        site: &mut Site<'_>,
    ) -> Next {
        match (site.begin(epoch, &range), kind) {
            (Ok(ticket), kind) => self.state = ServiceState::Waiting { ticket, range, kind },
            (Err(code), WriteKind::Large) => {
                self.state = ServiceState::Skipping { left: range.len, code };
            }
            (Err(code), WriteKind::Small(_)) => site.answer(Message::Done(Err(code))),
            (Err(code), WriteKind::InPlace) => site.answer(Message::Begun(Err(code))),
        }
        Next::GoOn
    }

    fn wait(
        &mut self,
        ticket: WriterTicket,
        range: RangeWrite<'static>,
        kind: WriteKind,
        site: &mut Site<'_>,
    ) -> Next {
        let code = match site.host.admit(ticket, site.net) {
            Admission::Granted => match kind {
                WriteKind::Large => {
                    self.state = ServiceState::Receiving { ticket, range, done: 0 };
                    return Next::GoOn;
                }
                WriteKind::Small(pieces) => {
                    let node = site.host.node_of(ticket);
                    node.change_bytes(ticket.id, 0, &pieces, site.run_state);
                    let done = node.complete(ticket.id, site.run_state);
                    site.answer(Message::Done(done));
                    return Next::GoOn;
                }
                WriteKind::InPlace if site.is_local() => {
                    site.answer(Message::Begun(Ok((ticket, None))));
                    self.state = ServiceState::InPlace { ticket };
                    return Next::GoOn;
                }
                WriteKind::InPlace => {
                    let door = site.host.doors.open(self.endpoint.take(), site.net);
                    site.answer(Message::Begun(Ok((ticket, Some(door)))));
                    self.state = ServiceState::OneSided { ticket, door };
                    return Next::GoOn;
                }
            },
            Admission::Wait(_) => {
                site.again_after(LOOK_US);
                return self.stay(ServiceState::Waiting { ticket, range, kind });
            }
            Admission::Refused(code) => code,
        };
        site.run_state.tally.refused_writes += 1;
        if code == ErrorCode::InvalidVersion {
            // A newer writer interrupted this one.
            return Next::End;
        }
        match kind {
            WriteKind::Large => self.state = ServiceState::Skipping { left: range.len, code },
            WriteKind::Small(_) => site.answer(Message::Done(Err(code))),
            WriteKind::InPlace => site.answer(Message::Begun(Err(code))),
        }
        Next::GoOn
    }

    fn take_part(
        &mut self,
        ticket: WriterTicket,
        range: RangeWrite<'static>,
        done: u64,
        site: &mut Site<'_>,
    ) -> Next {
        let node = site.host.node_of(ticket);
        // A part that is already arriving may still be written after the server was told to stop.
        if node.is_interrupted(ticket.id)
            && (self.inbox.is_empty() || site.run_state.chance.below(2) == 0)
        {
            self.state = ServiceState::Receiving { ticket, range, done };
            return Next::End;
        }
        let pieces = match self.inbox.pop_front() {
            Some(Message::Part(pieces)) => pieces,
            Some(_) => {
                self.state = ServiceState::Receiving { ticket, range, done };
                return Next::End;
            }
            None => return self.stay(ServiceState::Receiving { ticket, range, done }),
        };
        node.change_bytes(ticket.id, done, &pieces, site.run_state);
        let done = done + pieces.iter().map(|piece| piece.len).sum::<u64>();
        if done < range.len {
            self.state = ServiceState::Receiving { ticket, range, done };
            return Next::GoOn;
        }
        let completed = node.complete(ticket.id, site.run_state);
        site.answer(Message::Done(completed));
        Next::GoOn
    }

    fn skip(&mut self, left: u64, code: ErrorCode, site: &mut Site<'_>) -> Next {
        let len: u64 = match self.inbox.pop_front() {
            Some(Message::Part(pieces)) => pieces.iter().map(|piece| piece.len).sum(),
            Some(_) => return Next::End,
            None => return self.stay(ServiceState::Skipping { left, code }),
        };
        match left.saturating_sub(len) {
            0 => {
                site.run_state.tally.refused_writes += 1;
                site.answer(Message::Done(Err(code)));
            }
            left => self.state = ServiceState::Skipping { left, code },
        }
        Next::GoOn
    }

    fn finish_in_place(&mut self, ticket: WriterTicket, site: &mut Site<'_>) -> Next {
        match self.inbox.pop_front() {
            Some(Message::Complete(done)) => site.finish(ticket, done),
            None => self.stay(ServiceState::InPlace { ticket }),
            Some(_) => {
                self.state = ServiceState::InPlace { ticket };
                Next::End
            }
        }
    }

    /// Waits for the peer's report. A peer that was told to stop is not waited for: it is shut out.
    fn finish_one_sided(&mut self, ticket: WriterTicket, door: Door, site: &mut Site<'_>) -> Next {
        let is_told_to_stop = site.host.node_of(ticket).is_interrupted(ticket.id);
        let ends =
            is_told_to_stop && (self.inbox.is_empty() || site.run_state.chance.below(2) == 0);
        match self.inbox.pop_front_if(|_| !ends) {
            Some(Message::Complete(done)) => {
                self.endpoint = site.host.doors.close(door, done.is_ok());
                site.finish(ticket, done)
            }
            None if !ends => self.stay(ServiceState::OneSided { ticket, door }),
            _ => {
                self.state = ServiceState::OneSided { ticket, door };
                Next::End
            }
        }
    }

    /// Copies some bytes out. After the last ones, checks that the entry is still there.
    fn send_part(
        &mut self,
        range: RangeRead,
        grant: Version,
        (mut pieces, done): (Vec<Piece>, u64),
        site: &mut Site<'_>,
    ) -> Next {
        let Some(node) = site.host.segment_ever(range.segment) else { return Next::End };
        let len = 1 + site.run_state.chance.below(2 * (range.len - done));
        let len = len.min(range.len - done);
        pieces.extend(node.copy_out(range.offset + range.from + done, len));
        if done + len < range.len {
            let delay_us = site.net.moment_us();
            site.again_after(delay_us);
            return self.stay(ServiceState::Sending { range, grant, pieces, done: done + len });
        }
        let found = match site.host.still_holds(&range, grant) {
            true => Ok(pieces),
            false => Err(ErrorCode::ObjectNotFound),
        };
        site.answer(Message::Found(found));
        Next::GoOn
    }

    /// Abandons the write that was begun and not completed, since the connection ends.
    fn give_up(&mut self, site: &mut Site<'_>) {
        if let Some(endpoint) = self.endpoint.take() {
            site.host.doors.close_endpoint(endpoint);
        }
        if let ServiceState::OneSided { door, .. } = self.state {
            site.host.doors.close(door, false);
        }
        let (ServiceState::Waiting { ticket, .. }
        | ServiceState::Receiving { ticket, .. }
        | ServiceState::InPlace { ticket }
        | ServiceState::OneSided { ticket, .. }) = self.state
        else {
            return;
        };
        site.host.node_of(ticket).abandon(ticket.id);
    }
}
