//! Names tombstones to clients. A client has nodes drop the entries before it answers its caller or reads.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{Epoch, ErrorCode, Located, RemainingRange, Seal, Tick, Version, limits};

use super::{DropList, EntryId};
use crate::Meta;
use crate::segments::{AddressTable, Closed};

/// Newer than every version.
const NEWER_THAN_ALL: Version = Version { epoch: Epoch(u64::MAX), counter: u64::MAX };

impl Meta {
    /// Names the tombstones of keys with this hash, below a version if one is given. Skips those that this request
    /// named already.
    ///
    /// Segments that are marked behind are left out if later leaders know that, and segments out of sight are marked
    /// behind.
    pub(crate) fn gather_tombstones(
        &mut self,
        hash: u64,
        below: Option<Version>,
        gathered: &mut DropList,
    ) {
        if self.tombstones.len() == 0 || is_broken(Rule::RemovalsReachTheNodes) {
            return;
        }
        // Most keys have no tombstones, and need no record in `gathered`.
        if self.tombstones.of_key(hash).next().is_none() {
            return;
        }
        let below = below.unwrap_or(NEWER_THAN_ALL);
        let Some(unnamed) = gathered.unnamed_below(hash, below) else { return };
        self.name_tombstones(hash, |version| unnamed.contains(&version), gathered);
    }

    /// Names the tombstones of keys with this hash whose versions are wanted.
    pub(super) fn name_tombstones(
        &mut self,
        hash: u64,
        is_wanted: impl Fn(Version) -> bool,
        gathered: &mut DropList,
    ) {
        let of_key = self.tombstones.of_key(hash);
        let found: Vec<(u32, EntryId)> =
            of_key.filter(|&(_, (_, version))| is_wanted(version)).collect();
        for (slot, place) in found {
            self.name_tombstone(slot, place, gathered);
        }
    }

    /// Names an entry if it has a tombstone and its drop must be waited for.
    pub(crate) fn name_tombstone(&mut self, slot: u32, place: EntryId, gathered: &mut DropList) {
        if let Some(grant) = self.must_be_dropped(slot, place) {
            gathered.add(&self.segments, slot, place, grant);
        }
    }

    /// The newest grant under which an entry can have been written. `None` if it has no tombstone, or if its drop need
    /// not be waited for. Marks a segment out of sight behind.
    pub(super) fn must_be_dropped(&mut self, slot: u32, place: EntryId) -> Option<Version> {
        let entry = self.tombstones.get(slot, place)?;
        if self.segments[slot].is(Closed::OutOfSight) {
            self.mark_behind(slot);
        }
        let is_forgiven = self.is_forgiven(slot) && self.is_tombstone_told(slot, place, entry.hash);
        (!is_forgiven).then_some(entry.grant)
    }

    /// Notes that readers of an object must first have the tombstones of older versions dropped, if there are any.
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

    /// Names the older versions of these keys, which the client has nodes drop before it reads. A key with too many of
    /// them cannot be read yet.
    pub(crate) fn gather_predecessors(
        &mut self,
        keys: &[&str],
        results: &mut [Result<Located, ErrorCode>],
        table: &mut AddressTable,
    ) -> Vec<(u32, RemainingRange)> {
        let mut ranges = Vec::new();
        // A test that breaks these rules must find the fault. Naming predecessors would hide it.
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
                    let seal = Seal::NONE;
                    (position, RemainingRange { segment, offset, version, grant, seal })
                }));
            }
            if ranges.len() > limits::MAX_PREDECESSORS {
                ranges.truncate(before);
                *result = Err(ErrorCode::ObjectReplicaBusy);
            }
        }
        ranges
    }

    /// Puts the leased tombstones of a key before the version that was found. Returns the end of the first of their
    /// leases, if there are any.
    pub(crate) fn precede(
        &self,
        (position, key): (usize, &str),
        found: &mut Result<Located, ErrorCode>,
        (successors, table): (&mut Vec<(u32, Located)>, &mut AddressTable),
    ) -> Option<Tick> {
        let leased = self.tombstones.leased.of_key(key);
        let newest = found.as_ref().ok().filter(|_| !leased.is_empty())?.clone();
        if successors.len() + leased.len() > limits::MAX_SUCCESSORS {
            *found = Err(ErrorCode::ObjectReplicaBusy);
            return None;
        }
        let older = leased.iter().map(|&object| self.locate_leased(object, table));
        let chain: Vec<Located> = older.filter(|it| !it.placements.is_empty()).collect();
        let mut chain = chain.into_iter().chain([newest]);
        *found = Ok(chain.next().expect("the newest is there"));
        successors.extend(chain.map(|located| (position as u32, located)));
        leased.iter().map(|&object| self.objects[object].leased_until()).min()
    }

    /// The placements of an object's replicas that nodes may still hold, whether or not they are in sight.
    fn locate_leased(&self, object: u32, table: &mut AddressTable) -> Located {
        let record = &self.objects[object];
        let dead = self.dead_replicas(object);
        let there = self.ranges_of(object).filter(|(_, range)| dead & 1 << range.replica == 0);
        let placements = there.map(|(_, range)| self.placement(range, table)).collect();
        Located { version: record.version, len: record.len, placements }
    }
}
