use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mooncake_calls::{Stage, note};
use mooncake_connection::{CallProgress, Connection, IdleConnections};
use mooncake_node::Host;
use mooncake_ops::{CallError, is_idempotent};
use mooncake_types::{Epoch, Reply, Request};

use super::call::{CallFailure, call_within};
use super::dial::Dialer;
use crate::metrics::Metrics;

/// Most idle connections that are kept. If more threads call at once, the others open and close their own.
const MAX_IDLE: usize = 64;

/// Connections to the master, each lent to one thread for one call.
pub(crate) struct ConnectionPool {
    dialer: Dialer,
    metrics: Arc<Metrics>,
    /// Learns the epoch of every leader that is met, since it may outdate what an earlier leader said.
    host: Arc<Host>,
    idle: IdleConnections,
    /// Index of the address that answered last.
    address: AtomicUsize,
}

impl ConnectionPool {
    pub(crate) fn new(dialer: Dialer, metrics: Arc<Metrics>, host: Arc<Host>) -> Self {
        let (idle, address) = (IdleConnections::new(MAX_IDLE), AtomicUsize::new(0));
        Self { dialer, metrics, host, idle, address }
    }

    /// Asks the master, for at most the call timeout.
    pub(crate) fn call(&self, request: &Request<'_>) -> Result<Reply, CallError> {
        self.call_within(request, self.dialer.call_timeout)
    }

    /// Asks the master. Replaces a connection that turns out to be closed, once, if the master cannot have acted on
    /// the request, or may act on it twice. All of this takes at most `most`, and at most the call timeout.
    pub(crate) fn call_within(
        &self,
        request: &Request<'_>,
        most: Duration,
    ) -> Result<Reply, CallError> {
        let (started, most) = (Instant::now(), most.min(self.dialer.call_timeout));
        let reply = self.call_twice_at_most(request, most, started);
        let took = started.elapsed();
        self.metrics.on_call(request, took);
        note(Stage::Master, took);
        reply.map_err(|error| match error {
            CallError::TimedOut { .. } => CallError::TimedOut { after_ms: most.as_millis() as u64 },
            error => error,
        })
    }

    fn call_twice_at_most(
        &self,
        request: &Request<'_>,
        most: Duration,
        started: Instant,
    ) -> Result<Reply, CallError> {
        // A connection that turns out to be closed does no harm if the request may be sent twice.
        if let Some(connection) = self.idle.take(is_idempotent(request)) {
            match self.call_on(connection, request, most) {
                Ok(reply) => return Ok(reply),
                Err(failure) if may_try_again(&failure, request) => {}
                Err(failure) => return Err(failure.error),
            }
        }
        let connection = self.dial(most.saturating_sub(started.elapsed()))?;
        let left = most.saturating_sub(started.elapsed());
        self.call_on(connection, request, left).map_err(|failure| failure.error)
    }

    /// Closes idle connections.
    pub(crate) fn clear(&self) {
        self.idle.clear();
    }

    fn call_on(
        &self,
        mut connection: Connection,
        request: &Request<'_>,
        most: Duration,
    ) -> Result<Reply, CallFailure> {
        let reply = call_within(&mut connection, request, most)?;
        // A leader can change its epoch without closing a connection.
        if let Reply::Granted { results, .. } = &reply
            && let Some(grant) = results.iter().flatten().next()
        {
            self.meet(grant.version.epoch)?;
        }
        self.idle.give_back(connection);
        Ok(reply)
    }

    /// Obeys the epoch that a master named, if it is credible.
    fn meet(&self, epoch: Epoch) -> Result<(), CallFailure> {
        if epoch > self.host.epoch() {
            let believed = self.dialer.masters.believe(epoch);
            believed.map_err(|why| CallFailure::after_reply(why.to_string()))?;
            self.host.see_epoch(epoch);
        }
        Ok(())
    }

    /// Tries every address once, beginning with the address that answered last.
    fn dial(&self, most: Duration) -> Result<Connection, CallError> {
        let started = Instant::now();
        let count = self.dialer.masters.count();
        let first = self.address.load(Ordering::Relaxed);
        let mut reason = String::new();
        for address in (0..count).map(|step| (first + step) % count) {
            match self.dialer.dial(address, most.saturating_sub(started.elapsed())) {
                Ok((connection, epoch)) => {
                    // The epoch was found credible when the connection was made.
                    self.host.see_epoch(epoch);
                    self.address.store(address, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(error) => reason = error.to_string(),
            }
        }
        Err(CallError::Unreachable { reason })
    }
}

fn may_try_again(failure: &CallFailure, request: &Request<'_>) -> bool {
    match failure.progress {
        CallProgress::NothingSent => true,
        CallProgress::Closed => is_idempotent(request),
        CallProgress::Unknown => false,
    }
}
