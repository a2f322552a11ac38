use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_types::FairPlaces;

use super::connection::PeerConnection;
use crate::Interrupt;

/// The connections that are open, and how many threads serve them or wait for one.
pub(super) struct Registry {
    state: Mutex<ServedConnections>,
    /// Notified when a thread has ended.
    ended: Condvar,
    /// Peers that have not greeted yet. For one too many, another of the address with the most is cut off.
    greeting: Mutex<FairPlaces<Arc<PeerConnection>>>,
}

#[derive(Default)]
struct ServedConnections {
    closed: bool,
    next_id: u64,
    open: HashMap<u64, Arc<PeerConnection>>,
    threads: usize,
}

/// Takes its connection off the list when the thread that serves it ends, however it ends.
pub(super) struct ConnectionGuard {
    registry: Arc<Registry>,
    id: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.registry.lock().open.remove(&self.id);
    }
}

/// Counts a thread until it ends, however it ends.
pub(super) struct RunningThread {
    registry: Arc<Registry>,
}

impl Drop for RunningThread {
    fn drop(&mut self) {
        self.registry.lock().threads -= 1;
        self.registry.ended.notify_all();
    }
}

impl Registry {
    /// Of so many connections at most, half may be of peers that have not greeted yet, or a few.
    pub(super) fn new(max_connections: usize) -> Self {
        let greeting = Mutex::new(FairPlaces::new((max_connections / 2).max(16)));
        Self { state: Mutex::default(), ended: Condvar::new(), greeting }
    }

    fn lock(&self) -> MutexGuard<'_, ServedConnections> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections are open.
    pub(super) fn open(&self) -> usize {
        self.lock().open.len()
    }

    /// Puts a connection on the list; `None` once the server is closed.
    pub(super) fn enter(
        self: &Arc<Self>,
        connection: &Arc<PeerConnection>,
    ) -> Option<ConnectionGuard> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.open.insert(id, Arc::clone(connection));
        Some(ConnectionGuard { registry: Arc::clone(self), id })
    }

    /// Does the greeting of a peer. It may be cut off for others.
    pub(super) fn while_greeting<R>(
        &self,
        connection: &Arc<PeerConnection>,
        greet: impl FnOnce() -> R,
    ) -> R {
        let places = || self.greeting.lock().unwrap_or_else(PoisonError::into_inner);
        let address = connection.stream().peer_addr();
        // By a local socket, or behind a thread that decrypts, a peer has no address here.
        let address = address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        let (number, given_up) = places().take(address, Arc::clone(connection));
        given_up.iter().for_each(|other| other.sever());
        let greeted = greet();
        places().give_back(number);
        greeted
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes no further connections, and interrupts all open ones.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for connection in state.open.values() {
            connection.interrupt();
        }
    }

    /// Waits for peers to end the connections that they have to end, `patience` at most. Then cuts them off.
    pub(super) fn sever_after(&self, patience: Duration) {
        let started = Instant::now();
        let is_open = |connection: &Arc<PeerConnection>| connection.is_kept_open();
        while started.elapsed() < patience && self.lock().open.values().any(is_open) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.lock().open.values().filter(|it| is_open(it)).for_each(|it| it.sever());
    }

    /// Counts a thread, which drops this last. If the thread does not start, the caller drops it.
    pub(super) fn begin_thread(self: &Arc<Self>) -> RunningThread {
        self.lock().threads += 1;
        RunningThread { registry: Arc::clone(self) }
    }

    /// Waits for all threads.
    pub(super) fn wait(&self) {
        let waited = self.ended.wait_while(self.lock(), |state| state.threads > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
