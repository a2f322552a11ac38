//! Sight: which nodes the master has lost sight of. Their replicas cannot be read and nothing is granted there, but
//! nothing is dropped either: their next ping brings all of it back, until their time to live is over.
//!
//! A node is out of sight once the connection of its last ping has ended, or if others could not reach it and it then
//! does not ping for a while. What others say never hides a node that pings.
//!
//! A node may be in sight and yet not be reached at the address that others are told. Nothing is put there while that is so.

use std::sync::Arc;

use mooncake_types::{ClientId, SegmentId, Tick};

use super::closed::Closed;
use crate::Meta;
use crate::timer::Timer;

/// A node that others could not reach has this long to ping. Nodes ping twice in this time.
const DOUBT_MS: u64 = 500;

/// A timer that fires this late says that the master was held up: pings may have come that it has not seen.
const HELD_UP_MS: u64 = 100;

impl Meta {
    /// The connection over which the client's last ping came has ended: its segments are out of sight until it pings
    /// again.
    pub fn handle_disconnect(&mut self, now: Tick, client: ClientId) {
        self.advance(now);
        self.set_sight(client, false);
    }

    /// Whether the node of a segment can be connected to where it says that it serves. Each can until it is said otherwise.
    /// True if that is news.
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

    /// Where the node of a segment says that it serves, and whether it is in sight.
    #[must_use]
    pub fn endpoint(&self, segment: SegmentId) -> Option<(Arc<str>, bool)> {
        let segment = &self.segments[self.segments.find(segment)?];
        Some((Arc::clone(&segment.endpoint), !segment.is(Closed::OutOfSight)))
    }

    /// A client pings, or is out of sight from now on. Neither is in doubt any more.
    pub(super) fn set_sight(&mut self, client: ClientId, in_sight: bool) {
        self.clear_doubt(client);
        if !self.clients.set_in_sight(client, in_sight, self.now) {
            return;
        }
        for slot in self.segments.of_client(client).to_vec() {
            self.segments.set(slot, Closed::OutOfSight, !in_sight);
        }
        self.notify_sight(client, in_sight);
        if in_sight {
            self.repair.wake();
        }
    }

    /// A client that was silent for its time to live is out of sight from now on. Gives the moment at which the last route to its
    /// segments ends, if that is still to come: a node that only the master cannot hear may serve readers until then.
    pub(super) fn lose_sight_of_silent(&mut self, client: ClientId) -> Option<Tick> {
        if self.segments.of_client(client).is_empty() {
            return None;
        }
        self.set_sight(client, false);
        let lost = self.clients.get(client)?.sight_changed;
        Some(lost.after_ms(self.config.lease_ttl_ms)).filter(|&end| end > self.now)
    }

    /// Somebody could not reach these segments. Those that are not mounted are no news.
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

    /// A node that is doubted has not pinged in time.
    pub(crate) fn doubt_due(&mut self, client: ClientId, due: Tick) {
        self.clients.clear_doubt(client);
        if self.now.since_ms(due) < HELD_UP_MS {
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
