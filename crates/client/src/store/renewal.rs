//! Renews leases of cached routes that are in use, in the background.

use std::sync::Arc;
use std::time::Duration;

use mooncake_node::Host;
use mooncake_ops::{Renewed, RouteCache, renewed};
use mooncake_types::{ErrorCode, Request};

use crate::clock::Clock;
use crate::rpc::ConnectionPool;
use crate::worker::Worker;

/// How long the thread stays idle before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// Asks the master again for objects that are read by cached routes. A thread exists only while that happens. So no
/// reader waits for the master, and the object counts as used.
pub(super) struct Renewal {
    clock: Clock,
    pool: ConnectionPool,
    host: Arc<Host>,
    cache: Arc<RouteCache>,
    worker: Arc<Worker>,
}

impl Renewal {
    pub(super) fn new(
        clock: Clock,
        pool: ConnectionPool,
        host: Arc<Host>,
        cache: Arc<RouteCache>,
    ) -> Self {
        let worker = Worker::new("mooncake-routes", IDLE);
        Self { clock, pool, host, cache, worker }
    }

    /// Starts the renewal of keys that are due in the cache. If no thread can be started, routes end with their
    /// leases.
    pub(super) fn wake(self: &Arc<Self>) {
        let renewal = Arc::clone(self);
        self.worker.wake(move || renewal.renew(&renewal.cache));
    }

    /// Begins no more renewals. A request under way ends by itself.
    pub(super) fn stop(&self) {
        self.worker.stop(Duration::ZERO);
        self.pool.clear();
    }

    /// Renews the keys that are due in this cache, on the calling thread.
    pub(super) fn renew(&self, cache: &RouteCache) {
        let due = cache.take_due();
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
                Renewed::Unsettled => {}
                Renewed::Gone(code) => forget(cache, key, code),
            }
        }
        cache.keep(routes.into_iter(), self.clock.now(), epoch);
    }
}

fn forget(cache: &RouteCache, key: &str, code: ErrorCode) {
    tracing::trace!(key, %code, "an object is gone");
    cache.forget(std::iter::once(key));
}
