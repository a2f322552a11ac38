//! One segment.

use std::collections::BTreeMap;
use std::sync::Arc;

use mooncake_alloc::{Allocator, Handle, class_of};
use mooncake_types::{ClientId, Medium, SegmentAddress, SegmentId, SegmentState, Tick};

use super::closed::{Closed, Reasons};
use super::domains::DomainIds;
use super::free_room::Room;
use crate::objects::{PINNED_PLACES, PLAIN_PLACES, Queue, SEGMENT_QUEUES, Side, TOMBSTONE_PLACE};
use crate::slab::NONE;
use crate::tenants::{Lane, NO_LANE};

/// One mounted segment: its allocator, and its ranges in the order in which they would be evicted.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    pub(crate) name: Arc<str>,
    pub(crate) endpoint: Arc<str>,
    /// The host of its endpoint.
    pub(crate) host: Arc<str>,
    /// The failure domains in which it lies: its host, and the domains that its node named. Empty once it is
    /// unmounted.
    pub(crate) domains: DomainIds,
    pub(crate) client: ClientId,
    /// The process that lends it: see [`MountSegment::run`].
    pub(crate) run: u64,
    pub(crate) medium: Medium,
    /// Why it takes no puts: see [`Segments::set`].
    pub(crate) closed: Reasons,
    /// When its last grace period ends, if it had one.
    pub(super) grace_end: Tick,
    /// The progress of its node's inventory, while that runs.
    pub(crate) recovering: Option<ReportProgress>,
    /// Its place among the segments that take puts, or [`NONE`].
    pub(super) place: u32,
    /// Since when it takes puts, if it does.
    pub(super) granted_since: Tick,
    /// Nothing can be evicted here before this time.
    pub(crate) evictable_from: Tick,
    pub(crate) allocator: Allocator,
    /// Most bytes that may stay reserved before it evicts without waiting for a put.
    pub(super) most_quiet: u64,
    /// By number, the range record that each range of the allocator had last, or [`NONE`]. The record may belong to
    /// another range by now.
    pub(crate) owners: Vec<u32>,
    pub(crate) queues: [Queue; SEGMENT_QUEUES],
    /// The side on which eviction looks next, under a policy of [second chances](crate::eviction).
    pub(super) hand: Side,
    /// The lanes of tenants that have ranges in queues here. The others are in `queues`.
    pub(super) lanes: BTreeMap<u32, Box<Lane>>,
    /// Bytes reserved for objects that sink. They come free soon.
    pub(crate) sinking: u64,
}

/// The progress of an inventory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportProgress {
    pub(crate) next_page: u32,
    /// Where the last reported entry ends, in bytes.
    pub(crate) end: u64,
    /// Ranges that start before this offset were known when the inventory began. They are compared with it.
    pub(crate) known_to: u64,
}

impl Segment {
    /// Whether this reason against puts holds.
    pub(crate) fn is(&self, reason: Closed) -> bool {
        self.closed.has(reason)
    }

    /// The state that operators see.
    pub(crate) fn state(&self) -> SegmentState {
        self.closed.state()
    }

    /// Whether its bytes exist, in sight or not.
    pub(crate) fn is_mounted(&self) -> bool {
        !self.is(Closed::Unmounted)
    }

    /// Whether its bytes may be read.
    pub(crate) fn serves(&self) -> bool {
        self.is_mounted() && !self.is(Closed::OutOfSight) && !self.is(Closed::Struck)
    }

    /// Whether new objects may be put there.
    pub(crate) fn takes_puts(&self) -> bool {
        self.closed.is_empty()
    }

    /// Whether objects may be offloaded to it.
    pub(crate) fn takes_offloads(&self) -> bool {
        self.closed == Reasons::default().with(Closed::Disk, true)
    }

    /// The range record that a range of the allocator had last, if it had one. The record may belong to another range
    /// by now.
    pub(crate) fn owner(&self, handle: Handle) -> Option<u32> {
        self.owners.get(handle.number() as usize).copied().filter(|&id| id != NONE)
    }

