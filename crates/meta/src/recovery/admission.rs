//! Admission: the requests and mounts that a leader accepts.
//!
//! A leader is *suspended* when its lease is over because the coordinator does not answer: another master may lead by
//! now. A suspended leader changes nothing and gives out no routes. Readers use their known routes as long as a later
//! leader waits for them. Nodes stay connected, so that the leader can continue if no other master has led meanwhile.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{
    ClientId, ErrorCode, Medium, MountOutcome, MountSegment, Pong, Reply, Request, SegmentState,
    Tick,
};

use crate::Meta;
use crate::segments::Effect;

/// The answer that tells a client to retry later.
const LATER: ErrorCode = ErrorCode::UnavailableInCurrentStatus;

impl Meta {
    /// Whether the leader answers requests that change objects. It always answers look-ups.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.recovery.phase.serves()
    }

    /// Whether a leader with a lease answers a request now. Otherwise the client must retry it.
    pub(crate) fn admits(&self, request: &Request<'_>) -> bool {
        if !request.changes_objects() {
            return true;
        }
        // A scan cannot overrule keys that the leader does not know yet.
        let is_scan = matches!(request, Request::Scan(_));
        self.serves() && !(is_scan && self.awaits_reports())
    }

    /// Whether a known segment has not reported its whole inventory.
    fn awaits_reports(&self) -> bool {
        self.recovery.missing().len() > 0
            || self.segments.iter().any(|(_, it)| it.state() == SegmentState::Recovering)
    }

    /// Answers a request after the end of the lease.
    pub fn handle_suspended(&mut self, now: Tick, from: ClientId, request: &Request<'_>) -> Reply {
        match request {
            Request::Ping { .. } => match self.handle(now, from, request) {
                Reply::Pong(pong) => {
                    // Without a lease another master may lead already, so clients get no time for routes.
                    let routes_ms = self.term.lease_end().map_or(0, |_| pong.routes_ms);
                    Reply::Pong(Pong { has_tasks: false, routes_ms, ..pong })
                }
                other => other,
            },
            // Reports of nodes on their own drops hold under every leader.
            Request::FetchDrops { .. }
            | Request::Dropped { .. }
            | Request::Leave { .. }
            | Request::ListSegments { .. }
            | Request::QueryTask { .. } => self.handle(now, from, request),
            // This answer keeps the node connected to this leader.
            Request::MountSegment(_)
            | Request::ReportInventory(_)
            | Request::ReportChanges(_)
            | Request::ReportLosses { .. } => {
                self.advance(now);
                Reply::Done(Err(LATER))
            }
            _ => {
                self.advance(now);
                Reply::Refused(LATER)
            }
        }
    }

    /// The answer to a mount of a segment that is not mounted.
    pub(crate) fn admit_mount(&self, mount: &MountSegment<'_>) -> MountOutcome {
        let id = mount.id;
        if self.members.is_pending(Effect::Strike(id)) || self.retired_segments.contains(id) {
            return MountOutcome::StartEmpty;
        }
        let adopts = self.recovery.phase.adopts() || is_broken(Rule::StrangersStartEmpty);
        let may_report = match self.members.is_behind(id) {
            // A node that has not seen this epoch may still accept writes of an earlier leader.
            Some(_) if mount.is_empty && mount.seen_epoch >= self.term.epoch() => {
                return MountOutcome::Ready;
            }
            // A leader in the phase `Adopting` marks a segment behind before it mounts it.
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

    /// The changes of the record that the shell must make, in one step, before it hands in a mount. There are none if
    /// the record is right already, or if the mount would not make the segment a member.
    ///
    /// A segment without an inventory may hold versions that this leader has replaced or removed. The record marks it
    /// behind until its inventory is complete.
    #[must_use]
    pub fn effects_before(&self, mount: &MountSegment<'_>) -> Vec<Effect> {
        if self.check_mount(mount).is_err() || self.segments.find(mount.id).is_some() {
            return Vec::new();
        }
        let join = Effect::join(mount.id, mount.medium);
        let is_member = self.members.is_behind(mount.id).is_some();
        // A record that an older release wrote does not say which members are disks.
        let is_unmarked = mount.medium != Medium::Memory && !self.members.is_disk(mount.id);
        match self.admit_mount(mount) {
            MountOutcome::Ready | MountOutcome::WantsInventory if is_member && is_unmarked => {
                vec![join]
            }
            MountOutcome::Ready if !is_member => vec![join],
            MountOutcome::WantsInventory if !is_member => {
                vec![join, Effect::MarkBehind(mount.id, self.term.first_grant())]
            }
            _ => Vec::new(),
        }
    }
}
