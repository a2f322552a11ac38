//! Naming tombstones to clients, which have the entries dropped before they answer or read.

use std::collections::BTreeSet;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, Located, RemainingRange, Version, limits};

use super::{EntryId, Gathered};
use crate::Meta;
use crate::segments::{AddressTable, Closed};

impl Meta {
    /// Names the tombstones of the key with this hash, of versions below the one given if there is one. Segments that would start empty
    /// are left out; those whose nodes cannot be asked are marked so that they would.
    pub(crate) fn gather_tombstones(
        &mut self,
        hash: u64,
        below: Option<Version>,
        gathered: &mut Gathered,
    ) {
        if self.tombstones.len() == 0 || is_broken(Rule::RemovalsReachTheNodes) {
            return;
        }
        let is_older = |version: Version| below.is_none_or(|below| version < below);
        let of_key = self.tombstones.of_key(hash);
        let found: Vec<(u32, EntryId)> = of_key
            .filter(|&(slot, (_, version))| is_older(version) && !self.is_forgiven(slot))
            .collect();
        for (slot, place) in found {
            self.name_tombstone(slot, place, gathered);
        }
    }

    /// Names the tombstones of a key, of these versions, wherever they are.
    pub(super) fn gather_versions(
        &mut self,
        key: &str,
        versions: &BTreeSet<Version>,
        gathered: &mut Gathered,
    ) {
        let of_key = self.tombstones.of_key(self.index.hash(key));
        let found: Vec<_> = of_key.filter(|(_, (_, at))| versions.contains(at)).collect();
        for (slot, place) in found {
            self.name_tombstone(slot, place, gathered);
        }
    }

    /// Names an entry if it has a tombstone and must be waited for.
    pub(crate) fn name_tombstone(&mut self, slot: u32, place: EntryId, gathered: &mut Gathered) {
        if let Some(grant) = self.must_be_dropped(slot, place) {
            gathered.add(&self.segments, slot, place, grant);
        }
    }

    /// The newest grant that an entry can have been written under, if it has a tombstone and must be waited for.
    pub(super) fn must_be_dropped(&mut self, slot: u32, place: EntryId) -> Option<Version> {
        let entry = self.tombstones.get(slot, place)?;
        if self.segments[slot].is(Closed::OutOfSight) {
            self.leave_behind(slot);
        }
        (!self.is_forgiven(slot)).then_some(entry.grant)
    }

    /// An object can be read from now on: the tombstones of older versions precede it.
    pub(crate) fn note_predecessors(&mut self, object: u32) {
        if self.tombstones.len() == 0 {
            return;
        }
        let record = &self.objects[object];
        let hash = self.index.hash(&record.key);
        let mut of_key = self.tombstones.of_key(hash);
        if of_key.any(|(_, (_, version))| version < record.version) {
            drop(of_key);
            self.tombstones.preceding.insert(hash);
        }
    }

    /// Names what readers of these keys have dropped before they read. Of a key that has too much of it nothing can be read
    /// yet.
    pub(crate) fn gather_predecessors(
        &mut self,
        keys: &[&str],
        results: &mut [Result<Located, ErrorCode>],
        table: &mut AddressTable,
    ) -> Vec<(u32, RemainingRange)> {
        let mut ranges = Vec::new();
        // Where nobody keeps what may be read as L8 has it, readers would make up for it.
        let hides = is_broken(Rule::LeavingRangesAreReserved) || is_broken(Rule::ReadsGrantLeases);
        let may_be_left = is_broken(Rule::RemovalsReachTheNodes) || hides;
        if self.tombstones.preceding.is_empty() || may_be_left {
            return ranges;
        }
        for ((key, position), result) in keys.iter().zip(0..).zip(results) {
            let hash = self.index.hash(key);
            if result.is_err() || !self.tombstones.precedes(hash) {
                continue;
            }
            let Some(newest) = self.find(key).map(|object| self.objects[object].version) else {
                continue;
            };
            let of_key = self.tombstones.of_key(hash);
            let older: Vec<_> = of_key.filter(|(_, (_, version))| *version < newest).collect();
            let before = ranges.len();
            for (slot, place) in older {
                ranges.extend(self.must_be_dropped(slot, place).map(|grant| {
                    let ((offset, version), segment) =
                        (place, table.position(&self.segments, slot));
                    (position, RemainingRange { segment, offset, version, grant })
                }));
            }
            if ranges.len() > limits::MAX_PREDECESSORS {
                ranges.truncate(before);
                *result = Err(ErrorCode::ObjectReplicaBusy);
            }
        }
        ranges
    }
}
