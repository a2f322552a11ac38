//! The heartbeat thread, which keeps a client a member.

use bytes::Bytes;
use mooncake_client::membership::{Membership, MembershipStep};
use mooncake_node::{ChangedEntries, ListedEntry};
use mooncake_ops::CallError;
use mooncake_types::{ChangesPage, InventoryPage, Reply, Request, SegmentId};

use crate::errand::Change;
use crate::ids::{ConnId, Part, Process, Side, Site};
use crate::member::{CARRIER, EventContext, Member, encode};
use crate::message::Message;
use crate::net::{Event, Net};
use crate::node::Node;
use crate::task::leak;
use crate::verbs::fetch;

/// How long a master may take to answer a ping.
const CALL_US: u64 = 500_000;

/// How long an attempt to connect may take.
const DIAL_US: u64 = 200_000;

/// Most entries in one page of an inventory. Few, so that most inventories have several pages.
const PAGE_ENTRIES: usize = 3;

/// The heartbeat of one process.
pub(crate) struct Beat {
    pub(crate) membership: Membership,
    generation: u64,
    conn: Option<ConnId>,
    state: BeatState,
    unreachable: Vec<SegmentId>,
    /// Changes to lent segments, applied before the next step.
    pub(crate) changes: Vec<Change>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BeatState {
    Idle,
    Connecting,
    Asking(Asked),
}

/// How the heartbeat reads the master's answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Reply,
    /// The answer to a page of an inventory or of changes. Holds the place where the next page begins, if there is
    /// one.
    Report(Option<u64>),
    /// The answer to a report of what a segment lost, before this number.
    Losses(SegmentId, u64),
}

impl Beat {
    pub(crate) fn new(membership: Membership) -> Self {
        let (conn, state, unreachable) = (None, BeatState::Idle, Vec::new());
        Self { membership, generation: 0, conn, state, unreachable, changes: Vec::new() }
    }

    pub(crate) fn report(&mut self, segment: SegmentId) {
        self.unreachable.push(segment);
    }

    /// Runs the heartbeat at once, unless it waits for an answer.
    pub(crate) fn wake(&mut self, process: Process, net: &mut Net) {
        if self.state == BeatState::Idle {
            self.wake_at(process, net.now_us, net);
        }
    }

    fn wake_at(&mut self, process: Process, when_us: u64, net: &mut Net) {
        self.generation += 1;
        let generation = self.generation;
        net.at(when_us, Event::Wake { process, part: Part::Beat, generation });
    }
}

impl Member {
    /// Takes steps until one has to wait.
    fn beat_on(&mut self, around: &mut EventContext<'_>) {
        self.make_changes(around);
        let (now_us, process) = (around.net.now_us, self.process);
        let beat = &mut self.beat;
        beat.membership.see_epoch(around.hosts[self.number].epoch());
        beat.membership.report(std::mem::take(&mut beat.unreachable));
        beat.membership.see_losses(around.hosts[self.number].first_loss().is_some());
        let (body, asked) = match beat.membership.next(self.clock.tick(now_us)) {
            MembershipStep::Wait { until } => {
                beat.state = BeatState::Idle;
                return beat.wake_at(process, self.clock.moment(until), around.net);
            }
            MembershipStep::Connect { address } => return self.connect(address, around),
            MembershipStep::Call(request) => (encode(&request), Asked::Reply),
            MembershipStep::Mount { segment, seen_epoch } => {
                let node = around.hosts[self.number].segment(segment.id);
                let is_empty = node.is_some_and(Node::is_empty);
                (encode(&segment.mount(seen_epoch, is_empty, None)), Asked::Reply)
            }
            MembershipStep::Report { segment, run, page, from } => {
                let node = around.hosts[self.number].segment(segment).expect("it is lent");
                let listed = node.ledger().inventory(from, PAGE_ENTRIES);
                let entries = listed.entries.iter().map(ListedEntry::report).collect();
                let last = listed.next.is_none();
                let page = InventoryPage { segment, run, page, last, entries };
                (encode(&Request::ReportInventory(page)), Asked::Report(listed.next))
            }
            MembershipStep::ReportChanges { segment, page, since } => {
                match report_changes((segment, page, since), self.number, around) {
                    Some(told) => told,
                    None => {
                        beat.membership.on_changes_forgotten();
                        return self.beat_on(around);
                    }
                }
            }
            MembershipStep::StartEmpty { segment } => {
                // No segment ever had this id.
                let id = SegmentId(segment.0 + 1);
                around.hosts[self.number].start_empty(segment, id, around.net);
                self.own = leak(around.hosts[self.number].own());
                around.run_state.fault("started empty");
                beat.membership.on_started_empty(self.clock.tick(now_us), Some(id));
                return self.beat_on(around);
            }
            MembershipStep::ReportLosses => match report_losses(self.number, around) {
                Some(told) => told,
                None => {
                    // The segment was taken back meanwhile.
                    let nothing = Ok(Reply::Done(Ok(())));
                    beat.membership.on_reply(self.clock.tick(now_us), nothing);
                    return self.beat_on(around);
                }
            },
            MembershipStep::Drop(ranges) => {
                let mut dropped = ranges.to_vec();
                let host = &mut around.hosts[self.number];
                dropped.retain(|range| host.drop_range(range, around.net).is_ok());
                beat.membership.on_dropped(dropped);
                return self.beat_on(around);
            }
        };
        beat.state = BeatState::Asking(asked);
        let Some(conn) = beat.conn else {
            let error = CallError::Unreachable { reason: "it has closed".to_owned() };
            return self.end_deed(None, Err(error), around);
        };
        around.net.send(conn, Side::Client, Message::Request(body));
        beat.wake_at(process, now_us + CALL_US, around.net);
    }

