//! What is gone for the master while nodes may still hold it: versions that were removed or replaced under a lease.
//!
//! Their ranges stay reserved until the nodes have dropped them or the lease is over. A newer version of the key may be
//! named before that, but readers must find the older ones dropped first: the moment when the last of their replicas is
//! dropped is the moment at which the newer version takes their place.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{
    ErrorCode, Located, RangeDrop, RemainingRange, Remains, Reply, SegmentId, Tick, Version, limits,
};

use crate::Meta;
use crate::objects::{ObjectState, QueueKind, Range};
use crate::segments::{AddressTable, Closed, Segments};
use crate::timeout::Timer;

/// Most versions of one key that are leaving at a time.
pub(crate) const MOST_LEAVING: usize = 8;

/// The objects that are leaving.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// With the newest grant when each began to leave.
    by_version: BTreeMap<Version, (u32, Version)>,
    /// In the order of their versions.
    by_key: HashMap<Box<str>, Vec<u32>, FixedState>,
    /// Nothing is named as written under an older grant.
    named_from: Version,
}

impl Leaving {
    pub(crate) fn len(&self) -> usize {
        self.by_version.len()
    }

    /// The object of a version that is leaving.
    pub(crate) fn of_version(&self, version: Version) -> Option<u32> {
        Some(self.by_version.get(&version)?.0)
    }

    /// The oldest version that is leaving.
    pub(crate) fn oldest(&self) -> Option<Version> {
        self.by_version.first_key_value().map(|(&version, _)| version)
    }

    /// All that is leaving now is named by a leader with this newest grant.
    pub(crate) fn name_again(&mut self, grant: Version) {
        self.named_from = grant;
    }

    /// The newest grant when a version began to leave, or when it was to be named again.
    fn since(&self, version: Version) -> Option<Version> {
        Some(self.by_version.get(&version)?.1.max(self.named_from))
    }

    /// The versions of a key that are leaving, oldest first.
    pub(crate) fn of_key(&self, key: &str) -> &[u32] {
        if self.by_version.is_empty() {
            return &[];
        }
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }
}

/// Gathers what the nodes are to drop because of one request.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    ranges: Vec<RemainingRange>,
    /// What was leaving already and is gathered: a request may name its key many times.
    leaving: BTreeSet<Version>,
    table: AddressTable,
    until: Tick,
}

impl Gathered {
    /// Bytes that it takes in a reply.
    pub(crate) fn len_bytes(&self) -> usize {
        size_of_val(&*self.ranges)
    }

