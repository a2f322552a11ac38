//! A leader whose lease is over because the coordinator does not answer, and that does not know whether another leads.
//!
//! It changes nothing, and answers look-ups for as long as no other leader can have changed what they name. Nodes check
//! every read, and whoever removes or replaces something waits for the nodes that its leader has heard from. What that
//! leader may do without hearing from a node is decided here and in `recover`: every member follows this one, which
//! their pings show, and while one of them does not, a lease that is granted ends when one would that had been granted
//! when the last of them did. A new leader marks nobody behind before the first member has come to it and a lease is over
//! since. If none comes, it waits until this one has given up. So of what this leader may name nothing was changed but by
//! nodes that dropped it.

use mooncake_types::{ClientId, ErrorCode, Reply, Request, ScanAction, Tick};

use crate::{Meta, Rule};

/// The part of a lease that is granted, in tenths: clocks do not run alike.
const USED_TENTHS: u64 = 9;

impl Meta {
    /// A ping was answered. `again` says that the ping before came over the same connection, and that this was made while the
    /// leader had its lease.
    pub fn note_ping(&mut self, now: Tick, client: ClientId, again: bool) {
        self.advance(now);
        self.clients.note_ping(client, again, self.now);
    }

    /// Answers one request of one client after the end of the lease. Nothing is granted, removed or mounted; look-ups are
    /// answered while that is safe and `is_record_known`: no step was tried of which the leader does not know whether it
    /// is in the membership record.
    pub fn handle_suspended(
        &mut self,
        now: Tick,
        from: ClientId,
        request: &Request<'_>,
        is_record_known: bool,
    ) -> Reply {
        const LATER: ErrorCode = ErrorCode::UnavailableInCurrentStatus;
        self.advance(now);
        match request {
            Request::Ping { .. } => match self.handle(now, from, request) {
                Reply::Pong(pong) => Reply::Pong(mooncake_types::Pong { has_tasks: false, ..pong }),
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
                Reply::Done(Err(LATER))
            }
            Request::GetReplicaList { .. }
            | Request::RenewRoutes { .. }
            | Request::ExistKey { .. } => self.look_up(from, request, is_record_known),
            Request::Scan(scan) if scan.action == ScanAction::List => {
                self.look_up(from, request, is_record_known)
            }
            _ => Reply::Refused(LATER),
        }
    }

    fn look_up(&mut self, from: ClientId, request: &Request<'_>, is_record_known: bool) -> Reply {
        let until = self.sure_until().filter(|&until| is_record_known && until > self.now);
        let Some(until) = until else {
            return Reply::Refused(ErrorCode::UnavailableInCurrentStatus);
        };
        self.longest_lease = Some(until);
        let reply = self.handle(self.now, from, request);
        self.longest_lease = None;
        reply
    }

    /// Until when nobody can have changed anything that this leader names without the nodes that hold it. Nothing if
    /// that is not known.
    fn sure_until(&self) -> Option<Tick> {
        if !self.obeys(Rule::SuspendedLeadersAreFollowed) {
            return Some(self.now.after_ms(self.config.lease_ttl_ms));
        }
        let mut earliest: Option<Tick> = None;
        for member in self.members.iter() {
            let slot = self.segments.find(member.segment)?;
            let segment = &self.segments[slot];
            // Under another leader, who is behind starts empty, and nobody waits for it.
            if member.behind || !segment.serves() {
                return None;
            }
            let followed = self.clients.get(segment.client)?.followed?;
            earliest = Some(earliest.map_or(followed, |earliest| earliest.min(followed)));
        }
        Some(earliest?.after_ms(self.config.lease_ttl_ms / 10 * USED_TENTHS))
    }
}
