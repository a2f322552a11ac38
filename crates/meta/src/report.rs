//! Answers to operators: segments, and single keys without a lease.

use std::sync::Arc;

use mooncake_types::{ClientId, Located, Medium, SegmentAddress, SegmentId, SegmentState, Tick};

use crate::Meta;
use crate::effort::RECORDS_PER_PAGE;
use crate::objects::{ObjectState, Pin};
use crate::segments::{AddressTable, Closed};
use crate::timer::Timer;

/// One mounted segment, as operators see it. Lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its id. A segment that was struck returns under another id.
    pub id: SegmentId,
    /// The name by which callers know it.
    pub name: Arc<str>,
    /// The address at which its node serves it, `host:port`.
    pub endpoint: Arc<str>,
    /// The failure domains that its node named, the nearest first.
    pub domains: Vec<Arc<str>>,
    /// The client that lends it.
    pub client: ClientId,
    /// The medium in which its bytes lie.
    pub medium: Medium,
    /// Whether it takes puts and serves gets, provided that it is in sight.
    pub state: SegmentState,
    /// Whether its client is in sight and the segment is not struck. If not, its bytes cannot be read.
    pub in_sight: bool,
    /// Whether the master can connect to its node at `endpoint`, as far as is known. If not, it takes no puts.
    pub is_reached: bool,
    /// Whether it is stale: it holds entries that its node has yet to drop, and takes no puts until then.
    pub behind: bool,
    /// Bytes reserved.
    pub used: u64,
    /// Bytes in all.
    pub capacity: u64,
    /// Ranges reserved.
    pub ranges: usize,
    /// Ranges of finished objects.
    pub objects: u64,
    /// Whether its client is out of sight.
    pub is_out_of_sight: bool,
    /// Whether its node is still reporting its entries.
    pub is_reporting: bool,
}

impl SegmentReport {
    /// The order of a list of segments: by name, and those of one name by id.
    #[must_use]
    pub fn by_name(one: &Self, other: &Self) -> std::cmp::Ordering {
        (&one.name, one.id).cmp(&(&other.name, other.id))
    }
}

/// One key, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport {
    /// Whether the put has ended.
    pub complete: bool,
    /// The type of the bytes, as the writer named it (the Python API's `ObjectDataType`).
    pub data_type: u8,
    /// Where its replicas lie.
    pub located: Located,
    /// The segments to which the placements point.
    pub segments: Vec<SegmentAddress>,
    /// How long its lease lasts yet, in milliseconds; zero if it has none.
    pub lease_ms: u64,
    /// Milliseconds since its last lease ended; if it had none, since it became readable.
    pub idle_ms: u64,
    /// Whether it is never evicted.
    pub hard_pin: bool,
    /// How long its soft pin lasts yet, in milliseconds; absent if none is in force.
    pub soft_pin_ms: Option<u64>,
    /// The name of its group, if it belongs to one.
    pub group: Option<String>,
}

/// What a leader waits for before it answers requests that change objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Members that have not reported all their entries.
    pub missing: usize,
    /// The first of these members.
    pub first_missing: Vec<SegmentId>,
    /// Mounted segments whose nodes are reporting their entries.
    pub telling: usize,
    /// Objects that the leader knows already.
    pub objects: usize,
    /// Milliseconds after which the leader stops waiting for missing members; absent if it waits for something else.
    pub at_most_ms: Option<u64>,
}

impl Meta {
    /// All mounted segments, in sight or not, in the order of their names.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentReport> {
        let mut reports: Vec<SegmentReport> = self.reports().collect();
        reports.sort_by(SegmentReport::by_name);
        reports
    }

    /// A page of mounted segments, in no order, and where the next page begins; the first begins at zero. So a shell
    /// can serve requests between two pages. A segment that is mounted meanwhile may be left out.
    #[must_use]
    pub fn segments_from(&self, from: u32) -> (Vec<SegmentReport>, Option<u32>) {
        let end = self.segments.end();
        let next = end.min(from.saturating_add(RECORDS_PER_PAGE));
        let reports = (from..next).filter_map(|slot| self.segment_report(slot)).collect();
        (reports, (next < end).then_some(next))
    }

    pub(crate) fn reports(&self) -> impl Iterator<Item = SegmentReport> {
        (0..self.segments.end()).filter_map(|slot| self.segment_report(slot))
    }

    fn segment_report(&self, slot: u32) -> Option<SegmentReport> {
        let segment = self.segments.get(slot).filter(|segment| segment.is_mounted())?;
        if self.is_leaving(slot) {
            return None;
        }
        Some(SegmentReport {
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
            objects: segment.finished_ranges(),
            is_out_of_sight: segment.is(Closed::OutOfSight),
            is_reporting: segment.recovering.is_some(),
        })
    }

    /// Number of mounted segments whose nodes are reporting their entries.
    #[must_use]
    pub fn reporting(&self) -> usize {
        self.segments.reporting()
    }

    /// How many clients are alive.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Whether the object of a key is finished and has replicas, none of which may be read now. Its nodes are out of
    /// sight, or it awaits the end of earlier leaders' routes.
    #[must_use]
    pub fn is_out_of_sight(&self, key: &str) -> bool {
        self.find(key).is_some_and(|object| self.lives(object) && !self.is_readable(object))
    }

    /// What a leader that does not serve yet waits for; none if it serves. At most `most` members are named.
    #[must_use]
    pub fn awaited(&self, most: usize) -> Option<Awaited> {
        if self.serves() {
            return None;
        }
        let is_wanted = |&&(_, timer): &&(Tick, Timer)| timer == Timer::FormerRoutesOver;
        let until = self.timers.iter().find(is_wanted).map(|&(due, _)| due.since_ms(self.now));
        let missing = self.recovery.missing();
        Some(Awaited {
            missing: missing.len(),
            first_missing: missing.take(most).collect(),
            telling: self.reporting(),
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
        let record = &self.objects[object];
        let complete = record.state == ObjectState::Complete;
        let until = record.leased_until();
        let mut table = AddressTable::default();
        let located = self.locate_but(object, self.unreadable_replicas(object), &mut table);
        Some(KeyReport {
            complete,
            data_type: record.data_type,
            located,
            segments: table.into_addresses(),
            lease_ms: until.since_ms(self.now),
            idle_ms: self.now.since_ms(until),
            hard_pin: record.pin == Pin::Hard,
            soft_pin_ms: self.soft_pins.end(object).map(|end| end.since_ms(self.now)),
            group: self.group_name(object).map(str::to_owned),
        })
    }
}
