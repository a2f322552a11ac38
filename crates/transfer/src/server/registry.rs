use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use super::connection::Connection;
use crate::Interrupt;

/// The connections that are open and the threads that serve them.
#[derive(Default)]
pub(super) struct Registry(Mutex<ServedConnections>);

#[derive(Default)]
struct ServedConnections {
    closed: bool,
    next_id: u64,
    open: HashMap<u64, Arc<Connection>>,
    threads: HashMap<ThreadId, JoinHandle<()>>,
    /// The thread that ended last. Until it is joined the system keeps its stack.
    ended: Option<JoinHandle<()>>,
}

/// Takes its connection off the list when the thread that serves it ends, however it ends.
pub(super) struct Membership {
    registry: Arc<Registry>,
    id: u64,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.registry.lock().open.remove(&self.id);
    }
}

/// Has its thread joined by the next that ends, however it ends.
pub(super) struct Ending {
    registry: Arc<Registry>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.registry.lock();
        // One that ends before it was kept is joined when the next is.
        let Some(own) = state.threads.remove(&thread::current().id()) else { return };
        let before = state.ended.replace(own);
        drop(state);
        // A thread that panicked has said so already.
        drop(before.map(JoinHandle::join));
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, ServedConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections are open.
    pub(super) fn open(&self) -> usize {
        self.lock().open.len()
    }

    /// Puts a connection on the list; `None` once the server is closed.
    pub(super) fn enter(self: &Arc<Self>, connection: &Arc<Connection>) -> Option<Membership> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.open.insert(id, Arc::clone(connection));
        Some(Membership { registry: Arc::clone(self), id })
    }

    /// Keeps the thread to be joined, and forgets those that have ended.
    pub(super) fn keep(&self, thread: JoinHandle<()>) {
        let mut state = self.lock();
        state.threads.retain(|_, thread| !thread.is_finished());
        state.threads.insert(thread.thread().id(), thread);
    }

    /// To be held by a thread that is kept, until it ends.
    pub(super) fn ending(self: &Arc<Self>) -> Ending {
        Ending { registry: Arc::clone(self) }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Lets nobody in any more and shuts down everybody who is.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for connection in state.open.values() {
            connection.interrupt();
        }
    }

    /// Waits for the connections that their peers have to end, `patience` at most, and then cuts them off.
    pub(super) fn sever_after(&self, patience: Duration) {
        let started = Instant::now();
        let is_open = |connection: &Arc<Connection>| connection.is_kept_open();
        while started.elapsed() < patience && self.lock().open.values().any(is_open) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.lock().open.values().filter(|it| is_open(it)).for_each(|it| it.sever());
    }

    /// Waits for all threads.
    pub(super) fn join(&self) {
        let mut state = self.lock();
        let (threads, ended) = (std::mem::take(&mut state.threads), state.ended.take());
        drop(state);
        for thread in threads.into_values().chain(ended) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}
