use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use mooncake_memory::spawn_unpinned;

use super::peer::Peer;

/// How often the thread checks idle lanes.
const TIDY: Duration = Duration::from_secs(1);

/// Stack size of that thread.
const STACK_BYTES: usize = 64 << 10;

/// All peers by their endpoints, and the thread that closes idle lanes. The thread runs while any peer is remembered:
/// a process that makes no calls for hours must not keep the connections of earlier calls.
#[derive(Default)]
pub(super) struct Directory {
    state: Mutex<DirectoryState>,
    closed: Condvar,
}

#[derive(Default)]
pub(super) struct DirectoryState {
    pub(super) peers: HashMap<Arc<str>, Arc<Peer>>,
    is_kept_tidy: bool,
    is_closed: bool,
}

impl Directory {
    pub(super) fn lock(&self) -> MutexGuard<'_, DirectoryState> {
        // Each change is one step, so a panic leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread, if it is not running.
    pub(super) fn keep_tidy(self: &Arc<Self>, state: &mut DirectoryState) {
        if state.is_kept_tidy || state.is_closed {
            return;
        }
        let of_thread = Arc::clone(self);
        let thread = Builder::new().name("mooncake-lanes".to_owned()).stack_size(STACK_BYTES);
        match spawn_unpinned(thread, move || of_thread.run()) {
            Ok(_) => state.is_kept_tidy = true,
            // The next new peer tries again.
            Err(error) => tracing::warn!(%error, "no thread to close idle connections"),
        }
    }

    /// Forgets all peers, for good.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let peers = std::mem::take(&mut state.peers);
        drop(state);
        self.closed.notify_all();
        drop(peers);
    }

    fn run(&self) {
        while self.wait() {
            self.tidy(Instant::now());
        }
    }

    /// Waits for the next round; false if the thread has to end.
    fn wait(&self) -> bool {
        let waited = self.closed.wait_timeout_while(self.lock(), TIDY, |state| !state.is_closed);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        // Set under the lock, so that a peer that is added later starts another thread.
        state.is_kept_tidy = !state.is_closed && !state.peers.is_empty();
        state.is_kept_tidy
    }

    /// Closes idle lanes that their peer has closed or that were idle for long, and forgets peers without lanes.
    pub(super) fn tidy(&self, now: Instant) {
        let peers: Vec<Arc<Peer>> = self.lock().peers.values().cloned().collect();
        peers.iter().for_each(|peer| peer.tidy(now));
        drop(peers);
        // A call that holds a peer is about to connect to it, or waits for a lane.
        let is_used = |peer: &Arc<Peer>| Arc::strong_count(peer) > 1 || !peer.is_blank();
        let mut state = self.lock();
        state.peers.retain(|_, peer| is_used(peer));
        if state.peers.is_empty() {
            state.peers.shrink_to_fit();
        }
    }
}
