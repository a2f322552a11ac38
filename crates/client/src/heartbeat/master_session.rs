use std::sync::Arc;
use std::time::Duration;

use mooncake_connection::Connection;
use mooncake_node::{ChangedEntries, Host, Inventory, ListedEntry};
use mooncake_ops::{CallError, RouteCache};
use mooncake_transfer::{SealKeys, SegmentHost};
use mooncake_types::{
    ChangesPage, Epoch, ErrorCode, InventoryPage, Reply, Request, SegmentId, Tick, limits,
};

use crate::clock::Clock;
use crate::membership::{Membership, MembershipStep, RoutesEnd};
use crate::metrics::Metrics;
use crate::random::random;
use crate::rpc::{self, DialError, Dialer, Masters};

/// If a ping is not answered within this time, the client looks for another leader, repeatedly.
const LATE: Duration = Duration::from_millis(400);

/// The membership machine, and the connection that it uses.
pub(crate) struct MasterSession {
    pub(crate) membership: Membership,
    pub(crate) dialer: Dialer,
    pub(crate) host: Arc<Host>,
    /// The keys of the seals that this node checks, if it checks any.
    pub(crate) seals: Option<Arc<SealKeys>>,
    pub(crate) routes: Arc<RouteCache>,
    pub(crate) clock: Clock,
    /// The counts that pings report.
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) connection: Option<Connection>,
    /// The page of an inventory after the page that was sent last.
    pub(crate) next_page: Option<NextPage>,
    /// Whether a ping that is not answered in time also ends the calls that wait for the same master. Calls may wait
    /// for longer than a ping.
    pub(crate) aborts_calls: bool,
}

/// A page of a segment's inventory, made before it is needed.
pub(crate) struct NextPage {
    segment: SegmentId,
    from: u64,
    listed: Result<Inventory, ErrorCode>,
}

/// The outcome of one turn of a [`MasterSession`].
pub(crate) enum TurnOutcome {
    /// A step was taken.
    Done,
    /// An attempt to connect failed.
    NotConnected(DialError),
    /// A call failed.
    NotAnswered(CallError),
    /// Nothing is due before this moment.
    Idle(Tick),
}

impl MasterSession {
    /// Takes the step that is due.
    pub(crate) fn turn(&mut self) -> TurnOutcome {
        self.membership.see_epoch(self.host.epoch());
        self.membership.see_losses(self.host.has_losses());
        let turn = match self.membership.next(self.clock.now()) {
            MembershipStep::Wait { until } => return TurnOutcome::Idle(until),
            MembershipStep::Connect { address } => {
                // The last connection ended, or there was none: another master may lead by now.
                self.dialer.masters.doubt();
                let dialed = self.dialer.dial(address, Duration::MAX);
                self.connected(dialed)
            }
            MembershipStep::Call(mut request) => {
                if let Request::Ping { reads, .. } = &mut request {
                    *reads = self.metrics.reads.report().map(Box::new);
                }
                let reply = ask(&mut self.connection, &request);
                let reply = believed(reply, &self.dialer.masters);
                if let Request::Ping { reads: Some(told), .. } = &request
                    && matches!(reply, Ok(Reply::Pong(_)))
                {
                    self.metrics.reads.on_confirmed(told);
                }
                let is_ping = matches!(request, Request::Ping { .. });
                if self.aborts_calls && is_ping && matches!(reply, Err(CallError::TimedOut { .. }))
                {
                    self.dialer.masters.abort_calls();
                }
                self.replied(reply)
            }
            MembershipStep::Mount { segment, seen_epoch } => {
                let key = self.seals.as_ref().map(|seals| seals.key_for(seen_epoch)).transpose();
                let reply = key.map_err(no_key).and_then(|key| {
                    let request = segment.mount(seen_epoch, self.host.is_empty(segment.id), key);
                    ask(&mut self.connection, &request)
                });
                self.replied(reply)
            }
            MembershipStep::Report { segment, run, page, from } => {
                self.report((segment, run), page, from)
            }
            MembershipStep::ReportChanges { segment, page, since } => {
                self.report_changes(segment, page, since)
            }
            MembershipStep::StartEmpty { segment } => self.start_empty(segment),
            MembershipStep::ReportLosses => self.report_losses(),
            MembershipStep::Drop(ranges) => {
                let results = self.host.drop_ranges(ranges);
                let dropped = ranges.iter().zip(results).filter(|(_, result)| result.is_ok());
                let dropped = dropped.map(|(range, _)| *range).collect();
                self.membership.on_dropped(dropped);
                TurnOutcome::Done
            }
        };
        self.host.see_epoch(self.membership.seen_epoch());
        if let Some(RoutesEnd { epoch, at }) = self.membership.take_routes_end() {
            self.routes.prolong(epoch, at);
        }
        turn
    }

    fn replied(&mut self, reply: Result<Reply, CallError>) -> TurnOutcome {
        let turn = turn_of(&reply);
        self.membership.on_reply(self.clock.now(), reply);
        turn
    }

    /// Handles the reply to a page. `next` is where the next page begins.
    fn reported(&mut self, next: Option<u64>, reply: Result<Reply, CallError>) -> TurnOutcome {
        let turn = turn_of(&reply);
        self.membership.on_reported(self.clock.now(), next, reply);
        turn
    }

