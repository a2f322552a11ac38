//! A leader whose lease is over because the coordinator does not answer, and that does not know whether another leads.
//!
//! It neither changes nor names anything: readers go on with the routes that they know, for as long as a later leader
//! waits for these. Nodes stay with it, so that it can lead on if no other master has led meanwhile.

use mooncake_types::{ClientId, ErrorCode, Pong, Reply, Request, Tick};

use crate::Meta;

impl Meta {
    /// Answers one request of one client after the end of the lease.
    pub fn handle_suspended(&mut self, now: Tick, from: ClientId, request: &Request<'_>) -> Reply {
        const LATER: ErrorCode = ErrorCode::UnavailableInCurrentStatus;
        match request {
            Request::Ping { .. } => match self.handle(now, from, request) {
                Reply::Pong(pong) => {
                    // Where others do not wait for a lease, one may lead by now.
                    let routes_ms = self.lease_end.map_or(0, |_| pong.routes_ms);
                    Reply::Pong(Pong { has_tasks: false, routes_ms, ..pong })
                }
                other => other,
            },
            // What nodes tell of their own drops is true under every leader.
            Request::FetchDrops { .. }
            | Request::Dropped { .. }
            | Request::Leave { .. }
            | Request::ListSegments { .. }
            | Request::QueryTask { .. } => self.handle(now, from, request),
            // A node stays where it is answered like this.
            Request::MountSegment(_) | Request::ReportInventory(_) | Request::ReportChanges(_) => {
                self.advance(now);
                Reply::Done(Err(LATER))
            }
            _ => {
                self.advance(now);
                Reply::Refused(LATER)
            }
        }
    }
}
