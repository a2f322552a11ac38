//! What operators ask: segments, and single keys without a lease.

use std::sync::Arc;

use mooncake_types::{ClientId, Located, Medium, SegmentAddress, SegmentId, SegmentState, Tick};

use crate::Meta;
use crate::objects::ObjectState;
use crate::segments::{AddressTable, Closed};
use crate::timer::Timer;

/// One mounted segment, as operators see it. Lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its incarnation.
    pub id: SegmentId,
    /// The name that callers know it by.
    pub name: Arc<str>,
    /// Where its node serves, `host:port`.
    pub endpoint: Arc<str>,
    /// The failure domains that its node named, the nearest first.
    pub domains: Vec<Arc<str>>,
    /// The client that lends it.
    pub client: ClientId,
    /// What its bytes lie in.
    pub medium: Medium,
    /// Whether it takes puts and serves gets, while it is in sight.
    pub state: SegmentState,
    /// Whether its node is heard of; if not, its bytes cannot be read until it is.
    pub in_sight: bool,
    /// Whether its node can be connected to where it says that it serves, as far as is known; if not, it takes no puts.
    pub is_reached: bool,
    /// Whether it holds entries that its node has yet to drop, and takes no puts until then.
    pub behind: bool,
    /// Bytes reserved.
    pub used: u64,
    /// Bytes in all.
    pub capacity: u64,
    /// Ranges reserved.
    pub ranges: usize,
}

/// One key, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport {
    /// Whether the put has ended.
    pub complete: bool,
    /// What the writer said the bytes are (the Python API's `ObjectDataType`).
    pub data_type: u8,
    /// Where it lies.
    pub located: Located,
    /// The segments that the placements point into.
    pub segments: Vec<SegmentAddress>,
}

/// What a leader waits for before it takes puts and removals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Recorded segments that have not told all that they hold.
    pub missing: usize,
    /// Some of them.
    pub first_missing: Vec<SegmentId>,
    /// Segments that are telling what they hold.
    pub telling: usize,
    /// Objects that are known already.
    pub objects: usize,
    /// After this many milliseconds it waits for those no longer that have not come; absent if it waits for something else.
    pub at_most_ms: Option<u64>,
}

impl Meta {
    /// All segments that serve gets, or would if they were in sight, in the order of their names.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentReport> {
        let mounted = self.segments.iter().filter(|(_, segment)| segment.is_mounted());
        let mut reports: Vec<SegmentReport> = mounted
            .map(|(slot, segment)| SegmentReport {
                id: segment.id,
                name: Arc::clone(&segment.name),
                endpoint: Arc::clone(&segment.endpoint),
                domains: self.segments.named_domains(slot),
                client: segment.client,
                medium: segment.medium,
                state: segment.state(),
                in_sight: !segment.is(Closed::OutOfSight) && !segment.is(Closed::Struck),
                is_reached: !segment.is(Closed::Unreached),
                behind: segment.is(Closed::Behind),
                used: segment.allocator.used(),
                capacity: segment.allocator.capacity(),
                ranges: segment.allocator.allocations(),
            })
            .collect();
        reports.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        reports
    }

    /// Living clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Whether a key is that of a finished object that nobody can read as long as its nodes are out of sight.
    #[must_use]
    pub fn is_out_of_sight(&self, key: &str) -> bool {
        self.find(key).is_some_and(|object| self.lives(object) && !self.is_readable(object))
    }

    /// What a leader that does not serve yet waits for; nothing if it serves. At most `most` segments are named.
    #[must_use]
    pub fn awaited(&self, most: usize) -> Option<Awaited> {
        if self.serves() {
            return None;
        }
        let is_wanted = |&&(_, timer): &&(Tick, Timer)| timer == Timer::FormerRoutesOver;
        let until = self.timers.iter().find(is_wanted).map(|&(due, _)| due.since_ms(self.now));
        let missing = self.recovery.missing();
        let telling = self.segments.iter().filter(|(_, segment)| segment.recovering.is_some());
        Some(Awaited {
            missing: missing.len(),
            first_missing: missing.take(most).collect(),
            telling: telling.count(),
            objects: self.index.len(),
            at_most_ms: until,
        })
    }

    /// Looks at a key without granting a lease.
    #[must_use]
    pub fn peek(&self, key: &str) -> Option<KeyReport> {
        let mut object = self.find(key)?;
        if self.objects[object].state == ObjectState::Complete && !self.is_readable(object) {
            object = self.next_holder(key)?;
        }
        let complete = self.objects[object].state == ObjectState::Complete;
        let mut table = AddressTable::default();
        let located = self.locate_but(object, self.unreadable_replicas(object), &mut table);
        Some(KeyReport {
            complete,
            data_type: self.objects[object].data_type,
            located,
            segments: table.into_addresses(),
        })
    }
}
