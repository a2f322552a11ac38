//! The one place that holds the state machine.

use std::time::Instant;

use mooncake_meta::Meta;
use mooncake_types::{ClientId, Reply, Request, Tick, limits};

use crate::clock::Clock;
use crate::metadata_server::Cleanup;
use crate::metrics::{RpcMetrics, Snapshot};
use crate::sight::{ConnectionId, Pings};

/// Most objects that one page of a scan looks at, whatever was asked: one page takes no longer than a few hundred
/// microseconds, and between two pages others are served.
pub(crate) const SCAN_PAGE_OBJECTS: u32 = 1024;

/// The state machine, its clock and what is measured about it.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) meta: Meta,
    clock: Clock,
    metrics: RpcMetrics,
    pings: Pings,
    /// Told of the clients that died.
    cleanup: Option<Cleanup>,
}

const _: () = assert!(SCAN_PAGE_OBJECTS <= limits::MAX_SCAN_OBJECTS);

impl Owner {
    pub(crate) fn new(meta: Meta, clock: Clock, cleanup: Option<Cleanup>) -> Owner {
        let (metrics, pings) = (RpcMetrics::default(), Pings::default());
        Owner { meta, clock, metrics, pings, cleanup }
    }

    /// Answers one request and measures how long that took.
    pub(crate) fn handle(&mut self, from: ClientId, request: &Request<'_>) -> Reply {
        let begun = Instant::now();
        let now = self.clock.tick(begun);
        let reply = match request {
            Request::Scan(scan) if scan.limit > SCAN_PAGE_OBJECTS => {
                let mut page = *scan;
                page.limit = SCAN_PAGE_OBJECTS;
                self.meta.handle(now, from, &Request::Scan(page))
            }
            request => self.meta.handle(now, from, request),
        };
        self.metrics.record(request, &reply, begun.elapsed());
        reply
    }

    /// A number for a new connection.
    pub(crate) fn connect(&mut self) -> ConnectionId {
        self.pings.number()
    }

    /// Answers one request that came over a connection.
    pub(crate) fn handle_over(
        &mut self,
        connection: ConnectionId,
        from: ClientId,
        request: &Request<'_>,
    ) -> Reply {
        let reply = self.handle(from, request);
        if matches!(reply, Reply::Pong(_)) {
            self.pings.note(from, connection);
        }
        reply
    }

    /// A connection of a client has ended. If its last ping came over it, nobody can read there until it pings again.
    pub(crate) fn disconnect(&mut self, connection: ConnectionId, client: ClientId) {
        if self.pings.end(client, connection) {
            self.meta.handle_disconnect(self.clock.tick(Instant::now()), client);
        }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self) {
        self.meta.handle_timeout(self.clock.tick(Instant::now()));
        let expired = self.meta.take_expired_segments();
        if let Some(cleanup) = &self.cleanup {
            cleanup.forget(&expired);
        }
    }

    /// When something will be due.
    pub(crate) fn due(&self) -> Option<Tick> {
        self.meta.poll_timeout()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// All that the metrics show, at this moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.meta.stats(), &self.meta.segments(), self.metrics.clone())
    }
}
