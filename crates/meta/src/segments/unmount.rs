//! How segments leave the pool: taken back at once or after a grace period, or lost with their clients.

use std::sync::Arc;

use mooncake_types::{ClientId, ErrorCode, SegmentId, Tick};

use super::closed::Closed;
use super::members::Effect;
use crate::Meta;
use crate::timer::Timer;

/// Names of expired segments that wait for somebody to ask for them.
const MAX_EXPIRED_SEGMENTS: usize = 4096;
/// Replicas of unmounted segments that are forgotten between two requests.
const REPLICAS_PER_TURN: usize = 256;

impl Meta {
    pub(crate) fn unmount(
        &mut self,
        from: ClientId,
        id: SegmentId,
        grace_ms: u64,
    ) -> Result<(), ErrorCode> {
        let Some(slot) = self.segments.find(id) else {
            self.retired_segments.note(id);
            return Err(ErrorCode::SegmentNotFound);
        };
        if self.segments[slot].client != from {
            return Err(ErrorCode::IllegalClient);
        }
        if grace_ms == 0 {
            self.leave_pool(slot);
            self.emit(Effect::Strike(id));
            return Ok(());
        }
        if self.segments[slot].recovering.is_some() {
            // It cannot be served for a while, nor drained, before it is known what lies there.
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        self.segments.set(slot, Closed::GracePeriod, true);
        let end = self.now.after_ms(grace_ms);
        self.segments.set_grace_end(slot, end);
        self.timers.insert((end, Timer::Grace(id)));
        self.drain_in_grace(slot);
        Ok(())
    }

    /// The grace period of an unmount is over, unless it was unmounted again with another. The node should serve the segment no
    /// longer, but may be late: what lies there counts as lost once nobody has a route to it.
    pub(crate) fn grace_due(&mut self, id: SegmentId, end: Tick) {
        let is_over = |&slot: &u32| {
            let segment = &self.segments[slot];
            segment.grace_end == end && !segment.is(Closed::Struck)
        };
        let Some(slot) = self.unmounting(id).filter(is_over) else { return };
        self.segments.set(slot, Closed::Struck, true);
        let end = self.now.after_ms(self.config.lease_ttl_ms);
        self.timers.insert((end, Timer::RoutesOver(id)));
    }

    pub(crate) fn routes_over_due(&mut self, id: SegmentId) {
        if let Some(slot) = self.unmounting(id) {
            self.strike(slot);
        }
    }

    /// A segment in its grace period, or after it. It may have gone and come back since.
    fn unmounting(&self, id: SegmentId) -> Option<u32> {
        self.segments.find(id).filter(|&slot| self.segments[slot].is(Closed::GracePeriod))
    }

    /// The content of a segment counts as lost from here on.
    fn leave_pool(&mut self, slot: u32) {
        self.notify_gone(slot);
        // What was granted and is not finished may be written there late, and nobody would know of it.
        let allocations = self.segments[slot].allocator.allocations() as u64;
        if self.tombstones.count(slot) > 0 || self.segments[slot].finished_ranges() < allocations {
            self.retired_segments.note(self.segments[slot].id);
        }
        self.forget_pieces_on(slot);
        self.tombstones.forget(slot);
        self.reviews.forget(slot);
        self.segments.start_unmounting(slot);
    }

    /// A segment was struck from the record.
    pub(super) fn lose_struck(&mut self, id: SegmentId) {
        let known = self.segments.find(id);
        let Some(slot) = known.filter(|&slot| self.segments[slot].is(Closed::Struck)) else {
            return;
        };
        let (name, client) = (Arc::clone(&self.segments[slot].name), self.segments[slot].client);
        self.leave_pool(slot);
        // A process that came back under the same name before its predecessor was given up lives on.
        let is_expired =
            self.clients.get(client).is_none() && self.segments.named(&name).is_empty();
        if is_expired && self.segments.expired.len() < MAX_EXPIRED_SEGMENTS {
            self.segments.expired.push(name);
        }
    }

    /// Names of segments that went away because their clients were silent for too long, since this was last asked. A
    /// name under which another segment is mounted is not among them. At most 4096 are kept.
    pub fn take_expired_segments(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.segments.expired)
    }

    /// Forgets replicas of unmounted segments. Those of running puts go when the put ends.
    pub(crate) fn forget_dying(&mut self) {
        for _ in 0..REPLICAS_PER_TURN {
            let Some(id) = self.segments.next_dying() else { return };
            let (object, replica) = (self.ranges[id].object, self.ranges[id].replica);
            self.lose_replica(object, replica);
        }
    }
}
