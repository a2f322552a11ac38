use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_connection::Connection;
use mooncake_memory::{Private, spawn_unpinned};
use mooncake_node::{ChangedEntries, Host, Inventory, ListedEntry};
use mooncake_transfer::SegmentHost;
use mooncake_types::{
    ChangesPage, Epoch, ErrorCode, InventoryPage, Reply, Request, SegmentId, Tick, limits,
};

use crate::clock::Clock;
use crate::membership::{Deed, Lent, Membership, RoutesEnd};
use crate::metrics::Metrics;
use crate::ops::{CallError, RouteCache};
use crate::reports::Reports;
use crate::rpc::{self, DialError, Dialer, Masters};
use crate::store::random;
use crate::tasks::Tasks;

/// Longest wait for a turn to end: it makes one attempt to connect or one call.
const CHANGE_PATIENCE: Duration = Duration::from_secs(30);

/// A ping that is not answered within this time makes the client look for another leader, again and again.
const LATE: Duration = Duration::from_millis(400);

/// The thread that keeps this client a member: a connection of its own, and nothing else to do.
pub(crate) struct Heartbeat {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The machine of membership, and the connection that it runs over.
pub(crate) struct Bond {
    pub(crate) membership: Membership,
    pub(crate) dialer: Dialer,
    pub(crate) host: Arc<Host>,
    pub(crate) routes: Arc<RouteCache>,
    pub(crate) clock: Clock,
    /// What is told with the pings.
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) connection: Option<Connection>,
    /// The page of an inventory that comes after the one that was told last.
    pub(crate) ahead: Option<Ahead>,
    /// Calls may wait for longer than a ping does. When a ping was not answered, they are let go.
    pub(crate) lets_go: bool,
}

/// A page of a segment's inventory that was made before it is asked for.
pub(crate) struct Ahead {
    segment: SegmentId,
    from: u64,
    listed: Result<Inventory, ErrorCode>,
}

/// A change of what is lent, made between two turns.
pub(crate) enum Change {
    /// The master has this segment; it is to keep it.
    Lend(Lent),
    /// The master is not to have this segment any more.
    TakeBack(SegmentId),
    /// Whether the master has this segment is unknown; it is not to have it.
    Disown(SegmentId),
    /// The segment is served until this moment.
    Retire(SegmentId, Tick),
}

/// What one turn of a [`Bond`] came to.
pub(crate) enum Turn {
    /// Something was done.
    Done,
    /// An attempt to connect failed.
    NotConnected(DialError),
    /// A call failed.
    NotAnswered(CallError),
    /// Nothing is due before this moment.
    Idle(Tick),
}

impl Bond {
    /// Does the one thing that is due.
    pub(crate) fn turn(&mut self) -> Turn {
        self.membership.see_epoch(self.host.epoch());
        let turn = match self.membership.next(self.clock.now()) {
            Deed::Wait { until } => return Turn::Idle(until),
            Deed::Connect { address } => {
                // Whatever ended the connection of before: another may lead by now.
                self.dialer.masters.doubt();
                let dialed = self.dialer.dial(address, Duration::MAX);
                self.connected(dialed)
            }
            Deed::Call(mut request) => {
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
                if self.lets_go && is_ping && matches!(reply, Err(CallError::TimedOut { .. })) {
                    self.dialer.masters.let_go();
                }
                self.replied(reply)
            }
            Deed::Mount { segment, seen_epoch } => {
                let request = segment.mount(seen_epoch, self.host.is_empty(segment.id));
                let reply = ask(&mut self.connection, &request);
                self.replied(reply)
            }
            Deed::Report { segment, run, page, from } => self.report((segment, run), page, from),
            Deed::ReportChanges { segment, page, since } => {
                self.report_changes(segment, page, since)
            }
            Deed::StartEmpty { segment } => self.start_empty(segment),
            Deed::Drop(ranges) => {
                let mut dropped = ranges.to_vec();
                dropped.retain(|range| self.host.drop_range(range).is_ok());
                self.membership.on_dropped(dropped);
                Turn::Done
            }
        };
        self.host.see_epoch(self.membership.seen_epoch());
        if let Some(RoutesEnd { epoch, at }) = self.membership.take_routes_end() {
            self.routes.prolong(epoch, at);
        }
        turn
    }

