//! Clients and the segments that they lend: heartbeats, mounting, unmounting.

use std::sync::Arc;

use mooncake_alloc::{Allocator, RangeAllocator, SlabAllocator};
use mooncake_types::{
    ClientId, ErrorCode, MountOutcome, MountSegment, Pong, Reply, SegmentId, Tick, limits,
};

use super::closed::{Closed, Reasons};
use super::members::Effect;
use super::table::Segment;
use crate::Meta;
use crate::config::AllocatorKind;
use crate::objects::{Queue, SEGMENT_QUEUES};
use crate::slab::NONE;
use crate::timeout::Timer;

/// Names of expired segments that wait for somebody to ask for them.
const MAX_EXPIRED_SEGMENTS: usize = 4096;

impl Meta {
    /// A sign of life of a client.
    pub(crate) fn hear(&mut self, from: ClientId) {
        if self.clients.hear(from, self.now) {
            let due = self.now.after_ms(self.config.client_ttl_ms);
            self.timers.insert((due, Timer::Client(from)));
        }
    }

    /// The number that stands for a client in the object records.
    pub(crate) fn number_of(&self, client: ClientId) -> u32 {
        // Numbers start at 1: nobody's is 0, and an operator ends no puts.
        self.clients.get(client).map_or(0, |client| client.number)
    }

    /// Whether a client is in sight. One that is not known has just been heard of.
    fn is_in_sight(&self, client: ClientId) -> bool {
        self.clients.get(client).is_none_or(|client| client.in_sight)
    }

    pub(crate) fn ping(
        &mut self,
        from: ClientId,
        hosted: &[SegmentId],
        unreachable: &[SegmentId],
    ) -> Reply {
        self.see(from);
        self.doubt(unreachable);
        let lent = |id: &SegmentId| {
            let slot = self.segments.find(*id);
            let segment = slot.map(|slot| &self.segments[slot]);
            segment.is_some_and(|segment| segment.client == from && !segment.is(Closed::Struck))
        };
        let need_remount = !hosted.iter().all(lent);
        let is_unreached = hosted.iter().filter_map(|&id| self.segments.find(id));
        let is_unreached =
            is_unreached.into_iter().any(|slot| self.segments[slot].is(Closed::Unreached));
        Reply::Pong(Pong {
            need_remount,
            epoch: self.epoch,
            has_tasks: self.tasks.next_pending(from, 0).is_some(),
            has_drops: self.has_drops(hosted),
            is_unreached,
            client_ttl_ms: self.config.client_ttl_ms,
            routes_ms: self.routes_ms(),
        })
    }

    /// A client pings no more. One that still lends segments, which another process of it may lend again, is waited for.
    pub(crate) fn leave(&mut self, from: ClientId) -> Result<(), ErrorCode> {
        if self.segments.of_client(from).is_empty() {
            self.bury(from);
        }
        Ok(())
    }

    pub(crate) fn mount(&mut self, from: ClientId, mount: &MountSegment<'_>) -> Reply {
        match self.try_to_mount(from, mount) {
            Ok(outcome) => Reply::Mounted(outcome),
            Err(code) => Reply::Done(Err(code)),
        }
    }

