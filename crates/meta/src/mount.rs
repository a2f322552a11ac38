//! Clients and the segments that they lend: heartbeats, mounting, unmounting.

use std::sync::Arc;

use mooncake_alloc::{Allocator, RangeAllocator, SlabAllocator};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, MountSegment, Pong, Reply, SegmentId, SegmentState, limits,
};

use crate::Meta;
use crate::config::AllocatorKind;
use crate::queue::Queue;
use crate::record::SEGMENT_QUEUES;
use crate::segments::Segment;
use crate::timeout::Timer;

/// Epochs are milliseconds of wall time, or a little more: none that is honest comes near this one.
const HIGHEST_EPOCH: Epoch = Epoch(1 << 62);

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

    pub(crate) fn ping(
        &mut self,
        from: ClientId,
        hosted: &[SegmentId],
        unreachable: &[SegmentId],
    ) -> Reply {
        self.see(from);
        self.doubt(unreachable);
        let lent = |id: &SegmentId| {
            self.segments.find(*id).is_some_and(|slot| self.segments[slot].client == from)
        };
        Reply::Pong(Pong {
            need_remount: !hosted.iter().all(lent),
            epoch: self.epoch,
            has_tasks: self.tasks.next_pending(from, 0).is_some(),
            has_drops: false,
            client_ttl_ms: self.config.client_ttl_ms,
        })
    }

    pub(crate) fn mount(
        &mut self,
        from: ClientId,
        mount: &MountSegment<'_>,
    ) -> Result<(), ErrorCode> {
        let named = |text: &str| (1..=limits::MAX_NAME_BYTES).contains(&text.len());
        let lengths = limits::MIN_SEGMENT_BYTES..=limits::MAX_SEGMENT_BYTES;
        if !lengths.contains(&mount.len) || !named(mount.name) || !named(mount.endpoint) {
            return Err(ErrorCode::InvalidParams);
        }
        self.outrank(mount.seen_epoch)?;
        if let Some(slot) = self.segments.find(mount.id) {
            let known = &self.segments[slot];
            let same = known.client == from
                && known.allocator.capacity() == mount.len
                && known.state == SegmentState::Ok;
            return if same { Ok(()) } else { Err(ErrorCode::SegmentAlreadyExists) };
        }
        if self.segments.len() >= limits::MAX_SEGMENTS {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        let allocator = match self.config.allocator {
            AllocatorKind::Offset => Allocator::Offset(RangeAllocator::new(mount.len)),
            AllocatorKind::Cachelib => Allocator::Cachelib(SlabAllocator::new(mount.len)),
        };
        self.segments.mount(Segment {
            id: mount.id,
            name: mount.name.into(),
            endpoint: mount.endpoint.into(),
            client: from,
            state: SegmentState::Ok,
            in_sight: self.clients.get(from).is_none_or(|client| client.in_sight),
            allocator,
            queues: [Queue::default(); SEGMENT_QUEUES],
        });
        Ok(())
    }

    /// Leads under a higher epoch than any that a node has obeyed: it would refuse this leader's grants.
    fn outrank(&mut self, seen: Epoch) -> Result<(), ErrorCode> {
        if seen >= HIGHEST_EPOCH {
            return Err(ErrorCode::InvalidVersion);
        }
        if seen > self.epoch {
            self.epoch = Epoch(seen.0 + 1);
        }
        Ok(())
    }

    pub(crate) fn unmount(
        &mut self,
        from: ClientId,
        id: SegmentId,
        grace_ms: u64,
    ) -> Result<(), ErrorCode> {
        let slot = self.segments.find(id).ok_or(ErrorCode::SegmentNotFound)?;
        if self.segments[slot].client != from {
            return Err(ErrorCode::IllegalClient);
        }
        if grace_ms == 0 {
            self.segments.start_unmounting(slot);
            return Ok(());
        }
        self.segments.stop_granting(slot);
        self.segments[slot].state = SegmentState::GracefullyUnmounting;
        self.timers.insert((self.now.after_ms(grace_ms), Timer::Grace(id)));
        Ok(())
    }

    /// A client has not been heard of for too long, and nobody has a route to its segments: they are lost.
    pub(crate) fn bury(&mut self, client: ClientId) {
        for slot in self.segments.of_client(client) {
            let name = Arc::clone(&self.segments[slot].name);
            self.segments.start_unmounting(slot);
            // A process that came back under the same name before its predecessor was given up lives on.
            if self.segments.named(&name).is_empty()
                && self.expired_segments.len() < MAX_EXPIRED_SEGMENTS
            {
                self.expired_segments.push(name);
            }
        }
        self.clear_doubt(client);
        self.clients.forget(client);
        self.tasks.bereaved.insert(client);
    }

    /// Names of segments that went away because their clients were silent for too long, since this was last asked. A
    /// name under which another segment is mounted is not among them. At most 4096 are kept.
    pub fn take_expired_segments(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.expired_segments)
    }
}