    /// The lanes here, in a fixed order.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = u32> {
        std::iter::once(NO_LANE).chain(self.lanes.keys().copied())
    }

    /// The queue at a place of a lane. What eviction does not choose from is in no lane.
    pub(crate) fn queue(&self, lane: u32, place: usize) -> Queue {
        match lane == NO_LANE || place >= PINNED_PLACES.end {
            true => self.queues[place],
            false => self.lanes.get(&lane).map_or_else(Queue::default, |lane| lane.queues[place]),
        }
    }

    /// The side on which eviction looks next in a lane.
    pub(crate) fn hand(&self, lane: u32) -> Side {
        match lane {
            NO_LANE => self.hand,
            lane => self.lanes.get(&lane).map_or(self.hand, |lane| lane.hand),
        }
    }

    /// All queues with their lanes and places.
    pub(crate) fn all_queues(&self) -> impl Iterator<Item = (u32, usize, Queue)> {
        let numbered = |lane, queues: &[Queue]| {
            let queues: Vec<Queue> = queues.to_vec();
            queues.into_iter().enumerate().map(move |(place, queue)| (lane, place, queue))
        };
        let of_lanes = self.lanes.iter().flat_map(move |(&lane, it)| numbered(lane, &it.queues));
        numbered(NO_LANE, &self.queues).chain(of_lanes)
    }

    /// How many ranges of finished objects it holds.
    pub(crate) fn finished_ranges(&self) -> u64 {
        let counted = (0..SEGMENT_QUEUES).filter(|&place| place != TOMBSTONE_PLACE);
        let of_lanes = self.lanes.values().flat_map(|lane| &lane.queues);
        counted.map(|place| &self.queues[place]).chain(of_lanes).map(|it| u64::from(it.len())).sum()
    }

    /// Bytes that can be reserved before it is above the high watermark.
    pub(crate) fn bytes_below_mark(&self) -> u64 {
        self.most_quiet.saturating_sub(self.kept())
    }

    /// Most bytes that a range may have here, if the segment is to stay below the high watermark.
    pub(crate) fn range_below_mark(&self) -> u64 {
        let quiet = self.bytes_below_mark();
        match self.most_quiet == self.allocator.capacity() {
            true => u64::MAX,
            // A range may be a little longer than what was asked for.
            false => quiet - quiet / 32,
        }
    }

    /// Bytes that stay reserved once all objects that sink have sunk.
    pub(crate) fn kept(&self) -> u64 {
        self.allocator.used() - self.sinking
    }

    /// Reserved bytes, in thousandths of its length.
    pub(crate) fn used_permille(&self) -> u64 {
        let capacity = self.allocator.capacity().max(1);
        (u128::from(self.allocator.used()) * 1000 / u128::from(capacity)) as u64
    }

    /// Whether a smaller share of it is reserved than of `other`.
    pub(crate) fn is_emptier_than(&self, other: &Segment) -> bool {
        let (own, others) = (&self.allocator, &other.allocator);
        let product = |used: u64, capacity: u64| u128::from(used) * u128::from(capacity);
        product(own.used(), others.capacity()) < product(others.used(), own.capacity())
    }

    /// Whether a range of this length is free, and at most the share `most_used` of the segment is reserved with it.
    pub(crate) fn has_free_room(&self, len: u64, most_used: f64) -> bool {
        let used = self.allocator.used().saturating_add(len) as f64;
        used <= self.allocator.capacity() as f64 * most_used && self.allocator.largest_free() >= len
    }

    /// Bytes that it reserves for a range of this length.
    pub(crate) fn reserved_len(&self, len: u64) -> u64 {
        self.medium.reserved_len(len)
    }

    /// The least recently used range of the first queue that has any.
    pub(crate) fn oldest(&self) -> Option<u32> {
        let of_lanes = self.lanes.values().flat_map(|lane| &lane.queues[PLAIN_PLACES]);
        let mut heads = self.queues[PLAIN_PLACES].iter().chain(of_lanes).map(Queue::head);
        heads.find(|&head| head != NONE)
    }

    /// Loads what the eviction of a range and a put in its place will read. The result only keeps the compiler from
    /// removing the loads.
    pub(crate) fn fetch_ahead(&self, victim: Handle) -> u64 {
        let address = Arc::strong_count(&self.name) ^ Arc::strong_count(&self.endpoint);
        let free = self.allocator.largest_class();
        self.allocator.range(victim).offset ^ u64::from(free) ^ address as u64
    }

    pub(crate) fn room(&self) -> Room {
        let class = self.allocator.largest_class();
        Room {
            class,
            class_below_mark: class.min(class_of(self.bytes_below_mark())),
            capacity: self.allocator.capacity(),
            evictable_from: self.evictable_from,
        }
    }

    pub(super) fn address(&self) -> SegmentAddress {
        SegmentAddress {
            id: self.id,
            name: Arc::clone(&self.name),
            endpoint: Arc::clone(&self.endpoint),
            medium: self.medium,
        }
    }
}
