//! Why puts are refused at the moment, as far as the segments show it.

use mooncake_types::Medium;

use crate::Meta;
use crate::objects::{PINNED_PLACES, PLAIN_PLACES};
use crate::segments::{Closed, Segment};
use crate::slab::NONE;

/// What stands in the way of a put that finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutObstacle {
    /// No node lends memory.
    NoMemory,
    /// No segment of memory takes puts.
    AllClosed(ClosedSegments),
    /// Objects that eviction chose are still being copied to disks.
    Sinking,
    /// Segments take puts, and their room is in use.
    InUse {
        /// Bytes reserved on segments that take puts.
        used: u64,
        /// Bytes of these segments.
        capacity: u64,
        /// What keeps eviction from making room there.
        kept: KeptRanges,
        /// Further segments of memory, which take no puts.
        closed: ClosedSegments,
    },
}

/// Segments of memory that take no puts, by the first reason that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosedSegments {
    /// Their nodes do not ping.
    pub out_of_sight: usize,
    /// The master cannot connect to their nodes.
    pub unreached: usize,
    /// Their nodes are reporting what they hold.
    pub recovering: usize,
    /// They are drained, or leave the pool.
    pub leaving: usize,
    /// Their nodes have to drop entries first.
    pub stale: usize,
}

/// Which ranges eviction does not take, as far as the first segments show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptRanges {
    /// There are queues whose first lease is in force.
    pub leased: bool,
    /// There are hard-pinned objects.
    pub hard_pinned: bool,
    /// There are soft-pinned objects, and these are never evicted.
    pub soft_pinned: bool,
    /// There are puts that have not ended.
    pub unfinished: bool,
}

/// Most segments that are searched for ranges that eviction does not take.
const MOST_SEARCHED: usize = 64;

impl Meta {
    /// What stands in the way of puts that find no room. Takes time in proportion to the number of segments.
    #[must_use]
    pub fn put_obstacle(&self) -> PutObstacle {
        let (mut closed, mut kept) = (ClosedSegments::default(), KeptRanges::default());
        let (mut open, mut used, mut capacity) = (0_usize, 0, 0);
        let all = self.segments.iter().map(|(_, segment)| segment);
        for segment in all.filter(|it| it.is_mounted() && it.medium == Medium::Memory) {
            if !segment.takes_puts() {
                closed.count(segment);
                continue;
            }
            open += 1;
            used += segment.allocator.used();
            capacity += segment.allocator.capacity();
            if open <= MOST_SEARCHED {
                self.note_kept(segment, &mut kept);
            }
        }
        kept.unfinished = self.running.len() > 0;
        match open {
            0 if closed == ClosedSegments::default() => PutObstacle::NoMemory,
            0 => PutObstacle::AllClosed(closed),
            _ if self.is_making_room() => PutObstacle::Sinking,
            _ => PutObstacle::InUse { used, capacity, kept, closed },
        }
    }

    fn note_kept(&self, segment: &Segment, kept: &mut KeptRanges) {
        let heads = |place: usize| {
            let heads = segment.lanes().map(move |lane| segment.queue(lane, place).head());
            heads.filter(|&head| head != NONE)
        };
        let is_used = |place: usize| heads(place).next().is_some();
        let is_leased = |place: usize| heads(place).any(|head| self.is_range_leased(head));
        kept.leased |= PLAIN_PLACES.chain(PINNED_PLACES).any(is_leased);
        kept.hard_pinned |= is_used(PINNED_PLACES.end);
        let mut soft_pinned = PINNED_PLACES;
        kept.soft_pinned |= !self.config.allow_evict_soft_pinned && soft_pinned.any(is_used);
    }
}

impl ClosedSegments {
    fn count(&mut self, segment: &Segment) {
        const LEAVING: [Closed; 4] =
            [Closed::Struck, Closed::GracePeriod, Closed::Draining, Closed::Drained];
        let counter = if segment.is(Closed::OutOfSight) {
            &mut self.out_of_sight
        } else if segment.is(Closed::Recovering) || segment.is(Closed::Reviewed) {
            &mut self.recovering
        } else if LEAVING.into_iter().any(|reason| segment.is(reason)) {
            &mut self.leaving
        } else if segment.is(Closed::Unreached) {
            &mut self.unreached
        } else {
            &mut self.stale
        };
        *counter += 1;
    }
}
