use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::PeerConnection;
use crate::Interrupt;

/// The connections that are open, and how many threads serve them or wait for one.
#[derive(Default)]
pub(super) struct Registry {
    state: Mutex<ServedConnections>,
    /// Notified when a thread has ended.
    ended: Condvar,
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