    /// Sends one page of a segment's inventory to the master, and makes the next page while the master takes this
    /// one.
    fn report(&mut self, (segment, run): (SegmentId, u64), page: u32, from: u64) -> TurnOutcome {
        let made = self.next_page.take().filter(|it| (it.segment, it.from) == (segment, from));
        let listed = made.map_or_else(|| list(&self.host, segment, from), |made| made.listed);
        let (reply, next) = match &listed {
            Ok(Inventory { entries, next }) => {
                let entries = entries.iter().map(ListedEntry::report).collect();
                let last = next.is_none();
                let page = InventoryPage { segment, run, page, last, entries };
                let connection = self.connection.as_mut().expect("a joined client is connected");
                let report = Request::ReportInventory(page);
                let reply = rpc::call_meanwhile(connection, &report, || {
                    self.next_page = next.map(|from| {
                        let listed = list(&self.host, segment, from);
                        NextPage { segment, from, listed }
                    });
                });
                (reply.map_err(|failure| failure.error), *next)
            }
            Err(code) => (Ok(Reply::Done(Err(*code))), None),
        };
        self.reported(next, reply)
    }

    /// Sends one page of a segment's changes to the master; usually it is the only one.
    fn report_changes(&mut self, segment: SegmentId, page: u32, since: u64) -> TurnOutcome {
        let changed = self.host.changed(segment, since, limits::MAX_INVENTORY_PAGE_ENTRIES);
        let (reply, next) = match changed {
            Ok(Some(ChangedEntries { entries, gone, cursor, more })) => {
                let entries = entries.iter().map(ListedEntry::report).collect();
                let page = ChangesPage { segment, page, last: !more, entries, gone };
                let reply = ask(&mut self.connection, &Request::ReportChanges(page));
                (reply, more.then_some(cursor))
            }
            Ok(None) => {
                self.membership.on_changes_forgotten();
                return TurnOutcome::Done;
            }
            Err(code) => (Ok(Reply::Done(Err(code))), None),
        };
        self.reported(next, reply)
    }

    /// Tells the master of some entries that are lost.
    fn report_losses(&mut self) -> TurnOutcome {
        let Some(losses) = self.host.unreported_losses(limits::MAX_BATCH_KEYS) else {
            // The segment was taken back meanwhile.
            self.membership.on_reply(self.clock.now(), Ok(Reply::Done(Ok(()))));
            return TurnOutcome::Done;
        };
        let keys = losses.keys.iter().map(|key| &**key).collect();
        let request = Request::ReportLosses { keys, ranges: losses.ranges.clone() };
        let reply = ask(&mut self.connection, &request);
        if reply == Ok(Reply::Done(Ok(()))) {
            self.host.on_losses_reported(&losses);
        }
        self.replied(reply)
    }

    fn start_empty(&mut self, segment: SegmentId) -> TurnOutcome {
        let id = random().ok().map(SegmentId);
        if let Some(id) = id {
            tracing::warn!(%segment, new = %id, "the master gave this segment up: it starts empty");
            self.host.start_empty(segment, id);
        }
        self.membership.on_started_empty(self.clock.now(), id);
        TurnOutcome::Done
    }

    fn connected(&mut self, dialed: Result<(Connection, Epoch), DialError>) -> TurnOutcome {
        let now = self.clock.now();
        match dialed {
            Ok((mut connection, epoch)) => {
                if self.dialer.masters.are_several() {
                    let dialer = self.dialer.clone();
                    // If the socket does not work, the first ping fails.
                    let _ = connection.set_wait_check(LATE, move || !dialer.finds_another(epoch));
                }
                self.connection = Some(connection);
                self.membership.on_connected(now, Some(epoch));
                TurnOutcome::Done
            }
            Err(error) => {
                self.connection = None;
                self.membership.on_connected(now, None);
                TurnOutcome::NotConnected(error)
            }
        }
    }
}

/// A mount that was not sent. It is tried again.
fn no_key(error: std::io::Error) -> CallError {
    CallError::Unreachable { reason: format!("no key for the segment can be drawn: {error}") }
}

fn turn_of(reply: &Result<Reply, CallError>) -> TurnOutcome {
    reply.as_ref().err().cloned().map_or(TurnOutcome::Done, TurnOutcome::NotAnswered)
}

fn list(host: &Host, segment: SegmentId, from: u64) -> Result<Inventory, ErrorCode> {
    host.inventory(segment, from, limits::MAX_INVENTORY_PAGE_ENTRIES)
}

fn ask(connection: &mut Option<Connection>, request: &Request<'_>) -> Result<Reply, CallError> {
    let connection = connection.as_mut().expect("a joined client is connected");
    rpc::call(connection, request).map_err(|failure| failure.error)
}

/// Turns a pong with an epoch that is not believed into an error.
fn believed(reply: Result<Reply, CallError>, masters: &Masters) -> Result<Reply, CallError> {
    if let Ok(Reply::Pong(pong)) = &reply {
        let believed = masters.believe(pong.epoch);
        believed.map_err(|why| CallError::Protocol { reason: why.to_string() })?;
    }
    reply
}
