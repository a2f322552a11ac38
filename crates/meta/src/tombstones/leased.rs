//! Leased tombstones: versions that were removed or replaced while readers could have routes to them.
//!
//! Their ranges stay reserved until the nodes have dropped them or the lease is over. A newer version of the key may be
//! named before that, but readers must find the older ones dropped first: the moment when the last of their replicas is
//! dropped is the moment at which the newer version takes their place.
//!
//! So a leased tombstone keeps the whole record of its object. Look-ups name its replicas with their placements, a node that
//! was started again tells of them, and a new leader finds further ones. An entry of the other tables knows a place, a
//! version and the hash of a key: not enough for these three. When the lease is over, or all is dropped, the record goes, and
//! what nodes may still hold of it becomes [entries](super) like any other.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, Located, RangeDrop, Reply, SegmentId, Tick, Version, limits};

use crate::Meta;
use crate::objects::Range;
use crate::segments::AddressTable;
use crate::timeout::Timer;

/// Most leased tombstones of one key.
pub(crate) const MOST_LEASED: usize = 8;

/// All leased tombstones.
#[derive(Debug, Default)]
pub(crate) struct Leased {
    /// With the newest grant when each became one.
    by_version: BTreeMap<Version, (u32, Version)>,
    /// In the order of their versions.
    by_key: HashMap<Box<str>, Vec<u32>, FixedState>,
    /// Nothing is named as written under an older grant.
    named_from: Version,
}

impl Leased {
    pub(crate) fn len(&self) -> usize {
        self.by_version.len()
    }

    /// The object of a version, if that is one.
    pub(crate) fn of_version(&self, version: Version) -> Option<u32> {
        Some(self.by_version.get(&version)?.0)
    }

    /// The oldest version.
    pub(crate) fn oldest(&self) -> Option<Version> {
        self.by_version.first_key_value().map(|(&version, _)| version)
    }

    /// All that there are now are named by a leader with this newest grant.
    pub(super) fn name_again(&mut self, grant: Version) {
        self.named_from = grant;
    }

    /// The newest grant when a version became one, or when it was to be named again.
    pub(super) fn since(&self, version: Version) -> Option<Version> {
        Some(self.by_version.get(&version)?.1.max(self.named_from))
    }

    /// Those of a key, oldest version first.
    pub(crate) fn of_key(&self, key: &str) -> &[u32] {
        if self.by_version.is_empty() {
            return &[];
        }
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }
}

impl Meta {
    /// Puts away a finished object that has just lost its key: for good, or until no reader can have a route to it.
    pub(crate) fn leave_leased_tombstone(&mut self, object: u32) {
        let stays = self.is_leased(object) && self.lives(object);
        let stays = stays && !is_broken(Rule::LeavingRangesAreReserved);
        self.set_tombstone(object);
        if !stays {
            self.free_replicas(object, u32::MAX);
            return self.forget_empty(object);
        }
        let record = &self.objects[object];
        let (version, key) = (record.version, record.key.clone());
        self.timers.insert(self.leased_timer(object));
        self.tombstones.leased.by_version.insert(version, (object, self.term.newest_grant()));
        let versions = self.tombstones.leased.by_key.entry(key).or_default();
        let objects = &self.objects;
        let place = versions.partition_point(|&other| objects[other].version < version);
        versions.insert(place, object);
    }

    /// The timer of a leased tombstone: nobody can have a route to it once its lease is over.
    fn leased_timer(&self, object: u32) -> (Tick, Timer) {
        (self.objects[object].touched, Timer::LeasedTombstone(object))
    }

    /// A leased tombstone is none any more.
    pub(crate) fn forget_leased(&mut self, object: u32) {
        self.timers.remove(&self.leased_timer(object));
        let record = &self.objects[object];
        self.tombstones.leased.by_version.remove(&record.version);
        let versions = self.tombstones.leased.by_key.get_mut(&record.key);
        let versions = versions.expect("a leased tombstone is kept by key");
        versions.retain(|&other| other != object);
        if versions.is_empty() {
            self.tombstones.leased.by_key.remove(&record.key);
        }
    }

    /// Where the replicas of an object lie that its nodes may yet drop, whether or not they are in sight.
    fn locate_leased(&self, object: u32, table: &mut AddressTable) -> Located {
        let record = &self.objects[object];
        let dead = self.dead_replicas(object);
        let there = self.ranges_of(object).filter(|(_, range)| dead & 1 << range.replica == 0);
        let placements = there.map(|(_, range)| self.placement(range, table)).collect();
        Located { version: record.version, len: record.len, placements }
    }

    /// The nodes have dropped these. A leased tombstone goes once all of its ranges are among them.
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
            let Some(object) = self.tombstones.leased.of_version(version) else { continue };
            let Some(since) = self.tombstones.leased.since(version) else { continue };
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

    /// Puts the leased tombstones of a key before the one that was found. Gives the moment from which on none of
    /// their routes may be used, if there are any.
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
        leased.iter().map(|&object| self.objects[object].touched).min()
    }
}