    /// Names an entry, which was written under this grant at the latest.
    pub(crate) fn add(
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
        let grant = self.leaving.since(record.version).unwrap_or(self.newest_grant());
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

    /// Names all that is leaving of a key.
    pub(crate) fn gather_leaving(&mut self, key: &str, gathered: &mut Gathered) {
        for object in self.leaving.of_key(key).to_vec() {
            self.gather_once(object, gathered);
        }
    }

    /// Names an object that is leaving, unless it was named already.
    pub(crate) fn gather_once(&mut self, object: u32, gathered: &mut Gathered) {
        if gathered.leaving.insert(self.objects[object].version) {
            self.gather(object, u32::MAX, gathered);
        }
    }

    /// Puts away a finished object that has just lost its key: for good, or until no reader can have a route to it.
    pub(crate) fn retire(&mut self, object: u32) {
        let stays = self.is_leased(object) && self.lives(object);
        let stays = stays && !is_broken(Rule::LeavingRangesAreReserved);
        self.forget_soft_pin(object);
        self.leave_group(object);
        self.forget_replacing(object);
        self.forget_replicas(object);
        let record = &mut self.objects[object];
        record.state = ObjectState::Replaced;
        let (version, key) = (record.version, record.key.clone());
        self.requeue(object, QueueKind::Replaced);
        self.timers.insert(self.replaced_timer(object));
        self.leaving.by_version.insert(version, (object, self.newest_grant()));
        let versions = self.leaving.by_key.entry(key).or_default();
        let objects = &self.objects;
        let place = versions.partition_point(|&other| objects[other].version < version);
        versions.insert(place, object);
        if !stays {
            self.drop_object(object);
        }
    }

    /// The timer of an object that is leaving: nobody can have a route to it once its lease is over.
    pub(crate) fn replaced_timer(&self, object: u32) -> (Tick, Timer) {
        (self.objects[object].touched, Timer::Replaced(object))
    }

    /// An object that was leaving has left.
    pub(crate) fn forget_replaced(&mut self, object: u32) {
        self.timers.remove(&self.replaced_timer(object));
        let record = &self.objects[object];
        self.leaving.by_version.remove(&record.version);
        let versions = self.leaving.by_key.get_mut(&record.key);
        let versions = versions.expect("what is leaving is kept by key");
        versions.retain(|&other| other != object);
        if versions.is_empty() {
            self.leaving.by_key.remove(&record.key);
        }
    }

    /// Where the replicas of an object lie that its nodes may yet drop, whether or not they are in sight.
    fn locate_leaving(&self, object: u32, table: &mut AddressTable) -> Located {
        let record = &self.objects[object];
        let dead = self.dead_replicas(object);
        let there = self.ranges_of(object).filter(|(_, range)| dead & 1 << range.replica == 0);
        let placements = there.map(|(_, range)| self.placement(range, table)).collect();
        Located { version: record.version, len: record.len, placements }
    }

    /// The nodes have dropped these. A version that is leaving has left once all of its ranges are among them.
    pub(crate) fn dropped(&mut self, dropped: &[RangeDrop]) -> Reply {
        self.forget_dropped(dropped);
        let mut gone: BTreeMap<(SegmentId, u64, Version), Version> = BTreeMap::new();
        for range in dropped {
            let grant = gone.entry((range.segment, range.offset, range.version)).or_default();
            *grant = range.grant.max(*grant);
        }
        let versions: BTreeSet<Version> = dropped.iter().map(|range| range.version).collect();
        let mut left = BTreeSet::new();
        for version in versions {
            let Some(object) = self.leaving.of_version(version) else { continue };
            let Some(since) = self.leaving.since(version) else { continue };
            let is_gone = |(_, range): (u32, &Range)| {
                let segment = &self.segments[range.segment];
                let offset = segment.allocator.range(range.handle).offset;
                let grant = gone.get(&(segment.id, offset, version));
                !segment.is_mounted() || grant.is_some_and(|&grant| grant >= since)
            };
            if self.ranges_of(object).all(is_gone) {
                self.drop_object(object);
                left.insert(version);
            }
        }
        for range in dropped {
            let Some(slot) = self.segments.find(range.segment) else { continue };
            let place = (range.offset, range.version);
            match left.contains(&range.version) {
                // What has just left needs no tombstone either.
                true => self.tombstones.remove(slot, place),
                false => self.tombstones.confirm(slot, place, range.grant, self.now),
            }
        }
        Reply::Done(Ok(()))
    }

    /// Puts the versions of a key that are leaving before the one that was found. Gives the moment from which on none of
    /// their routes may be used, if there are any.
    pub(crate) fn precede(
        &self,
        (position, key): (usize, &str),
        found: &mut Result<Located, ErrorCode>,
        (successors, table): (&mut Vec<(u32, Located)>, &mut AddressTable),
    ) -> Option<Tick> {
        let leaving = self.leaving.of_key(key);
        let newest = found.as_ref().ok().filter(|_| !leaving.is_empty())?.clone();
        if successors.len() + leaving.len() > limits::MAX_SUCCESSORS {
            *found = Err(ErrorCode::ObjectReplicaBusy);
            return None;
        }
        let older = leaving.iter().map(|&object| self.locate_leaving(object, table));
        let chain: Vec<Located> = older.filter(|it| !it.placements.is_empty()).collect();
        let mut chain = chain.into_iter().chain([newest]);
        *found = Ok(chain.next().expect("the newest is there"));
        successors.extend(chain.map(|located| (position as u32, located)));
        leaving.iter().map(|&object| self.objects[object].touched).min()
    }
}
