//! Mounting: a client lends a segment, or a process takes over a segment that another one lent.

use std::collections::BTreeMap;

use mooncake_alloc::{Allocator, RangeAllocator, SlabAllocator};
use mooncake_types::{
    ClientId, ErrorCode, FailureDomains, Medium, MountOutcome, MountSegment, Reply, SegmentId,
    Tick, limits,
};

use super::closed::{Closed, Reasons};
use super::domains::{DomainIds, host_of};
use super::segment::Segment;
use crate::Meta;
use crate::config::AllocatorKind;
use crate::objects::{Queue, SEGMENT_QUEUES, Side};
use crate::slab::NONE;

impl Meta {
    pub(crate) fn mount(&mut self, from: ClientId, mount: &MountSegment<'_>) -> Reply {
        match self.try_to_mount(from, mount) {
            Ok(outcome) => Reply::Mounted(outcome),
            Err(code) => Reply::Done(Err(code)),
        }
    }

    /// Checks whether a mount can be accepted at all.
    pub(crate) fn check_mount(&self, mount: &MountSegment<'_>) -> Result<(), ErrorCode> {
        // Names stand in lines of logs and of terminals.
        let named = |text: &str| {
            (1..=limits::MAX_NAME_BYTES).contains(&text.len()) && !text.contains(char::is_control)
        };
        let longest = match mount.medium {
            Medium::Memory => limits::MAX_MEMORY_SEGMENT_BYTES,
            _ => limits::MAX_SEGMENT_BYTES,
        };
        let lengths = limits::MIN_SEGMENT_BYTES..=longest;
        if !lengths.contains(&mount.len) || !named(mount.name) || !named(mount.endpoint) {
            return Err(ErrorCode::InvalidParams);
        }
        FailureDomains::check(mount.domains).map_err(|_| ErrorCode::InvalidParams)?;
        if mount.seen_epoch > self.term.epoch() && !self.is_credible_epoch(mount.seen_epoch) {
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
        if self.awaits_others(mount.id) {
            // The client mounts its other segments meanwhile: this one may have to wait for one of them.
            self.recovery.note_heard(mount.id, self.now);
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        let is_of_next_process = mount.medium == Medium::Memory && mount.run > 1;
        let is_missing = self.recovery.is_missing(mount.id);
        if is_of_next_process && is_missing && !self.note_restarted(mount.id) {
            return Err(ErrorCode::ReplicaIsNotReady);
        }
        let outcome = self.admit_mount(mount);
        if outcome == MountOutcome::StartEmpty {
            self.strike_absent(mount.id);
            return Ok(outcome);
        }
        if !self.is_joined(mount.id, mount.medium) {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        let segment = self.new_segment(from, mount);
        let slot = self.segments.mount(segment, mount.domains);
        self.notify_joined(slot);
        if outcome == MountOutcome::WantsInventory {
            self.begin_inventory(slot);
            return Ok(self.wanted(slot));
        }
        self.end_inventory(slot);
        Ok(outcome)
    }

    fn new_segment(&self, from: ClientId, mount: &MountSegment<'_>) -> Segment {
        Segment {
            id: mount.id,
            name: mount.name.into(),
            endpoint: mount.endpoint.into(),
            host: host_of(mount.endpoint).into(),
            domains: DomainIds::new(),
            client: from,
            run: mount.run,
            medium: mount.medium,
            closed: Reasons::default()
                .with(Closed::Recovering, true)
                .with(Closed::Disk, mount.medium != Medium::Memory)
                .with(Closed::OutOfSight, !self.is_in_sight(from))
                .with(Closed::Behind, self.is_or_gets_behind(mount.id)),
            grace_end: Tick::ZERO,
            recovering: None,
            most_quiet: 0,
            place: NONE,
            granted_since: Tick::ZERO,
            evictable_from: Tick(u64::MAX),
            allocator: self.new_allocator(mount.len),
            owners: Vec::new(),
            queues: [Queue::default(); SEGMENT_QUEUES],
            hand: Side::First,
            lanes: BTreeMap::new(),
            sinking: 0,
        }
    }

    fn is_or_gets_behind(&self, id: SegmentId) -> bool {
        self.members.is_behind(id) == Some(true) || self.members.is_marking(id)
    }

    /// Notes the client's newest process, and refuses mounts of earlier processes, which may still arrive. Strikes
    /// the segments of the same medium that earlier processes lent, except the one that is mounted now. Of each
    /// medium a process lends at most one segment that outlives it, and mounts that first.
    fn follow_process(
        &mut self,
        from: ClientId,
        mount: &MountSegment<'_>,
    ) -> Result<(), ErrorCode> {
        let newest = self.clients.get(from).map_or(0, |client| client.run);
        if mount.run == 0 {
            return Ok(());
        }
        if mount.run < newest {
            if self.segments.find(mount.id).is_none() {
                self.strike_absent(mount.id);
            }
            return Err(ErrorCode::SegmentAlreadyExists);
        }
        self.clients.set_run(from, mount.run, self.now);
        self.strike_where(from, |segment| {
            let is_older = segment.run < mount.run && segment.medium == mount.medium;
            is_older && segment.id != mount.id && !segment.is(Closed::Struck)
        });
        Ok(())
    }

    /// Handles a mount of a segment that is mounted already. Its client may not know that, or the memory has passed
    /// to another process.
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
        if known.allocator.capacity() != mount.len || known.is(Closed::GracePeriod) {
            return Err(ErrorCode::SegmentAlreadyExists);
        }
        let has_passed = known.client != from || known.run != mount.run;
        let is_elsewhere = (&*known.name, &*known.endpoint) != (mount.name, mount.endpoint);
        let is_anothers = known.client != from;
        if is_anothers && !known.is(Closed::OutOfSight) {
            return Err(ErrorCode::SegmentAlreadyExists);
        }
        if !has_passed && !is_elsewhere {
            self.segments.set_domains(slot, mount.domains);
        } else if mount.is_empty {
            // The memory is empty now, whatever the master has recorded.
            self.strike(slot);
            return Ok(MountOutcome::StartEmpty);
        } else {
            self.stop_replay(slot);
            self.segments.take_over(slot, mount, from);
        }
        if is_anothers && self.is_in_sight(from) {
            self.segments.set(slot, Closed::OutOfSight, false);
        }
        if has_passed {
            self.note_restarted(mount.id);
            self.recovery.forget_shadow(mount.id);
            self.begin_review(slot);
        }
        match self.segments[slot].recovering {
            None => Ok(MountOutcome::Ready),
            Some(_) => Ok(self.wanted(slot)),
        }
    }

    fn new_allocator(&self, len: u64) -> Allocator {
        match self.config.allocator {
            AllocatorKind::Offset => Allocator::Offset(RangeAllocator::new(len)),
            AllocatorKind::Cachelib => Allocator::Cachelib(SlabAllocator::new(len)),
        }
    }
}
