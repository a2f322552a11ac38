//! The two records that the master keeps for each object. Together with key, index and allocator node they take less
//! than 300 bytes.

use mooncake_alloc::Handle;
use mooncake_types::{PutMode, Tick, Version, limits};

use super::class::{CLASSES, Class, Stamp};

/// One put, from its grant until the master needs its ranges no more.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) key: Box<str>,
    pub(crate) version: Version,
    pub(crate) len: u64,
    /// While the put runs, when it [started](Object::started). Afterwards, [the end of its last
    /// lease](Object::leased_until).
    pub(crate) time: Tick,
    /// Its first range. The others follow through [`Range::sibling`], replica by replica, in the order of the bytes.
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
    /// When its put started, while the put runs.
    pub(crate) fn started(&self) -> Tick {
        self.time
    }

    /// The end of its last lease, once its put has ended; before the first lease, when it became readable.
    pub(crate) fn leased_until(&self) -> Tick {
        self.time
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectState {
    /// A put that has not ended and holds its key.
    Processing,
    /// A put that has ended. The object holds its key.
    Complete,
    /// A put that has not ended, while another object holds the key.
    Waiting,
    /// A put that has not ended, while a newer version of its key became readable. It is dropped when it ends.
    Overtaken,
    /// It was removed or replaced while it was leased. Its ranges stay until its nodes have dropped it or the lease
    /// is over.
    Tombstone,
    /// No object of its own: the replicas that a task is making of an object.
    Copying,
    /// No object yet: reported stripes that wait for their neighbours.
    Gathering,
}

impl ObjectState {
    /// Whether the index leads from the key to this object.
    pub(super) fn holds_key(self) -> bool {
        matches!(self, ObjectState::Processing | ObjectState::Complete)
    }

    /// Whether its put has neither ended nor been discarded.
    pub(crate) fn is_running(self) -> bool {
        matches!(self, ObjectState::Processing | ObjectState::Waiting | ObjectState::Overtaken)
    }
}

/// What else the put asked for, and whether the object lacks replicas or has extra ones; in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked(u8);

const REPLICAS: u8 = 0b1_1111;
const UPSERT: u8 = 1 << 5;
const SHORT: u8 = 1 << 6;
const EXTRAS: u8 = 1 << 7;

const _: () = assert!(limits::MAX_REPLICAS as u8 - 1 == REPLICAS);

impl Asked {
    /// A put that asks for this many replicas, at least one.
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

    /// How many replicas the object should have, at least 1.
    pub(crate) fn replicas(self) -> u32 {
        u32::from(self.0 & REPLICAS) + 1
    }

    pub(super) fn with_replicas(self, replicas: u32) -> Self {
        let replicas = replicas.clamp(1, limits::MAX_REPLICAS);
        Self(self.0 & !REPLICAS | (replicas - 1) as u8)
    }

    /// Whether one replica was asked for, and the object neither lacks one nor has an extra one.
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

    /// Whether the object has extra replicas.
    pub(super) fn has_extras(self) -> bool {
        self.0 & EXTRAS != 0
    }

    pub(super) fn with_extras(self, extras: bool) -> Self {
        Self(self.0 & !EXTRAS | if extras { EXTRAS } else { 0 })
    }
}

/// The pin that the put asked for. The deadlines of soft pins are kept apart, because few objects have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    None,
    Hard,
    Soft,
    /// A put that has not ended: it takes over the pin of the object that it replaces, if that has one.
    Inherited,
}

/// A range of one replica on one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// Bytes of the object in this range. The allocator may have reserved a few more.
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
    /// The class by which eviction chooses; the same in all ranges of an object.
    pub(crate) class: Class,
    /// When it joined its queue.
    pub(crate) stamp: Stamp,
}

/// The queue in which a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    /// No queue: further ranges of a running put, and ranges of copies and of stripes that wait.
    Out,
    /// The running puts, in the order of their starts; of each put the first range.
    Processing,
    /// Of its segment: evictable, and not read since its put or its soft pin. Each class has a queue.
    Fresh,
    /// Of its segment: read, in the order in which the leases end. Each class has a queue.
    Leased,
    /// As `Fresh`, for soft-pinned objects.
    PinnedFresh,
    /// As `Leased`, for soft-pinned objects.
    PinnedLeased,
    /// Of its segment: hard-pinned, so never evicted.
    Hard,
    /// Of its segment: a range of a leased tombstone.
    Tombstone,
    /// Of its segment: a range of an extra replica, evicted before all others.
    Extra,
    /// Of its segment: a range of an object that sinks, evicted once the object's copy to a disk has ended.
    Sinking,
}

impl QueueKind {
    /// The place of the queue of this kind and class among the queues of a segment.
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

/// The places of ranges without a pin. Those of soft-pinned ranges follow, which are evicted only if no others are
/// left.
pub(crate) const PLAIN_PLACES: std::ops::Range<usize> = 0..2 * CLASSES;
pub(crate) const PINNED_PLACES: std::ops::Range<usize> = 2 * CLASSES..2 * CLASSES + 2;
/// The place of leased tombstones.
pub(crate) const TOMBSTONE_PLACE: usize = PINNED_PLACES.end + 1;

/// The place of extra replicas.
pub(crate) const EXTRA_PLACE: usize = TOMBSTONE_PLACE + 1;

/// The place of objects that sink.
pub(crate) const SINKING_PLACE: usize = EXTRA_PLACE + 1;

/// Queues of each segment.
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