    /// Whether a mount could be taken at all.
    pub(crate) fn check_mount(&self, mount: &MountSegment<'_>) -> Result<(), ErrorCode> {
        let named = |text: &str| (1..=limits::MAX_NAME_BYTES).contains(&text.len());
        let lengths = limits::MIN_SEGMENT_BYTES..=limits::MAX_SEGMENT_BYTES;
        if !lengths.contains(&mount.len) || !named(mount.name) || !named(mount.endpoint) {
            return Err(ErrorCode::InvalidParams);
        }
        if mount.seen_epoch > self.epoch && !self.believes(mount.seen_epoch) {
            return Err(ErrorCode::InvalidVersion);
        }
        let is_known = self.segments.find(mount.id).is_some();
        if !is_known && self.segments.len() >= limits::MAX_SEGMENTS {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        Ok(())
    }

    fn try_to_mount(
        &mut self,
        from: ClientId,
        mount: &MountSegment<'_>,
    ) -> Result<MountOutcome, ErrorCode> {
        self.check_mount(mount)?;
        self.outrank(mount.seen_epoch);
        self.follow_process(from, mount)?;
        if let Some(slot) = self.segments.find(mount.id) {
            return self.mount_again(from, mount, slot);
        }
        let outcome = self.admit(mount);
        if outcome == MountOutcome::StartEmpty {
            self.strike_absent(mount.id);
            return Ok(outcome);
        }
        if !self.is_joined(mount.id) {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        let slot = self.segments.mount(Segment {
            id: mount.id,
            name: mount.name.into(),
            endpoint: mount.endpoint.into(),
            client: from,
            run: mount.run,
            closed: Reasons::default()
                .with(Closed::Recovering, true)
                .with(Closed::OutOfSight, !self.is_in_sight(from))
                .with(Closed::Behind, self.members.is_behind(mount.id) == Some(true)),
            recovering: None,
            place: NONE,
            evictable_from: Tick(u64::MAX),
            allocator: self.new_allocator(mount.len),
            owners: Vec::new(),
            queues: [Queue::default(); SEGMENT_QUEUES],
        });
        self.notify_joined(slot);
        if outcome == MountOutcome::WantsInventory {
            self.begin_inventory(slot);
            return Ok(self.wanted(slot));
        }
        self.end_inventory(slot);
        Ok(outcome)
    }

    /// Takes note of which of its processes a client is. What an earlier one lent ends with that, unless the next lends it
    /// too. An earlier one may still be heard after the next.
    fn follow_process(
        &mut self,
        from: ClientId,
        mount: &MountSegment<'_>,
    ) -> Result<(), ErrorCode> {
        let newest = self.clients.get(from).map_or(0, |client| client.run);
        if mount.run == 0 || mount.run == newest {
            return Ok(());
        }
        if mount.run < newest {
            if self.segments.find(mount.id).is_none() {
                self.strike_absent(mount.id);
            }
            return Err(ErrorCode::SegmentAlreadyExists);
        }
        self.clients.set_run(from, mount.run);
        for slot in self.segments.of_client(from) {
            let segment = &self.segments[slot];
            if segment.run < mount.run && segment.id != mount.id && !segment.is(Closed::Struck) {
                self.strike(slot);
            }
        }
        Ok(())
    }

    /// A mount of a segment that is mounted already: by its client, who may not know, or by another to whom the memory
    /// has passed.
    fn mount_again(
        &mut self,
        from: ClientId,
        mount: &MountSegment<'_>,
        slot: u32,
    ) -> Result<MountOutcome, ErrorCode> {
        let known = &self.segments[slot];
        if known.is(Closed::Struck) {
            return Ok(MountOutcome::StartEmpty);
        }
        if known.allocator.capacity() != mount.len || known.is(Closed::Leaving) {
            return Err(ErrorCode::SegmentAlreadyExists);
        }
        let has_passed = known.client != from || known.run != mount.run;
        let is_elsewhere = (&*known.name, &*known.endpoint) != (mount.name, mount.endpoint);
        if known.client != from {
            if !known.is(Closed::OutOfSight) {
                return Err(ErrorCode::SegmentAlreadyExists);
            }
            if mount.is_empty {
                return Ok(self.give_up_content(slot));
            }
            self.stop_replay(slot);
            self.segments.take_over(slot, mount, from);
            if self.is_in_sight(from) {
                self.segments.set(slot, Closed::OutOfSight, false);
            }
        } else if has_passed || is_elsewhere {
            // Its process was started again; with the memory of before, if anything lies there.
            if mount.is_empty {
                return Ok(self.give_up_content(slot));
            }
            self.stop_replay(slot);
            self.segments.take_over(slot, mount, from);
        }
        if has_passed {
            self.recovery.shadows.forget(mount.id);
            self.begin_review(slot);
        }
        match self.segments[slot].recovering {
            None => Ok(MountOutcome::Ready),
            Some(_) => Ok(self.wanted(slot)),
        }
    }

    /// What lay there is gone, whatever the master believes.
    fn give_up_content(&mut self, slot: u32) -> MountOutcome {
        self.strike(slot);
        MountOutcome::StartEmpty
    }

    pub(crate) fn new_allocator(&self, len: u64) -> Allocator {
        match self.config.allocator {
            AllocatorKind::Offset => Allocator::Offset(RangeAllocator::new(len)),
            AllocatorKind::Cachelib => Allocator::Cachelib(SlabAllocator::new(len)),
        }
    }

    pub(crate) fn unmount(
        &mut self,
        from: ClientId,
        id: SegmentId,
        grace_ms: u64,
    ) -> Result<(), ErrorCode> {
        let Some(slot) = self.segments.find(id) else {
            self.disowned.note(id);
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
        self.segments.set(slot, Closed::Leaving, true);
        self.timers.insert((self.now.after_ms(grace_ms), Timer::Grace(id)));
        self.drain_leaving(slot);
        Ok(())
    }

    /// The grace period of an unmount is over. The node should serve the segment no longer, but may be late: what lies there
    /// counts as lost once nobody has a route to it.
    pub(crate) fn grace_due(&mut self, id: SegmentId) {
        let unmounting = self.unmounting(id);
        let Some(slot) = unmounting.filter(|&slot| !self.segments[slot].is(Closed::Struck)) else {
            return;
        };
        self.segments.set(slot, Closed::Struck, true);
        let end = self.now.after_ms(self.config.lease_ttl_ms);
        self.timers.insert((end, Timer::Retired(id)));
    }

    pub(crate) fn retired_due(&mut self, id: SegmentId) {
        if let Some(slot) = self.unmounting(id) {
            self.strike(slot);
        }
    }

    /// A segment in its grace period, or after it. It may have gone and come back since.
    fn unmounting(&self, id: SegmentId) -> Option<u32> {
        self.segments.find(id).filter(|&slot| self.segments[slot].is(Closed::Leaving))
    }

    /// The content of a segment counts as lost from here on.
    pub(crate) fn leave_pool(&mut self, slot: u32) {
        self.notify_gone(slot);
        // What was granted and is not finished may be written there late, and nobody would know of it.
        let allocations = self.segments[slot].allocator.allocations() as u64;
        if self.tombstones.count(slot) > 0 || self.finished_ranges(slot) < allocations {
            self.disowned.note(self.segments[slot].id);
        }
        self.forget_pieces_on(slot);
        self.tombstones.forget(slot);
        self.reviews.forget(slot);
        self.segments.start_unmounting(slot);
    }

    /// A client has not been heard of for too long, and nobody has a route to its segments: once that is recorded, they
    /// are lost.
    pub(crate) fn bury(&mut self, client: ClientId) {
        self.clear_doubt(client);
        self.clients.forget(client);
        self.tasks.bereaved.insert(client);
        for slot in self.segments.of_client(client) {
            self.strike(slot);
        }
    }

    /// A segment was struck from the record.
    pub(crate) fn lose_struck(&mut self, id: SegmentId) {
        let known = self.segments.find(id);
        let Some(slot) = known.filter(|&slot| self.segments[slot].is(Closed::Struck)) else {
            return;
        };
        let (name, client) = (Arc::clone(&self.segments[slot].name), self.segments[slot].client);
        self.leave_pool(slot);
        // A process that came back under the same name before its predecessor was given up lives on.
        let is_expired =
            self.clients.get(client).is_none() && self.segments.named(&name).is_empty();
        if is_expired && self.expired_segments.len() < MAX_EXPIRED_SEGMENTS {
            self.expired_segments.push(name);
        }
    }

    /// Names of segments that went away because their clients were silent for too long, since this was last asked. A
    /// name under which another segment is mounted is not among them. At most 4096 are kept.
    pub fn take_expired_segments(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.expired_segments)
    }
}
