//! Which requests and which mounts a leader admits.
//!
//! A leader whose lease is over, because the coordinator does not answer, is *suspended*: it does not know whether another
//! leads. It neither changes nor names anything. Readers go on with the routes that they know, for as long as a later leader
//! waits for these. Nodes stay with it, so that it can lead on if no other master has led meanwhile.

use mooncake_types::{
    ClientId, ErrorCode, Medium, MountOutcome, MountSegment, Pong, Reply, Request, SegmentState,
    Tick,
};

use crate::Meta;
use crate::segments::Effect;

/// The answer to a client that is to ask again later.
const LATER: ErrorCode = ErrorCode::UnavailableInCurrentStatus;

impl Meta {
    /// Whether requests that change objects are answered. Look-ups always are.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.recovery.phase.serves()
    }

    /// Whether a leader with a lease answers a request now; it is to be repeated otherwise.
    pub(crate) fn admits(&self, request: &Request<'_>) -> bool {
        if !request.changes_objects() {
            return true;
        }
        // Keys that are not known yet cannot be remembered one by one.
        let is_scan = matches!(request, Request::Scan(_));
        self.serves() && !(is_scan && self.awaits_reports())
    }

    /// Whether a segment that the leader knows of has not told all that it holds.
    fn awaits_reports(&self) -> bool {
        self.recovery.missing().len() > 0
            || self.segments.iter().any(|(_, it)| it.state() == SegmentState::Recovering)
    }

    /// Answers one request of one client after the end of the lease.
    pub fn handle_suspended(&mut self, now: Tick, from: ClientId, request: &Request<'_>) -> Reply {
        match request {
            Request::Ping { .. } => match self.handle(now, from, request) {
                Reply::Pong(pong) => {
                    // Where others do not wait for a lease, one may lead by now.
                    let routes_ms = self.term.lease_end().map_or(0, |_| pong.routes_ms);
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

    /// What a segment that is not mounted is told.
    pub(crate) fn admit_mount(&self, mount: &MountSegment<'_>) -> MountOutcome {
        let id = mount.id;
        if self.members.is_pending(Effect::Strike(id)) || self.retired_segments.contains(id) {
            return MountOutcome::StartEmpty;
        }
        let adopts = self.recovery.phase.adopts();
        let may_report = match self.members.is_behind(id) {
            // Until the node has seen this epoch, writes of an earlier leader may begin there.
            Some(_) if mount.is_empty && mount.seen_epoch >= self.term.epoch() => {
                return MountOutcome::Ready;
            }
            // A leader that adopts marks a segment behind before it mounts it.
            Some(is_behind) => {
                let is_missing = self.recovery.phase.missing().is_some_and(|it| it.contains(&id));
                !is_behind || is_missing || adopts
            }
            None if mount.is_empty => return MountOutcome::Ready,
            None => adopts,
        };
        match may_report {
            true => MountOutcome::WantsInventory,
            false => MountOutcome::StartEmpty,
        }
    }

    /// What the shell records, in one step, before it hands in a mount; nothing if the segment is a member as it should be, or
    /// would not become one. A segment without an inventory may hold versions that this leader has replaced or removed
    /// meanwhile. The record calls it behind until its inventory is there.
    #[must_use]
    pub fn effects_before(&self, mount: &MountSegment<'_>) -> Vec<Effect> {
        if self.check_mount(mount).is_err() || self.segments.find(mount.id).is_some() {
            return Vec::new();
        }
        let join = Effect::join(mount.id, mount.medium);
        let is_member = self.members.is_behind(mount.id).is_some();
        // Earlier versions did not record which members are disks.
        let is_unmarked = mount.medium != Medium::Memory && !self.members.is_disk(mount.id);
        match self.admit_mount(mount) {
            MountOutcome::Ready | MountOutcome::WantsInventory if is_member && is_unmarked => {
                vec![join]
            }
            MountOutcome::Ready if !is_member => vec![join],
            MountOutcome::WantsInventory if !is_member => {
                vec![join, Effect::MarkBehind(mount.id)]
            }
            _ => Vec::new(),
        }
    }
}
