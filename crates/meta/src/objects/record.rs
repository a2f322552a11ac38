//! The two records that the master keeps for each object, sized to stay under 300 bytes together with key, index
//! and allocator node.

use mooncake_alloc::Handle;
use mooncake_types::{PutMode, Tick, Version, limits};

use super::class::{CLASSES, Class, Stamp};

/// One put, from its grant until the master has no more use for its ranges.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) key: Box<str>,
    pub(crate) version: Version,
    pub(crate) len: u64,
    /// While the put runs, when it [started](Object::started); afterwards, [the end of its last lease](Object::leased_until).
    pub(crate) time: Tick,
    /// Its first range; the others follow by [`Range::sibling`], replica by replica, in the order of the bytes.
    pub(crate) first_range: u32,
    /// The number of the client that started the put.
    pub(crate) writer: u32,
    /// The slot of its group, or [`NONE`](crate::slab::NONE).
    pub(crate) group: u32,
    pub(crate) state: ObjectState,
    pub(crate) pin: Pin,
    pub(crate) data_type: u8,
    pub(crate) asked: Asked,
}

impl Object {
    /// When its put started, while that runs.
    pub(crate) fn started(&self) -> Tick {
        self.time
    }

    /// The end of its last lease once its put has ended; before the first lease, the moment at which it became readable.
    pub(crate) fn leased_until(&self) -> Tick {
        self.time
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectState {
    /// Granted, not ended; it holds its key.
    Processing,
    /// Readable.
    Complete,
    /// An upsert, granted, not ended. Until it ends another object holds the key.
    Waiting,
    /// Granted, not ended, and a newer version of its key has become readable: it is dropped when it ends.
    Overtaken,
    /// Removed, or another version took its place, while it was leased; its ranges wait until its nodes have dropped it.
    Tombstone,
    /// Not an object of its own: the replicas that a task is making of one.
    Copying,
    /// Not an object yet: stripes that were reported and have not found all their neighbours.
    Gathering,
}

impl ObjectState {
    /// Whether the object is the one that the index has for its key.
    pub(super) fn holds_key(self) -> bool {
        matches!(self, ObjectState::Processing | ObjectState::Complete)
    }

    /// Whether its put has neither ended nor been given up.
    pub(crate) fn is_running(self) -> bool {
        matches!(self, ObjectState::Processing | ObjectState::Waiting | ObjectState::Overtaken)
    }
}

/// What else the put asked for, and what the object has less or more of; in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked(u8);

const REPLICAS: u8 = 0b1_1111;
const UPSERT: u8 = 1 << 5;
const SHORT: u8 = 1 << 6;
const EXTRAS: u8 = 1 << 7;

const _: () = assert!(limits::MAX_REPLICAS as u8 - 1 == REPLICAS);

impl Asked {
    /// A put of this many replicas, at least one.
    pub(crate) fn new(mode: PutMode, replicas: u32) -> Self {
        let upsert = if mode == PutMode::Upsert { UPSERT } else { 0 };
        Self(upsert).with_replicas(replicas)
    }

    pub(crate) fn mode(self) -> PutMode {
        match self.0 & UPSERT {
            0 => PutMode::Insert,
            _ => PutMode::Upsert,
        }
    }

    /// How many replicas there should be, from 1 on.
    pub(crate) fn replicas(self) -> u32 {
        u32::from(self.0 & REPLICAS) + 1
    }

    pub(super) fn with_replicas(self, replicas: u32) -> Self {
        let replicas = replicas.clamp(1, limits::MAX_REPLICAS);
        Self(self.0 & !REPLICAS | (replicas - 1) as u8)
    }

    /// Whether one replica was asked for, none is lacking and none is extra.
    pub(super) fn is_plain(self) -> bool {
        self.0 & !UPSERT == 0
    }

    /// Whether the object counts among those that lack replicas.
    pub(crate) fn is_short(self) -> bool {
        self.0 & SHORT != 0
    }

    pub(super) fn with_short(self, short: bool) -> Self {
        Self(self.0 & !SHORT | if short { SHORT } else { 0 })
    }

    /// Whether the object has replicas that nobody asked for.
    pub(super) fn has_extras(self) -> bool {
        self.0 & EXTRAS != 0
    }

    pub(super) fn with_extras(self, extras: bool) -> Self {
        Self(self.0 & !EXTRAS | if extras { EXTRAS } else { 0 })
    }
}

/// What the put asked for. A soft pin's deadline is kept apart, because few objects have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    None,
    Hard,
    Soft,
    /// An upsert that has not ended: it takes over what it will replace, or has none.
    Inherited,
}

/// A range of one replica on one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// Bytes of the object in this range; the allocator may have reserved a little more.
    pub(crate) len: u64,
    pub(crate) object: u32,
    /// Slot of the segment.
    pub(crate) segment: u32,
    pub(crate) handle: Handle,
    pub(crate) sibling: u32,
    pub(crate) prev: u32,
    pub(crate) next: u32,
    pub(crate) replica: u8,
    pub(crate) queue: QueueKind,
    /// What eviction goes by; the same in all ranges of a finished object.
    pub(crate) class: Class,
    /// When it joined its queue.
    pub(crate) stamp: Stamp,
}

