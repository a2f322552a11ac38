//! How segments leave the pool: their clients unmount them, at once or after a grace period, or they are lost with
//! their clients.

use std::sync::Arc;

use mooncake_types::{ClientId, ErrorCode, SegmentId, Tick};

use super::closed::Closed;
use super::members::Effect;
use crate::Meta;
use crate::effort::CHANGE;
use crate::notice::Notice;
use crate::timer::Timer;

/// Most characters of the words of a node that are told to operators.
const MAX_FAILURE_CHARS: usize = 300;

/// Most names of expired segments that are kept until the shell takes them.
const MAX_EXPIRED_SEGMENTS: usize = 4096;

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
            // Until the record says so, a later leader could find the segment. So its tombstones stay until then.
            self.segments.set(slot, Closed::GracePeriod, true);
            self.strike(slot);
            return Ok(());
        }
        if self.segments[slot].recovering.is_some() {
            // It can neither serve readers for a while nor be drained before its node has reported all entries.
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        self.segments.set(slot, Closed::GracePeriod, true);
        let end = self.now.after_ms(grace_ms);
        self.segments.set_grace_end(slot, end);
        self.timers.insert((end, Timer::Grace(id)));
        self.drain_in_grace(slot);
        Ok(())
    }

    /// The grace period of an unmount is over, unless a later unmount has set another end. The node should not serve
    /// the segment any more, but may be late. Its bytes count as lost once no reader has a route to them.
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

    /// Notes for operators why a segment of the client is about to be unmounted, if it failed.
    pub(crate) fn note_failure(&mut self, from: ClientId, id: SegmentId, failure: &str) {
        let slot = self.segments.find(id).filter(|&slot| self.segments[slot].client == from);
        let Some(slot) = slot.filter(|_| !failure.is_empty()) else { return };
        let name = Arc::clone(&self.segments[slot].name);
        let shown = failure
            .chars()
            .take(MAX_FAILURE_CHARS)
            .map(|it| if it.is_control() { ' ' } else { it });
        let failure = shown.collect::<String>().into();
        self.notify(Notice::SegmentFailed { name, failure });
    }

    /// The slot of a segment that is in its grace period or past it; none if the segment has left or come back since.
    fn unmounting(&self, id: SegmentId) -> Option<u32> {
        self.segments.find(id).filter(|&slot| self.segments[slot].is(Closed::GracePeriod))
    }

    /// Whether a segment is unmounted, and only the record does not say so yet.
    pub(crate) fn is_leaving(&self, slot: u32) -> bool {
        let segment = &self.segments[slot];
        segment.is(Closed::GracePeriod) && self.members.is_pending(Effect::Strike(segment.id))
    }

    /// Takes a segment out of the pool: its bytes count as lost.
    fn leave_pool(&mut self, slot: u32) {
        self.notify_gone(slot);
        // Unfinished grants may be written there late, and no tombstone would tell of these writes.
        let allocations = self.segments[slot].allocator.allocations() as u64;
        if self.tombstones.count(slot) > 0 || self.segments[slot].finished_ranges() < allocations {
            self.retired_segments.note(self.segments[slot].id);
        }
        self.forget_pieces_on(slot);
        self.tombstones.forget(slot);
        self.reviews.forget(slot);
        self.segments.start_unmounting(slot);
    }

    /// The record has struck a segment: it leaves the pool.
    pub(super) fn lose_struck(&mut self, id: SegmentId) {
        let known = self.segments.find(id);
        let Some(slot) = known.filter(|&slot| self.segments[slot].is(Closed::Struck)) else {
            return;
        };
        let (name, client) = (Arc::clone(&self.segments[slot].name), self.segments[slot].client);
        self.leave_pool(slot);
        // A new process may have mounted a segment of this name before the master gave up the old one. Then the name
        // is still in use.
        let is_expired =
            self.clients.get(client).is_none() && self.segments.named(&name).is_empty();
        if is_expired && self.segments.expired.len() < MAX_EXPIRED_SEGMENTS {
            self.segments.expired.push(name);
        }
    }

    /// Takes the names of segments that left the pool since the last call because their clients were silent for too
    /// long. Leaves out a name under which another segment is mounted. At most 4096 are kept.
    pub fn take_expired_segments(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.segments.expired)
    }

    /// Drops replicas on unmounted segments. Those of running puts are dropped when the put ends.
    pub(crate) fn forget_dying(&mut self) {
        while let Some(id) = self.segments.next_dying()
            && self.effort.spend(CHANGE)
        {
            let (object, replica) = (self.ranges[id].object, self.ranges[id].replica);
            self.lose_replica(object, replica);
        }
    }
}
