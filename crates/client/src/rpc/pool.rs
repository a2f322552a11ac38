use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use mooncake_types::{Epoch, Reply, Request, ScanAction};

use super::connection::{CallFailure, Connection};
use super::dial::Dialer;
use crate::metrics::Metrics;
use crate::node::Host;
use crate::ops::CallError;

/// Most idle connections that are kept; more threads than that make and drop their own.
const MAX_IDLE_CONNECTIONS: usize = 64;

/// Connections to the master, each lent to one thread for one call.
pub(crate) struct Pool {
    dialer: Dialer,
    metrics: Arc<Metrics>,
    /// Told of every leader that is met: what was learned from the one before may be outdated from then on.
    host: Arc<Host>,
    idle: Mutex<Vec<Connection>>,
    /// The address that answered last.
    address: AtomicUsize,
}

impl Pool {
    pub(crate) fn new(dialer: Dialer, metrics: Arc<Metrics>, host: Arc<Host>) -> Self {
        let (idle, address) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        Self { dialer, metrics, host, idle, address }
    }

    /// Asks the master. A connection that turned out to be closed is replaced once, if the master cannot have acted
    /// on the request or may act on it twice.
    pub(crate) fn call(&self, request: &Request<'_>) -> Result<Reply, CallError> {
        let started = Instant::now();
        let reply = self.call_twice_at_most(request);
        self.metrics.on_call(request, started.elapsed());
        reply
    }

    fn call_twice_at_most(&self, request: &Request<'_>) -> Result<Reply, CallError> {
        if let Some(connection) = self.take_idle(is_idempotent(request)) {
            match self.call_on(connection, request) {
                Ok(reply) => return Ok(reply),
                Err(failure) if may_try_again(&failure, request) => {}
                Err(failure) => return Err(failure.error),
            }
        }
        let connection = self.dial()?;
        self.call_on(connection, request).map_err(|failure| failure.error)
    }

    /// Closes idle connections.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn call_on(
        &self,
        mut connection: Connection,
        request: &Request<'_>,
    ) -> Result<Reply, CallFailure> {
        let reply = connection.call(request)?;
        // A leader can change its epoch without closing a connection.
        if let Reply::Granted { results, .. } = &reply
            && let Some(grant) = results.iter().flatten().next()
        {
            self.meet(grant.version.epoch)?;
        }
        let mut idle = self.lock();
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
        }
        Ok(reply)
    }

    /// A master named its epoch. One that is not believed is not obeyed either.
    fn meet(&self, epoch: Epoch) -> Result<(), CallFailure> {
        if epoch > self.host.epoch() {
            self.dialer.masters.believe(epoch).map_err(|why| CallFailure {
                error: CallError::Protocol { reason: why.to_string() },
                nothing_sent: false,
                closed_before_reply: false,
            })?;
            self.host.see_epoch(epoch);
        }
        Ok(())
    }

    /// An idle connection. One that was used lately is not looked at if the request may be sent again anyway.
    fn take_idle(&self, may_repeat: bool) -> Option<Connection> {
        loop {
            // The lock is not held while the socket is looked at.
            let connection = self.lock().pop()?;
            if may_repeat && connection.was_used_lately() || connection.is_fresh() {
                return Some(connection);
            }
        }
    }

    /// Tries every address once, beginning with the one that answered last.
    fn dial(&self) -> Result<Connection, CallError> {
        let count = self.dialer.masters.count();
        let first = self.address.load(Ordering::Relaxed);
        let mut reason = String::new();
        for address in (0..count).map(|step| (first + step) % count) {
            match self.dialer.dial(address) {
                Ok((connection, epoch)) => {
                    // It was believed when it was named.
                    self.host.see_epoch(epoch);
                    self.address.store(address, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(error) => reason = error.to_string(),
            }
        }
        Err(CallError::Unreachable { reason })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().expect("no holder of the pool panicked")
    }
}

fn may_try_again(failure: &CallFailure, request: &Request<'_>) -> bool {
    failure.nothing_sent || (failure.closed_before_reply && is_idempotent(request))
}

/// Whether acting twice on a request is as good as acting once.
#[must_use]
pub fn is_idempotent(request: &Request<'_>) -> bool {
    match request {
        Request::Ping { .. }
        | Request::Leave { .. }
        | Request::MountSegment(_)
        | Request::FetchDrops { .. }
        | Request::Retract { .. }
        | Request::GetReplicaList { .. }
        | Request::RenewRoutes { .. }
        | Request::Dropped { .. }
        | Request::ExistKey { .. }
        | Request::DrainSegments { .. }
        | Request::ListSegments { .. }
        | Request::QueryTask { .. } => true,
        Request::Scan(scan) => scan.action == ScanAction::List,
        // Told twice that a move is done, the master would take its source to be dropped.
        Request::EndTask { outcome, .. } => outcome.is_err(),
        // Whoever asks again has to know that it may have been taken before.
        Request::PutEnd { .. }
        | Request::ReportInventory(_)
        | Request::ReportChanges(_)
        | Request::UnmountSegment { .. }
        | Request::PutStart(_)
        | Request::PutRevoke { .. }
        | Request::Remove { .. }
        | Request::ClearReplicas { .. }
        | Request::CreateTask(_)
        | Request::FetchTasks { .. } => false,
    }
}