/// The queue that a range stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    /// In no queue: the further ranges of a running put, and ranges of copies and of stripes that wait.
    Out,
    /// The first range of a running put, in the order of the starts.
    Processing,
    /// On its segment, evictable, not read since it was put or last pinned. Each class has a queue.
    Fresh,
    /// On its segment, read; in the order of the ends of the leases. Each class has a queue.
    Leased,
    /// As `Fresh`, soft-pinned.
    PinnedFresh,
    /// As `Leased`, soft-pinned.
    PinnedLeased,
    /// On its segment, hard-pinned: never evicted.
    Hard,
    /// On its segment, of a leased tombstone.
    Tombstone,
    /// On its segment, a replica that nobody asked for: evicted before all others.
    Extra,
    /// On its segment, of an object that goes to a disk first: evicted when it lies there.
    Sinking,
}

impl QueueKind {
    /// The place among a segment's queues of those of this kind and class.
    pub(super) fn on_segment(self, class: Class) -> Option<usize> {
        match self {
            QueueKind::Fresh => Some(class.index()),
            QueueKind::Leased => Some(CLASSES + class.index()),
            QueueKind::PinnedFresh => Some(PINNED_PLACES.start),
            QueueKind::PinnedLeased => Some(PINNED_PLACES.start + 1),
            QueueKind::Hard => Some(PINNED_PLACES.end),
            QueueKind::Tombstone => Some(TOMBSTONE_PLACE),
            QueueKind::Extra => Some(EXTRA_PLACE),
            QueueKind::Sinking => Some(SINKING_PLACE),
            QueueKind::Out | QueueKind::Processing => None,
        }
    }
}

/// The places of ranges without a pin, and of soft-pinned ones, which are evicted only if nothing else is left.
pub(crate) const PLAIN_PLACES: std::ops::Range<usize> = 0..2 * CLASSES;
pub(crate) const PINNED_PLACES: std::ops::Range<usize> = 2 * CLASSES..2 * CLASSES + 2;
/// The place of what was replaced.
pub(crate) const TOMBSTONE_PLACE: usize = PINNED_PLACES.end + 1;

/// The place of the replicas that nobody asked for.
pub(crate) const EXTRA_PLACE: usize = TOMBSTONE_PLACE + 1;

/// The place of what goes to a disk first.
pub(crate) const SINKING_PLACE: usize = EXTRA_PLACE + 1;

/// Queues that each segment has.
pub(crate) const SEGMENT_QUEUES: usize = SINKING_PLACE + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_fits_a_byte() {
        for mode in [PutMode::Insert, PutMode::Upsert] {
            for replicas in 1..=limits::MAX_REPLICAS {
                let asked = Asked::new(mode, replicas);
                let marked = asked.with_short(true).with_extras(true);
                assert_eq!((marked.mode(), marked.replicas()), (mode, replicas));
                assert_eq!((marked.is_short(), marked.has_extras()), (true, true));
                assert_eq!(marked.with_short(false).with_extras(false), asked);
                assert_eq!(asked.is_plain(), replicas == 1);
                assert_eq!(marked.with_replicas(0).replicas(), 1);
                assert!(!marked.with_replicas(1).is_plain());
            }
        }
    }

    #[test]
    fn records_keep_their_size() {
        assert_eq!(size_of::<Object>(), 64);
        assert_eq!(size_of::<Range>(), 40);
    }
}
