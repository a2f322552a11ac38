//! What the nodes are to drop because of one request.

use std::collections::BTreeSet;

use mooncake_types::{ErrorCode, RemainingRange, Remains, Reply, Tick, Version};

use crate::Meta;
use crate::segments::{AddressTable, Closed, Segments};

/// Gathers what the nodes are to drop because of one request.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    ranges: Vec<RemainingRange>,
    /// Leased tombstones that are gathered: a request may name its key many times.
    leased: BTreeSet<Version>,
    table: AddressTable,
    until: Tick,
}

impl Gathered {
    /// Bytes that it takes in a reply.
    pub(crate) fn len_bytes(&self) -> usize {
        size_of_val(&*self.ranges)
    }

    /// Names an entry, which was written under this grant at the latest.
    pub(super) fn add(
        &mut self,
        segments: &Segments,
        slot: u32,
        (offset, version): (u64, Version),
        grant: Version,
    ) {
        let segment = self.table.position(segments, slot);
        self.ranges.push(RemainingRange { segment, offset, version, grant });
    }

    pub(crate) fn into_remains(mut self, now: Tick) -> Remains {
        self.ranges.sort_unstable_by_key(|range| (range.version, range.segment, range.offset));
        self.ranges.dedup();
        let (ranges, segments) = (self.ranges, self.table.into_addresses());
        Remains { ranges, segments, lease_ms: self.until.since_ms(now) }
    }

    /// The reply to a request with these results.
    pub(crate) fn into_reply(self, now: Tick, results: Vec<Result<(), ErrorCode>>) -> Reply {
        match self.ranges.is_empty() {
            true => Reply::Statuses(results),
            false => Reply::Remaining { results, remains: self.into_remains(now) },
        }
    }
}

impl Meta {
    /// Names what a node may hold of an object, and the end of the lease on it.
    pub(crate) fn gather(&mut self, object: u32, replicas: u32, gathered: &mut Gathered) {
        let record = &self.objects[object];
        let grant =
            self.tombstones.leased.since(record.version).unwrap_or(self.term.newest_grant());
        gathered.until = gathered.until.max(record.touched);
        let mut hidden = Vec::new();
        for (_, range) in self.ranges_of(object) {
            let segment = &self.segments[range.segment];
            if replicas & 1 << range.replica == 0 || !segment.is_mounted() {
                continue;
            }
            let offset = segment.allocator.range(range.handle).offset;
            gathered.add(&self.segments, range.segment, (offset, record.version), grant);
            if segment.is(Closed::OutOfSight) {
                hidden.push(range.segment);
            }
        }
        for slot in hidden {
            self.leave_behind(slot);
        }
    }

    /// Names the leased tombstones of a key.
    pub(crate) fn gather_leased(&mut self, key: &str, gathered: &mut Gathered) {
        for object in self.tombstones.leased.of_key(key).to_vec() {
            self.gather_leased_once(object, gathered);
        }
    }

    /// Names a leased tombstone, unless it was named already.
    pub(super) fn gather_leased_once(&mut self, object: u32, gathered: &mut Gathered) {
        if gathered.leased.insert(self.objects[object].version) {
            self.gather(object, u32::MAX, gathered);
        }
    }
}