    fn connect(&mut self, address: usize, around: &mut EventContext<'_>) {
        let (process, beat) = (self.process, &mut self.beat);
        if let Some(conn) = beat.conn.take() {
            around.net.close(conn, Side::Client);
        }
        let master = around.net.process_at(Site::Master(address));
        let hello = Message::Hello(self.client);
        beat.conn = Some(around.net.open((process, Part::Beat), master, hello));
        beat.state = BeatState::Connecting;
        beat.wake_at(process, around.net.now_us + DIAL_US, around.net);
    }

    pub(crate) fn on_beat_wake(&mut self, generation: u64, around: &mut EventContext<'_>) {
        if self.beat.generation == generation {
            let error = CallError::TimedOut { after_ms: CALL_US / 1_000 };
            self.end_deed(None, Err(error), around);
        }
    }

    /// Ends the step that is under way, if there is one, and goes on.
    fn end_deed(
        &mut self,
        epoch: Option<mooncake_types::Epoch>,
        reply: Result<Reply, CallError>,
        around: &mut EventContext<'_>,
    ) {
        let now = self.clock.tick(around.net.now_us);
        let beat = &mut self.beat;
        match std::mem::replace(&mut beat.state, BeatState::Idle) {
            BeatState::Idle => {}
            BeatState::Connecting => beat.membership.on_connected(now, epoch),
            BeatState::Asking(Asked::Reply) => beat.membership.on_reply(now, reply),
            BeatState::Asking(Asked::Report(next)) => beat.membership.on_reported(now, next, reply),
            BeatState::Asking(Asked::Losses(segment, before)) => {
                if reply == Ok(Reply::Done(Ok(()))) {
                    around.hosts[self.number].forget_losses(segment, before);
                }
                beat.membership.on_reply(now, reply);
            }
        }
        around.hosts[self.number].see_epoch(beat.membership.seen_epoch());
        if let Some(end) = beat.membership.take_routes_end() {
            self.routes.prolong(end);
        }
        if beat.membership.take_has_tasks() && self.fibers[CARRIER].is_idle() {
            let task = fetch(around.run_state);
            self.begin(CARRIER, task, around);
        }
        self.beat_on(around);
    }

    pub(crate) fn on_beat_message(
        &mut self,
        conn: ConnId,
        message: Message,
        around: &mut EventContext<'_>,
    ) {
        if self.beat.conn != Some(conn) {
            return around.net.forget(conn, Side::Client);
        }
        match message {
            Message::Welcome(epoch) if self.beat.state == BeatState::Connecting => {
                let error = CallError::Unreachable { reason: "nothing was asked".to_owned() };
                self.end_deed(Some(epoch), Err(error), around);
            }
            Message::Reply(body) if matches!(self.beat.state, BeatState::Asking(_)) => {
                let reply = mooncake_wire::decode_reply(body).expect("a master's reply is sound");
                self.end_deed(None, Ok(reply), around);
            }
            // The next ping finds out that an idle connection broke.
            _ if self.beat.state == BeatState::Idle => {
                around.net.forget(conn, Side::Client);
                self.beat.conn = None;
            }
            _ => {
                let error = CallError::Unreachable { reason: "it broke".to_owned() };
                self.end_deed(None, Err(error), around);
            }
        }
    }
}

/// A report of some entries whose bytes one of the segments lost.
fn report_losses(number: usize, around: &mut EventContext<'_>) -> Option<(Bytes, Asked)> {
    let node = around.hosts[number].first_loss()?;
    let (segment, (lost, next)) = (node.segment(), node.losses().oldest(PAGE_ENTRIES));
    let keys = lost.iter().map(|(key, _)| &**key).collect();
    let ranges = lost.iter().map(|(_, range)| *range).collect();
    around.run_state.fault("told of lost bytes");
    Some((encode(&Request::ReportLosses { keys, ranges }), Asked::Losses(segment, next)))
}

/// A page of the changes in a segment since a number, and where the next page begins. `None` if the ledger has
/// forgotten some.
fn report_changes(
    (segment, page, since): (SegmentId, u32, u64),
    number: usize,
    around: &mut EventContext<'_>,
) -> Option<(Bytes, Asked)> {
    let node = around.hosts[number].segment(segment).expect("it is lent");
    let changed = node.ledger().changed(since, PAGE_ENTRIES);
    let Some(ChangedEntries { entries, gone, cursor, more }) = changed else {
        around.run_state.fault("changes were forgotten");
        return None;
    };
    around.run_state.fault("told what changed");
    let entries = entries.iter().map(ListedEntry::report).collect();
    let page = ChangesPage { segment, page, last: !more, entries, gone };
    Some((encode(&Request::ReportChanges(page)), Asked::Report(more.then_some(cursor))))
}
