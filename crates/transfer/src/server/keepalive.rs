//! Keepalives: while a node waits for a disk or an object store, it tells its peer that it is alive.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_memory::{Wait, send_bytes, spawn_unpinned};
use mooncake_wire::{HEADER_LEN, keepalive};

use super::connection::{PeerConnection, STACK_BYTES};
use crate::Interrupt;

/// Time before the first keepalive of a request, and between two of them, at least.
const EVERY: Duration = Duration::from_millis(200);

/// How often the thread checks which keepalives are due.
const TICK: Duration = Duration::from_millis(100);

/// The requests for which keepalives are sent, from a thread of their own.
#[derive(Default)]
pub(super) struct Keepalives {
    requests: Mutex<SlowRequests>,
    changed: Condvar,
}

#[derive(Default)]
struct SlowRequests {
    next_number: u64,
    by_number: BTreeMap<u64, SlowRequest>,
    /// The thread, once there was a request.
    thread: Option<JoinHandle<()>>,
    /// The thread sleeps until there is another request.
    is_parked: bool,
    is_stopped: bool,
}

struct SlowRequest {
    connection: Arc<PeerConnection>,
    id: u64,
    due: Instant,
}

/// Keepalives are sent until this is dropped. Until then, nothing else may be sent on the connection.
pub(super) struct Keepalive<'a> {
    keepalives: &'a Keepalives,
    number: u64,
}

impl Drop for Keepalive<'_> {
    fn drop(&mut self) {
        self.keepalives.lock().by_number.remove(&self.number);
    }
}

impl Keepalives {
    /// Begins to send keepalives for a request, which may take long.
    pub(super) fn begin(
        self: &Arc<Self>,
        connection: &Arc<PeerConnection>,
        id: u64,
    ) -> Keepalive<'_> {
        let mut requests = self.lock();
        let number = requests.next_number;
        requests.next_number += 1;
        let due = Instant::now() + EVERY;
        let request = SlowRequest { connection: Arc::clone(connection), id, due };
        requests.by_number.insert(number, request);
        if requests.is_parked {
            self.changed.notify_all();
        }
        if requests.thread.is_none() && !requests.is_stopped {
            let keepalives = Arc::clone(self);
            let thread = Builder::new().name("keepalive".into()).stack_size(STACK_BYTES);
            match spawn_unpinned(thread, move || keepalives.run()) {
                Ok(thread) => requests.thread = Some(thread),
                Err(error) => tracing::debug!(%error, "no keepalives are sent"),
            }
        }
        Keepalive { keepalives: self, number }
    }

    /// Stops the thread, and sends no more keepalives.
    pub(super) fn stop(&self) {
        let mut requests = self.lock();
        requests.is_stopped = true;
        let thread = requests.thread.take();
        drop(requests);
        self.changed.notify_all();
        // A thread that panicked has said so already.
        drop(thread.map(JoinHandle::join));
    }

    fn run(&self) {
        let mut requests = self.lock();
        let mut seen = requests.next_number;
        while !requests.is_stopped {
            // While requests keep coming, waking the thread for each costs more than a look at each tick.
            let is_idle = requests.by_number.is_empty() && requests.next_number == seen;
            seen = requests.next_number;
            requests = if is_idle {
                requests.is_parked = true;
                let mut woken = self.changed.wait(requests).unwrap_or_else(PoisonError::into_inner);
                woken.is_parked = false;
                woken
            } else {
                let waited = self.changed.wait_timeout(requests, TICK);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
            let now = Instant::now();
            for request in requests.by_number.values_mut().filter(|request| request.due <= now) {
                request.due = now + EVERY;
                request.send();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlowRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlowRequest {
    fn send(&self) {
        match send_bytes(self.connection.stream().as_fd(), &keepalive(self.id), Wait::Now) {
            Ok(HEADER_LEN) => {}
            // Only a part of the frame was sent, so the peer could not decode what follows.
            Ok(_) => self.connection.interrupt(),
            // A peer that takes no bytes now has some to read, and the thread that serves it learns if it is gone.
            Err(_) => {}
        }
    }
}
