//! One segment.

use std::sync::Arc;

use mooncake_alloc::{Allocator, Handle};
use mooncake_types::{ClientId, Medium, SegmentAddress, SegmentId, SegmentState, Tick};

use super::closed::{Closed, Reasons};
use super::domains::DomainIds;
use super::free_room::Room;
use crate::objects::{PLAIN_PLACES, Queue, SEGMENT_QUEUES, Side, TOMBSTONE_PLACE};
use crate::slab::NONE;

/// One mounted segment: its allocator, and its replicas in the order in which they would be evicted.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    pub(crate) name: Arc<str>,
    pub(crate) endpoint: Arc<str>,
    /// The host of its endpoint.
    pub(crate) host: Arc<str>,
    /// What it shares with others that may fail at once: its host, and what its node named; nothing once it is unmounted.
    pub(crate) domains: DomainIds,
    pub(crate) client: ClientId,
    /// Which process lends it: see [`MountSegment::run`].
    pub(crate) run: u64,
    pub(crate) medium: Medium,
    /// Why it takes no puts: see [`Segments::set`].
    pub(crate) closed: Reasons,
    /// When its last grace period ends, if it had one.
    pub(super) grace_end: Tick,
    /// While its node tells what it holds: how far that is.
    pub(crate) recovering: Option<ReportProgress>,
    /// Its place among those that take puts, or [`NONE`].
    pub(super) place: u32,
    /// Since when it takes puts, if it does.
    pub(super) granted_since: Tick,
    /// Nothing can be evicted here before this moment.
    pub(crate) evictable_from: Tick,
    pub(crate) allocator: Allocator,
    /// The range record that each range of the allocator had last, by its number, or [`NONE`]. It may have another range by now.
    pub(crate) owners: Vec<u32>,
    pub(crate) queues: [Queue; SEGMENT_QUEUES],
    /// Where eviction looks next, under a policy of [second chances](crate::eviction).
    pub(crate) hand: Side,
    /// Bytes reserved for what goes to a disk first: they come free soon.
    pub(crate) sinking: u64,
}

/// How far an inventory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportProgress {
    pub(crate) next_page: u32,
    /// Where the last entry ends, in bytes.
    pub(crate) end: u64,
    /// What starts before this was known when the inventory began: it is compared.
    pub(crate) known_to: u64,
}

impl Segment {
    /// Whether a reason why it takes no puts holds.
    pub(crate) fn is(&self, reason: Closed) -> bool {
        self.closed.has(reason)
    }

    /// What operators are told.
    pub(crate) fn state(&self) -> SegmentState {
        self.closed.state()
    }

    /// Whether its bytes are there, in sight or not.
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

    /// The record that a range of the allocator had last, if it had one. It may have another range by now.
    pub(crate) fn owner(&self, handle: Handle) -> Option<u32> {
        self.owners.get(handle.number() as usize).copied().filter(|&id| id != NONE)
    }

    /// Ranges of finished objects.
    pub(crate) fn finished_ranges(&self) -> u64 {
        let counted = (0..SEGMENT_QUEUES).filter(|&place| place != TOMBSTONE_PLACE);
        counted.map(|place| u64::from(self.queues[place].len())).sum()
    }

    /// Bytes that stay reserved once what sinks has sunk.
    pub(crate) fn kept(&self) -> u64 {
        self.allocator.used() - self.sinking
    }

    /// Thousandths of it that are reserved.
    pub(crate) fn used_permille(&self) -> u64 {
        let capacity = self.allocator.capacity().max(1);
        (u128::from(self.allocator.used()) * 1000 / u128::from(capacity)) as u64
    }

    /// Whether a smaller share of it is reserved than of another.
    pub(crate) fn is_emptier_than(&self, other: &Segment) -> bool {
        let (own, others) = (&self.allocator, &other.allocator);
        let product = |used: u64, capacity: u64| u128::from(used) * u128::from(capacity);
        product(own.used(), others.capacity()) < product(others.used(), own.capacity())
    }

    /// Whether a range of this length is free, and no more than this share of the segment is reserved with it.
    pub(crate) fn has_free_room(&self, len: u64, most_used: f64) -> bool {
        let used = self.allocator.used().saturating_add(len) as f64;
        used <= self.allocator.capacity() as f64 * most_used && self.allocator.largest_free() >= len
    }

    /// Bytes that are reserved for a range of this length.
    pub(crate) fn reserved_len(&self, len: u64) -> u64 {
        self.medium.reserved_len(len)
    }

    /// The range that was used longest ago in the first queue that has any.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.queues[PLAIN_PLACES].iter().map(Queue::head).find(|&head| head != NONE)
    }

    /// Reads what the eviction of a range and a put in its place will read.
    pub(crate) fn fetch_ahead(&self, victim: Handle) -> u64 {
        let address = Arc::strong_count(&self.name) ^ Arc::strong_count(&self.endpoint);
        let free = self.allocator.largest_class();
        self.allocator.range(victim).offset ^ u64::from(free) ^ address as u64
    }

    pub(super) fn room(&self) -> Room {
        Room {
            class: self.allocator.largest_class(),
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