    fn replied(&mut self, reply: Result<Reply, CallError>) -> Turn {
        let error = reply.as_ref().err().cloned();
        self.membership.on_reply(self.clock.now(), reply);
        error.map_or(Turn::Done, Turn::NotAnswered)
    }

    /// Tells the master what lies in a segment, one page. The next is made while the master takes this one.
    fn report(&mut self, (segment, run): (SegmentId, u64), page: u32, from: u64) -> Turn {
        let made = self.ahead.take().filter(|it| (it.segment, it.from) == (segment, from));
        let listed = made.map_or_else(|| list(&self.host, segment, from), |made| made.listed);
        let (reply, next) = match &listed {
            Ok(Inventory { entries, next }) => {
                let entries = entries.iter().map(ListedEntry::report).collect();
                let last = next.is_none();
                let page = InventoryPage { segment, run, page, last, entries };
                let connection = self.connection.as_mut().expect("a joined client is connected");
                let report = Request::ReportInventory(page);
                let reply = rpc::call_meanwhile(connection, &report, || {
                    self.ahead = next.map(|from| {
                        let listed = list(&self.host, segment, from);
                        Ahead { segment, from, listed }
                    });
                });
                (reply.map_err(|failure| failure.error), *next)
            }
            Err(code) => (Ok(Reply::Done(Err(*code))), None),
        };
        let error = reply.as_ref().err().cloned();
        self.membership.on_reported(self.clock.now(), next, reply);
        error.map_or(Turn::Done, Turn::NotAnswered)
    }

    /// Tells the master what changed in a segment, one page; as a rule there is no other.
    fn report_changes(&mut self, segment: SegmentId, page: u32, since: u64) -> Turn {
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
                return Turn::Done;
            }
            Err(code) => (Ok(Reply::Done(Err(code))), None),
        };
        let error = reply.as_ref().err().cloned();
        self.membership.on_reported(self.clock.now(), next, reply);
        error.map_or(Turn::Done, Turn::NotAnswered)
    }

    fn start_empty(&mut self, segment: SegmentId) -> Turn {
        let id = random().ok().map(SegmentId);
        if let Some(id) = id {
            tracing::warn!(%segment, new = %id, "the master has what lies in the segment dropped");
            self.host.start_empty(segment, id);
        }
        self.membership.on_started_empty(self.clock.now(), id);
        Turn::Done
    }

    fn connected(&mut self, dialed: Result<(Connection, Epoch), DialError>) -> Turn {
        let now = self.clock.now();
        match dialed {
            Ok((mut connection, epoch)) => {
                if self.dialer.masters.are_several() {
                    let dialer = self.dialer.clone();
                    // If the socket is of no use the first ping says so.
                    let _ = connection.look_around(LATE, move || !dialer.finds_another(epoch));
                }
                self.connection = Some(connection);
                self.membership.on_connected(now, Some(epoch));
                Turn::Done
            }
            Err(error) => {
                self.connection = None;
                self.membership.on_connected(now, None);
                Turn::NotConnected(error)
            }
        }
    }
}

fn list(host: &Host, segment: SegmentId, from: u64) -> Result<Inventory, ErrorCode> {
    host.inventory(segment, from, limits::MAX_INVENTORY_PAGE_ENTRIES)
}

fn ask(connection: &mut Option<Connection>, request: &Request<'_>) -> Result<Reply, CallError> {
    let connection = connection.as_mut().expect("a joined client is connected");
    rpc::call(connection, request).map_err(|failure| failure.error)
}

/// A pong whose epoch is not believed says nothing.
fn believed(reply: Result<Reply, CallError>, masters: &Masters) -> Result<Reply, CallError> {
    if let Ok(Reply::Pong(pong)) = &reply {
        let believed = masters.believe(pong.epoch);
        believed.map_err(|why| CallError::Protocol { reason: why.to_string() })?;
    }
    reply
}

