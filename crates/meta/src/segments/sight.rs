//! Sight: which clients the master sees. Replicas of a client out of sight cannot be read, and nothing is granted
//! there. But nothing is dropped either: the client's next ping brings all of it back, until its time to live is
//! over.
//!
//! A client goes out of sight when the connection of its last ping ends. It also does if other clients report that
//! they could not reach it and no ping follows for a while. Such reports never hide a client that pings.
//!
//! A client may be in sight and yet not be reachable at the address that others get. Nothing is put there then.

use std::sync::Arc;

use mooncake_types::{ClientId, SegmentId, Tick};

use super::closed::Closed;
use crate::Meta;
use crate::timer::Timer;

/// Time that a client has to ping when others could not reach it. Clients ping twice in this time.
const DOUBT_MS: u64 = 500;

impl Meta {
    /// The connection of the client's last ping has ended: its segments are out of sight until its next ping.
    pub fn handle_disconnect(&mut self, now: Tick, client: ClientId) {
        self.advance(now);
        self.set_sight(client, false);
    }

    /// Notes whether the master can connect to the node of a segment at its endpoint. A node counts as reachable
    /// before the first call. True if that has changed.
    pub fn handle_reach(&mut self, now: Tick, segment: SegmentId, is_reached: bool) -> bool {
        self.advance(now);
        let Some(slot) = self.segments.find(segment) else { return false };
        if self.segments[slot].is(Closed::Unreached) != is_reached {
            return false;
        }
        self.segments.set(slot, Closed::Unreached, !is_reached);
        if self.segments[slot].takes_puts() {
            self.repair.wake();
        }
        true
    }

    /// The endpoint of a segment, and whether the segment is in sight.
    #[must_use]
    pub fn endpoint(&self, segment: SegmentId) -> Option<(Arc<str>, bool)> {
        let segment = &self.segments[self.segments.find(segment)?];
        Some((Arc::clone(&segment.endpoint), !segment.is(Closed::OutOfSight)))
    }

    /// Notes that a client pinged, or that it went out of sight. Ends any doubt about it.
    pub(super) fn set_sight(&mut self, client: ClientId, in_sight: bool) {
        self.clear_doubt(client);
        if !self.clients.set_in_sight(client, in_sight, self.now) {
            return;
        }
        match in_sight {
            true => self.counters.clients_recovered += 1,
            false => self.counters.clients_suspected += 1,
        }
        for slot in self.segments.of_client(client).to_vec() {
            self.segments.set(slot, Closed::OutOfSight, !in_sight);
        }
        self.notify_sight(client, in_sight);
        match in_sight {
            true => self.repair.wake(),
            // It may have been the last segment that was reporting.
            false => self.advance_recovery(),
        }
    }

    /// Notes that a client that was silent for its time to live is out of sight. Gives the time until which it may come
    /// back, if that is still to come: at least until the last route to its segments ends, since a node that only the
    /// master cannot hear may serve readers until then.
    pub(super) fn lose_sight_of_silent(&mut self, client: ClientId) -> Option<Tick> {
        if self.segments.of_client(client).is_empty() {
            return None;
        }
        self.set_sight(client, false);
        let record = self.clients.get(client)?;
        let routes_end = record.sight_changed.after_ms(self.config.lease_ttl_ms);
        let silent = record.last_heard.after_ms(self.config.client_ttl_ms);
        let suspicion_ends = silent.after_ms(self.config.suspicion_ttl_ms);
        Some(routes_end.max(suspicion_ends)).filter(|&end| end > self.now)
    }

    /// Doubts the clients of these segments, because another client could not reach them. Ignores segments that are
    /// not mounted.
    pub(super) fn doubt(&mut self, segments: &[SegmentId]) {
        for &id in segments {
            let Some(slot) = self.segments.find(id) else { continue };
            let host = self.segments[slot].client;
            let due = self.now.after_ms(DOUBT_MS);
            if self.clients.doubt(host, due) {
                self.timers.insert((due, Timer::Doubt(host)));
            }
        }
    }

    /// A client that is doubted has not pinged in time.
    pub(crate) fn doubt_due(&mut self, client: ClientId, due: Tick) {
        self.clients.clear_doubt(client);
        if !self.was_held_up(due) {
            return self.set_sight(client, false);
        }
        let due = self.now.after_ms(DOUBT_MS / 2);
        if self.clients.doubt(client, due) {
            self.timers.insert((due, Timer::Doubt(client)));
        }
    }

    pub(super) fn clear_doubt(&mut self, client: ClientId) {
        if let Some(due) = self.clients.clear_doubt(client) {
            self.timers.remove(&(due, Timer::Doubt(client)));
        }
    }
}
