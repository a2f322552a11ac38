//! Gathers the entries that nodes may hold of an object.

use super::DropList;
use crate::Meta;
use crate::segments::Closed;

impl Meta {
    /// Names the entries that nodes may hold of these replicas of an object, and the end of its lease.
    pub(crate) fn gather(&mut self, object: u32, replicas: u32, gathered: &mut DropList) {
        let record = &self.objects[object];
        let grant =
            self.tombstones.leased.since(record.version).unwrap_or(self.term.newest_grant());
        gathered.until = gathered.until.max(record.leased_until());
        let mut hidden = Vec::new();
        for (_, range) in self.ranges_of(object) {
            let segment = &self.segments[range.segment];
            if replicas & 1 << range.replica == 0 || !segment.is_mounted() {
                continue;
            }
            let place = (self.offset_of(range), record.version);
            gathered.add(&self.segments, range.segment, place, grant);
            if segment.is(Closed::OutOfSight) {
                hidden.push(range.segment);
            }
        }
        for slot in hidden {
            self.mark_behind(slot);
        }
    }

    /// Names the leased tombstones of a key.
    pub(crate) fn gather_leased(&mut self, key: &str, gathered: &mut DropList) {
        for object in self.tombstones.leased.of_key(key).to_vec() {
            self.gather_leased_once(object, gathered);
        }
    }

    /// Names a leased tombstone, unless it was named already.
    pub(super) fn gather_leased_once(&mut self, object: u32, gathered: &mut DropList) {
        if gathered.is_unnamed(self.objects[object].version) {
            self.gather(object, u32::MAX, gathered);
        }
    }
}