struct Shared {
    state: Mutex<HeartbeatState>,
    wake: Condvar,
    /// Told when changes have been made, and when there will be no more.
    changed: Condvar,
    well: Arc<AtomicBool>,
    unreached: Arc<AtomicBool>,
}

#[derive(Default)]
struct HeartbeatState {
    stopping: bool,
    changes: Vec<Change>,
    reports: Reports,
    /// The connection in use, so that stopping need not wait for a reply.
    in_use: Option<Arc<Private<TcpStream>>>,
}

impl Heartbeat {
    /// Goes on with a bond on a thread of its own.
    pub(crate) fn start(bond: Bond, tasks: Arc<Tasks>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(HeartbeatState::default()),
            wake: Condvar::new(),
            changed: Condvar::new(),
            well: Arc::new(AtomicBool::new(bond.membership.is_well())),
            unreached: Arc::default(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = Builder::new().name("mooncake-heartbeat".to_owned());
        let thread = spawn_unpinned(thread, move || {
            let _notice = EndNotice(&of_thread);
            of_thread.run(bond, &tasks);
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// What [`Heartbeat::is_well`] says, for whoever goes on looking.
    pub(crate) fn well(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.well)
    }

    /// Whether others cannot reach this client; a caller may keep this and read it again.
    pub(crate) fn unreached(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.unreached)
    }

    /// Whether the master answered the last ping.
    pub(crate) fn is_well(&self) -> bool {
        self.shared.well.load(Ordering::Relaxed)
    }

    /// Has these changes made in their order, and waits until they are: no mount of before is under way then. False if
    /// the heartbeat stopped first, or was stuck.
    pub(crate) fn change(&self, changes: Vec<Change>) -> bool {
        let mut state = self.shared.lock();
        state.changes.extend(changes);
        self.shared.wake.notify_all();
        let waiting = |state: &mut HeartbeatState| !state.stopping && !state.changes.is_empty();
        let waited = self.shared.changed.wait_timeout_while(state, CHANGE_PATIENCE, waiting);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.stopping && !waited.timed_out()
    }

    /// Tells the master, with a ping of its own, that the nodes of these segments could not be reached. Waits for nothing.
    pub(crate) fn report(&self, segments: &[SegmentId]) {
        let now = Instant::now();
        let mut state = self.shared.lock();
        let news = segments.iter().filter(|&&segment| state.reports.add(segment, now)).count();
        if news > 0 {
            self.shared.wake.notify_all();
        }
    }

    /// Stops pinging; returns when the thread is gone.
    pub(crate) fn stop(&self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        if let Some(stream) = state.in_use.take() {
            // It may be closed already; then there is nothing to wait for either.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.wake.notify_all();
        self.shared.changed.notify_all();
        let thread = self.thread.lock().expect("no holder of the thread panicked").take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the heartbeat thread panicked");
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, mut bond: Bond, tasks: &Arc<Tasks>) {
        let mut was_well = bond.membership.is_well();
        let mut retiring = Vec::new();
        loop {
            self.make_changes(&mut bond, &mut retiring);
            retire(&bond, &mut retiring);
            if !self.offer_handle(bond.connection.as_ref()) {
                return;
            }
            let turn = bond.turn();
            if bond.membership.take_has_tasks() {
                tasks.wake();
            }
            let well = bond.membership.is_well();
            self.well.store(well, Ordering::Relaxed);
            log_change(&turn, was_well, well);
            let unreached = bond.membership.is_unreached();
            if self.unreached.swap(unreached, Ordering::Relaxed) != unreached {
                log_reach(&bond.membership, unreached);
            }
            if !was_well && well {
                log_mount_refusal(&bond.membership);
            }
            was_well = well;
            if let Turn::Idle(until) = turn {
                let until = retiring.iter().map(|&(_, due)| due).fold(until, Tick::min);
                let wait = Duration::from_millis(until.since_ms(bond.clock.now()));
                self.rest(wait);
            }
        }
    }

    fn make_changes(&self, bond: &mut Bond, retiring: &mut Vec<(SegmentId, Tick)>) {
        let mut state = self.lock();
        bond.membership.report(state.reports.take());
        if state.changes.is_empty() {
            return;
        }
        for change in state.changes.drain(..) {
            match change {
                Change::Lend(lent) => bond.membership.lend_also(lent),
                Change::TakeBack(id) => {
                    bond.membership.take_back(bond.host.current_id(id).unwrap_or(id));
                }
                Change::Disown(id) => bond.membership.disown(id),
                Change::Retire(id, due) => retiring.push((id, due)),
            }
        }
        self.changed.notify_all();
    }

    /// Leaves a handle of the connection for [`Heartbeat::stop`]; false if it is time to stop.
    fn offer_handle(&self, connection: Option<&Connection>) -> bool {
        let mut state = self.lock();
        state.in_use = connection.map(|connection| Arc::clone(connection.stream()));
        !state.stopping
    }

    fn rest(&self, wait: Duration) {
        let state = self.lock();
        let idle = |state: &mut HeartbeatState| {
            !state.stopping && state.changes.is_empty() && state.reports.is_empty()
        };
        drop(self.wake.wait_timeout_while(state, wait, idle));
    }

    fn lock(&self) -> MutexGuard<'_, HeartbeatState> {
        // Only the thread itself may panic with it, and then nothing is done with it any more.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the store as unwell when the heartbeat thread ends, also by a panic, and wakes the threads that wait for it.
struct EndNotice<'s>(&'s Shared);

impl Drop for EndNotice<'_> {
    fn drop(&mut self) {
        self.0.lock().stopping = true;
        self.0.well.store(false, Ordering::Relaxed);
        self.0.changed.notify_all();
    }
}

/// Serves segments no longer whose time is over.
fn retire(bond: &Bond, retiring: &mut Vec<(SegmentId, Tick)>) {
    let now = bond.clock.now();
    for (id, _) in retiring.extract_if(.., |&mut (_, due)| due <= now) {
        bond.host.take_back(id);
    }
}

fn log_change(turn: &Turn, was_well: bool, well: bool) {
    match turn {
        Turn::NotConnected(error) => tracing::debug!(%error, "no connection to the master"),
        Turn::NotAnswered(error) if was_well => tracing::warn!(%error, "the master is lost"),
        _ if well && !was_well => tracing::info!("the master is back"),
        _ => {}
    }
}

fn log_reach(membership: &Membership, is_unreached: bool) {
    let endpoint = membership.endpoint().unwrap_or_default();
    match is_unreached {
        true => tracing::warn!(
            endpoint,
            "this node cannot be reached at the address that it tells others: nothing is put here until it can"
        ),
        false => tracing::info!(endpoint, "this node can be reached now: objects are put here"),
    }
}

fn log_mount_refusal(membership: &Membership) {
    if let Some((segment, code)) = membership.mount_refusal() {
        tracing::warn!(segment = segment.name, %code, "the master refused a segment");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_that_panics_is_not_well_and_nobody_waits_for_it() {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            wake: Condvar::new(),
            changed: Condvar::new(),
            well: Arc::new(AtomicBool::new(true)),
            unreached: Arc::default(),
        });
        let of_thread = Arc::clone(&shared);
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _notice = EndNotice(&of_thread);
            let _state = of_thread.lock();
            let _ = begun.recv();
            panic!("an invariant does not hold");
        });
        let heartbeat = Heartbeat { shared, thread: Mutex::new(Some(thread)) };
        assert!(heartbeat.is_well());
        begin.send(()).expect("it waits");
        let started = Instant::now();
        assert!(!heartbeat.change(vec![Change::TakeBack(SegmentId(1))]), "it was not made");
        assert!(started.elapsed() < CHANGE_PATIENCE / 2, "{:?}", started.elapsed());
        assert!(!heartbeat.is_well());
        heartbeat.report(&[SegmentId(1)]);
        heartbeat.stop();
    }
}
