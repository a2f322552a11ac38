mod bond;
mod log;

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_connection::Connection;
use mooncake_memory::{Private, spawn_unpinned};
use mooncake_types::{SegmentId, Tick};

pub(crate) use bond::{Bond, Turn};

use crate::membership::Lent;
use crate::reports::Reports;
use crate::store_condition::StoreCondition;

/// Longest wait for a turn to end: it makes one attempt to connect or one call.
const CHANGE_PATIENCE: Duration = Duration::from_secs(30);

/// Longest wait for the reply to a call that is under way when the heartbeat stops.
const LAST_REPLY_PATIENCE: Duration = Duration::from_millis(200);

/// The thread that keeps this client a member: a connection of its own, and nothing else to do.
pub(crate) struct Heartbeat {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<Option<Connection>>>>,
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

struct Shared {
    state: Mutex<HeartbeatState>,
    wake: Condvar,
    /// Told when changes have been made, and when there will be no more.
    changed: Condvar,
    condition: Arc<StoreCondition>,
}

#[derive(Default)]
struct HeartbeatState {
    stopping: bool,
    /// The thread does nothing any more.
    has_ended: bool,
    changes: Vec<Change>,
    reports: Reports,
    /// The connection in use, so that stopping need not wait for a reply.
    in_use: Option<Arc<Private<TcpStream>>>,
}

impl Heartbeat {
    /// Goes on with a bond on a thread of its own, which calls `on_tasks` when tasks wait at the master.
    pub(crate) fn start(
        bond: Bond,
        condition: Arc<StoreCondition>,
        on_tasks: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        condition.set_well(bond.membership.is_well());
        let shared = Arc::new(Shared {
            state: Mutex::new(HeartbeatState::default()),
            wake: Condvar::new(),
            changed: Condvar::new(),
            condition,
        });
        let of_thread = Arc::clone(&shared);
        let thread = Builder::new().name("mooncake-heartbeat".to_owned());
        let thread = spawn_unpinned(thread, move || {
            let _notice = EndNotice(&of_thread);
            of_thread.run(bond, on_tasks)
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Whether the master answered the last ping.
    pub(crate) fn is_well(&self) -> bool {
        self.shared.condition.is_well()
    }

    /// Hands these changes to the heartbeat thread and waits until it has made them, in their order. No earlier mount is under
    /// way then. A thread that has stopped, or is stuck, makes none.
    pub(crate) fn change(&self, changes: Vec<Change>) {
        let mut state = self.shared.lock();
        state.changes.extend(changes);
        self.shared.wake.notify_all();
        let waiting = |state: &mut HeartbeatState| !state.stopping && !state.changes.is_empty();
        drop(self.shared.changed.wait_timeout_while(state, CHANGE_PATIENCE, waiting));
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

    /// Stops pinging; returns when the thread is gone. Gives the connection over which it pinged, if it still stands: the master
    /// has this client in sight until that is dropped.
    pub(crate) fn stop(&self) -> Option<Connection> {
        let mut state = self.shared.lock();
        state.stopping = true;
        self.shared.wake.notify_all();
        self.shared.changed.notify_all();
        let patience = if self.is_well() { LAST_REPLY_PATIENCE } else { Duration::ZERO };
        let is_at_work = |state: &mut HeartbeatState| !state.has_ended;
        let waited = self.shared.changed.wait_timeout_while(state, patience, is_at_work);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out()
            && let Some(stream) = state.in_use.take()
        {
            // It may be closed already; then there is nothing to wait for either.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        let thread = self.thread.lock().expect("no holder of the thread panicked").take();
        let ended = thread.map(JoinHandle::join)?;
        ended.unwrap_or_else(|_| {
            tracing::error!("the heartbeat thread panicked");
            None
        })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Keeps the bond until it is time to stop. Gives the connection that it ran over last.
    fn run(&self, mut bond: Bond, on_tasks: impl Fn()) -> Option<Connection> {
        let mut was_well = bond.membership.is_well();
        let mut retiring = Vec::new();
        loop {
            self.make_changes(&mut bond, &mut retiring);
            retire(&bond, &mut retiring);
            take_back_broken(&mut bond);
            if !self.offer_handle(bond.connection.as_ref()) {
                return bond.connection;
            }
            let turn = bond.turn();
            if bond.membership.take_has_tasks() {
                on_tasks();
            }
            let well = bond.membership.is_well();
            self.condition.set_well(well);
            log::change(&turn, was_well, well);
            let unreached = bond.membership.is_unreached();
            if self.condition.set_unreached(unreached) {
                log::reach(&bond.membership, unreached);
            }
            if !was_well && well {
                log::mount_refusal(&bond.membership);
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
        let mut state = self.0.lock();
        (state.stopping, state.has_ended) = (true, true);
        drop(state);
        self.0.condition.set_well(false);
        self.0.changed.notify_all();
    }
}

/// Stops serving segments whose time is over.
fn retire(bond: &Bond, retiring: &mut Vec<(SegmentId, Tick)>) {
    let now = bond.clock.now();
    for (id, _) in retiring.extract_if(.., |&mut (_, due)| due <= now) {
        bond.host.take_back(id);
    }
}

/// Takes disks back that have failed: nothing can be dropped there any more.
fn take_back_broken(bond: &mut Bond) {
    for id in bond.host.take_back_broken() {
        tracing::error!(segment = %id, "the disk has failed and is lent no longer");
        bond.membership.take_back(id);
        bond.membership.disown(id);
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
            condition: Arc::default(),
        });
        shared.condition.set_well(true);
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
        heartbeat.change(vec![Change::TakeBack(SegmentId(1))]);
        assert!(started.elapsed() < CHANGE_PATIENCE / 2, "{:?}", started.elapsed());
        assert!(!heartbeat.is_well());
        heartbeat.report(&[SegmentId(1)]);
        heartbeat.stop();
    }
}
