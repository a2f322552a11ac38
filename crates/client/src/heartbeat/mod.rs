mod log;
mod master_session;

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_connection::Connection;
use mooncake_memory::{Private, spawn_unpinned};
use mooncake_node::FailedDisk;
use mooncake_types::{SegmentId, Tick};

pub(crate) use master_session::{MasterSession, TurnOutcome};

use crate::membership::Lent;
use crate::store_condition::StoreCondition;
use crate::unreachable_segments::UnreachableSegments;

/// Longest wait for a turn to end. A turn makes one attempt to connect, or one call.
const CHANGE_PATIENCE: Duration = Duration::from_secs(30);

/// Longest wait for the reply to a call that is under way when the heartbeat stops.
const LAST_REPLY_PATIENCE: Duration = Duration::from_millis(200);

/// The thread that keeps this client a member, over a connection of its own.
pub(crate) struct Heartbeat {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<Option<Connection>>>>,
}

/// A change of the lent segments, made between two turns.
pub(crate) enum LendingChange {
    /// The master has this segment, and must keep it.
    Lend(Lent),
    /// The master must not have this segment any more.
    TakeBack(SegmentId),
    /// It is unknown whether the master has this segment. It must not have it.
    Unmount(SegmentId),
    /// Serve this segment until this time, and then stop.
    ServeUntil(SegmentId, Tick),
}

struct Shared {
    state: Mutex<HeartbeatState>,
    wake: Condvar,
    /// Signalled when changes were made, and when no more will be made.
    changed: Condvar,
    condition: Arc<StoreCondition>,
}

#[derive(Default)]
struct HeartbeatState {
    stopping: bool,
    /// The thread has ended.
    has_ended: bool,
    changes: Vec<LendingChange>,
    reports: UnreachableSegments,
    /// The connection in use, which [`Heartbeat::stop`] shuts down if a reply is late.
    in_use: Option<Arc<Private<TcpStream>>>,
}

impl Heartbeat {
    /// Runs a master on a thread of its own, which calls `on_tasks` when tasks wait at the master.
    pub(crate) fn start(
        master: MasterSession,
        condition: Arc<StoreCondition>,
        on_tasks: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        condition.set_well(master.membership.is_well());
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
            of_thread.run(master, on_tasks)
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Whether the master answered the last ping.
    pub(crate) fn is_well(&self) -> bool {
        self.shared.condition.is_well()
    }

    /// Hands these changes to the heartbeat thread, and waits until it has made them in order. Then no earlier mount
    /// is under way. A thread that has stopped, or is stuck, makes none.
    pub(crate) fn change(&self, changes: Vec<LendingChange>) {
        let mut state = self.shared.lock();
        state.changes.extend(changes);
        self.shared.wake.notify_all();
        let waiting = |state: &mut HeartbeatState| !state.stopping && !state.changes.is_empty();
        drop(self.shared.changed.wait_timeout_while(state, CHANGE_PATIENCE, waiting));
    }

    /// UnreachableSegments to the master, with a separate ping, that the nodes of these segments could not be reached. Does not
    /// wait.
    pub(crate) fn report(&self, segments: &[SegmentId]) {
        let now = Instant::now();
        let mut state = self.shared.lock();
        let news = segments.iter().filter(|&&segment| state.reports.add(segment, now)).count();
        if news > 0 {
            self.shared.wake.notify_all();
        }
    }

    /// Stops pinging, and returns when the thread has ended. Returns its connection, if that is still open: the
    /// master has this client in sight until the connection is dropped.
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
            // If the stream is closed already, the thread waits for no reply.
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
    /// Runs the master until the heartbeat stops. Returns the connection that it used last.
    fn run(&self, mut master: MasterSession, on_tasks: impl Fn()) -> Option<Connection> {
        let (mut is_silent, mut refusal) = (!master.membership.is_well(), None);
        let mut retiring = Vec::new();
        loop {
            self.make_changes(&mut master, &mut retiring);
            retire(&master, &mut retiring);
            take_back_broken(&mut master);
            if !self.offer_handle(master.connection.as_ref()) {
                return master.connection;
            }
            let turn = master.turn();
            if master.membership.take_has_tasks() {
                on_tasks();
            }
            let well = master.membership.is_well();
            self.condition.set_well(well);
            log::change(&turn, &mut is_silent, well);
            let unreached = master.membership.is_unreached();
            if self.condition.set_unreached(unreached) {
                log::reach(&master.membership, unreached);
            }
            log::mount_refusal(&master.membership, &mut refusal);
            if let TurnOutcome::Idle(until) = turn {
                let until = retiring.iter().map(|&(_, due)| due).fold(until, Tick::min);
                let wait = Duration::from_millis(until.since_ms(master.clock.now()));
                self.rest(wait);
            }
        }
    }

    fn make_changes(&self, master: &mut MasterSession, retiring: &mut Vec<(SegmentId, Tick)>) {
        let mut state = self.lock();
        master.membership.report(state.reports.take());
        if state.changes.is_empty() {
            return;
        }
        for change in state.changes.drain(..) {
            match change {
                LendingChange::Lend(lent) => master.membership.lend_also(lent),
                LendingChange::TakeBack(id) => {
                    master.membership.take_back(master.host.current_id(id).unwrap_or(id));
                }
                LendingChange::Unmount(id) => master.membership.unmount(id, ""),
                LendingChange::ServeUntil(id, due) => retiring.push((id, due)),
            }
        }
        self.changed.notify_all();
    }

    /// Leaves a handle of the connection for [`Heartbeat::stop`]. False if the thread must stop.
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
        // Only the heartbeat thread may panic while it has the lock, and then the state has no effect any more.
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

/// Stops serving the segments whose time has come.
fn retire(master: &MasterSession, retiring: &mut Vec<(SegmentId, Tick)>) {
    let now = master.clock.now();
    for (id, _) in retiring.extract_if(.., |&mut (_, due)| due <= now) {
        master.host.take_back(id);
    }
}

/// Takes back disks that have failed: nothing can be dropped there any more.
fn take_back_broken(master: &mut MasterSession) {
    for FailedDisk { segment, folder, reason } in master.host.take_back_broken() {
        let folder = folder.unwrap_or_default();
        let folder = folder.display();
        tracing::error!(%segment, %folder, %reason, "a disk has failed and is lent no more");
        master.membership.take_back(segment);
        master.membership.unmount(segment, reason);
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
        heartbeat.change(vec![LendingChange::TakeBack(SegmentId(1))]);
        assert!(started.elapsed() < CHANGE_PATIENCE / 2, "{:?}", started.elapsed());
        assert!(!heartbeat.is_well());
        heartbeat.report(&[SegmentId(1)]);
        heartbeat.stop();
    }
}
