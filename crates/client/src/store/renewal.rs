//! Leases of routes that are used from the cache, renewed in the background.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use mooncake_memory::spawn_unpinned;
use mooncake_types::{ErrorCode, Request};

use crate::clock::Clock;
use crate::node::Host;
use crate::ops::{Renewed, RouteCache, renewed};
use crate::rpc::Pool;

/// How long the thread stays when nothing is due.
const IDLE: Duration = Duration::from_secs(10);

/// Asks the master again for what is read by cached routes, on a thread that is there while that happens: no reader waits
/// for it, and the object counts as used.
pub(super) struct Renewal {
    clock: Clock,
    pool: Pool,
    host: Arc<Host>,
    cache: Arc<RouteCache>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_running: bool,
    is_due: bool,
    is_stopping: bool,
}

impl Renewal {
    pub(super) fn new(clock: Clock, pool: Pool, host: Arc<Host>, cache: Arc<RouteCache>) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { clock, pool, host, cache, state, changed }
    }

    /// The cache has keys that are due.
    pub(super) fn wake(self: &Arc<Self>) {
        let mut state = self.lock();
        state.is_due = true;
        if state.is_running || state.is_stopping {
            self.changed.notify_all();
            return;
        }
        let of_thread = Arc::clone(self);
        let name = "mooncake-routes".to_owned();
        match spawn_unpinned(Builder::new().name(name), move || of_thread.run()) {
            Ok(_) => state.is_running = true,
            // Routes end with their leases then.
            Err(error) => tracing::warn!(%error, "no thread to renew leases"),
        }
    }

    /// Begins nothing any more. A request that is under way ends by itself.
    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
        self.changed.notify_all();
        self.pool.clear();
    }

    fn run(&self) {
        let _notice = EndNotice(self);
        while self.wait_for_due() {
            self.renew();
        }
    }

    fn wait_for_due(&self) -> bool {
        let idle = |state: &mut State| !state.is_due && !state.is_stopping;
        let waited = self.changed.wait_timeout_while(self.lock(), IDLE, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let goes_on = state.is_due && !state.is_stopping;
        // Under the lock: whoever wakes it after this starts another thread.
        state.is_running = goes_on;
        state.is_due = false;
        goes_on
    }

    fn renew(&self) {
        let due = self.cache.take_due();
        let keys: Vec<&str> = due.iter().map(|(key, _)| &**key).collect();
        let uses = due.iter().map(|&(_, uses)| uses).collect();
        if keys.is_empty() {
            return;
        }
        let (asked_at, epoch) = (self.clock.now(), self.host.epoch());
        let reply = match self.pool.call(&Request::RenewRoutes { keys: keys.clone(), uses }) {
            Ok(reply) => reply,
            Err(error) => return tracing::debug!(%error, "no leases were renewed"),
        };
        let Some(renewed) = renewed(asked_at, reply) else {
            return tracing::debug!("the master renewed no leases");
        };
        let mut routes = Vec::with_capacity(keys.len());
        for (key, renewed) in keys.into_iter().zip(renewed) {
            match renewed {
                Renewed::Route(route) => routes.push((key, route)),
                Renewed::Passing => {}
                Renewed::Gone(code) => self.forget(key, code),
            }
        }
        self.cache.keep(routes.into_iter(), self.clock.now(), epoch);
    }

    fn forget(&self, key: &str, code: ErrorCode) {
        tracing::trace!(key, %code, "an object is gone");
        self.cache.forget(std::iter::once(key));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that the thread is gone if it panicked, so that another may be started.
struct EndNotice<'r>(&'r Renewal);

impl Drop for EndNotice<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_running = false;
        }
    }
}
