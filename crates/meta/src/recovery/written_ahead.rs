//! Changes that a segment which is *behind* lacks, and how a later leader knows them.
//!
//! A segment is behind since a version if acknowledged changes may be missing on it: its node did not report to a leader
//! in time, or was out of sight while a version on it was removed or replaced. Leaders after this one let it catch up.
//! They know what it lacks from two sources:
//!
//! 1. What the segments hold that are in step, or behind since a later version. These report first. Of two versions of
//!    a key the higher one is served.
//! 2. The overruled keys in the membership record. It has the hash of a key before a version of it is gone, or is given
//!    to readers, that hides an older one on a segment that is behind, and of which the segments in step do not hold a
//!    whole replica. Removals and look-ups wait for that, and eviction passes such objects over until then.
//!
//! So a segment tells what others lack that are behind since before it. If two fall behind one after the other, the second
//! is marked with a newer version.
//!
//! The record has room for [`MAX_OVERRULED_KEYS`] keys one by one, and for [`MAX_FILTERED_KEYS`] in a filter: a later
//! leader takes a few more for overruled, and drops those entries too. If there are more, or if a segment leaves on which
//! others depend, no later leader can tell what the segments lack that are behind by then: under a later leader they
//! start empty. Under this leader they still catch up.

use std::collections::BTreeSet;

use mooncake_types::limits::{MAX_FILTERED_KEYS, MAX_OVERRULED_KEYS};
use mooncake_types::{Epoch, OverruledKey, PutEnd, Request, SegmentId, Version};

use crate::Meta;
use crate::objects::{Object, ObjectState, Range};
use crate::segments::{Closed, Effect, written_hash};
use crate::tombstones::EntryId;

/// Newer than every version.
const NEWER_THAN_ALL: Version = Version { epoch: Epoch(u64::MAX), counter: u64::MAX };

/// No later leader can tell what has changed since: see [`Effect::MarkBehind`].
const UNTOLD: Version = Version { epoch: Epoch(0), counter: 0 };

/// The newest version that is older than a granted one.
fn before(version: Version) -> Version {
    Version { counter: version.counter.saturating_sub(1), ..version }
}

impl Meta {
    /// Whether the record has what a request takes away. If not, the change of the record is under way, and the client
    /// must ask again.
    pub(crate) fn is_written_ahead(&mut self, request: &Request<'_>) -> bool {
        if !self.members.has_trackable() {
            return true;
        }
        // Also what this leader does not know must not come back. Earlier leaders granted it.
        let unknown = self.members.oldest_lacking().map(|_| self.term.first_grant());
        let (keys, named) = match request {
            Request::Remove { keys, .. } | Request::ClearReplicas { keys, .. } => (keys, unknown),
            Request::Retract { keys, ranges } => {
                (keys, ranges.iter().map(|it| it.version).max().max(unknown))
            }
            Request::PutEnd { puts } => return self.are_puts_told(puts),
            Request::Scan(_) if request.changes_objects() => {
                if unknown.is_none() && !self.owes_drops() {
                    return true;
                }
                self.lose_track_before(NEWER_THAN_ALL);
                return !self.members.has_trackable();
            }
            _ => return true,
        };
        let mut is_written = true;
        for key in keys {
            let may_be_outdated = named.is_some() || self.has_outdated(self.index.hash(key));
            let newest = self.newest_known(key).max(named).filter(|_| may_be_outdated);
            is_written &= newest.is_none_or(|newest| self.write_ahead(key, newest));
        }
        is_written
    }

    /// Whether segments that are behind hold entries that they must drop.
    fn owes_drops(&self) -> bool {
        let mut behind = self.members.behind_before(NEWER_THAN_ALL);
        behind.any(|id| self.segments.find(id).is_some_and(|slot| self.tombstones.count(slot) > 0))
    }

    /// Whether segments that are behind hold outdated entries of keys with this hash.
    fn has_outdated(&self, hash: u64) -> bool {
        let mut of_key = self.tombstones.of_key(hash);
        of_key.any(|(slot, _)| self.segments[slot].is(Closed::Behind))
    }

    /// Whether later leaders know that the puts which end now take the place of older versions.
    fn are_puts_told(&mut self, puts: &[PutEnd<'_>]) -> bool {
        let mut are_told = true;
        for put in puts {
            are_told &= self.is_put_told(put);
        }
        are_told
    }

    fn is_put_told(&mut self, put: &PutEnd<'_>) -> bool {
        let is_it = |&object: &u32| self.objects[object].version == put.version;
        let found = self.find(put.key).filter(is_it).or(self.find_beside(put.key, put.version));
        found.is_none_or(|object| self.tell(object))
    }

    /// Has the record overrule the versions that an object replaces, unless later leaders know of it anyway. False while
    /// the change is under way.
    pub(crate) fn tell(&mut self, object: u32) -> bool {
        if self.is_told(object) {
            return true;
        }
        let record = &self.objects[object];
        let (key, replaced) = (record.key.clone(), before(record.version));
        self.write_ahead(&key, replaced)
    }

    /// Whether later leaders know that an object took the place of older versions: segments in step hold a whole replica
    /// of it, or the record overrules what is older.
    pub(super) fn is_told(&self, object: u32) -> bool {
        if !self.members.has_trackable() {
            return true;
        }
        let record = &self.objects[object];
        let lacking = self.replicas_where(object, |range| !self.is_in_step(range));
        self.has_replica_but(object, lacking)
            || self.members.is_overruled_on_all(written_hash(&record.key), before(record.version))
    }

    fn is_in_step(&self, range: &Range) -> bool {
        let segment = &self.segments[range.segment];
        segment.is_mounted() && !segment.is(Closed::Struck) && !segment.is(Closed::Behind)
    }

    /// The newest version of a key that readers may get, or of which nodes may hold entries.
    fn newest_known(&self, key: &str) -> Option<Version> {
        let leased = self.tombstones.leased().of_key(key).iter().copied();
        let objects = self.find(key).into_iter().chain(leased);
        let versions = objects.map(|object| self.objects[object].version);
        let of_key = self.tombstones.of_key(self.index.hash(key));
        versions.chain(of_key.map(|(_, (_, version))| version)).max()
    }

    /// Whether the record overrules this version of a key, if segments are behind. If not, the change is under way.
    fn write_ahead(&mut self, key: &str, version: Version) -> bool {
        if !self.members.has_trackable() {
            return true;
        }
        let hash = written_hash(key);
        if !self.members.is_overruled_on_all(hash, version) {
            if self.members.overruled_keys() >= MAX_OVERRULED_KEYS + MAX_FILTERED_KEYS {
                self.lose_track_before(NEWER_THAN_ALL);
                return !self.members.has_trackable();
            }
            self.members.note_written(self.index.hash(key), hash);
            self.overrule_written(hash, version);
        }
        self.members.is_overruled_on_all(hash, version)
    }

    fn overrule_written(&mut self, hash: u64, until: Version) {
        if !self.members.is_overruling(hash) {
            let at = self.term.newest_grant();
            self.emit(Effect::Overrule(hash, OverruledKey { until, at }));
        }
    }

    /// Whether an object may be evicted: the record has its key, or it hides no older version on a segment that is
    /// behind.
    pub(crate) fn may_be_evicted(&mut self, object: u32) -> bool {
        if !self.members.has_trackable() {
            return true;
        }
        let record = &self.objects[object];
        let hash = self.index.hash(&record.key);
        let is_newer = |oldest: Version| record.version > oldest;
        let hides = self.members.oldest_lacking().is_some_and(is_newer)
            || self.is_replacing(object)
            || self.has_outdated(hash);
        let (key, version) = (record.key.clone(), record.version);
        !hides || self.write_ahead(&key, version)
    }

    /// Whether a later leader knows that an entry on a segment that is behind has a tombstone. If it cannot know, it will
    /// have the segment start empty. False while the change of the record is under way.
    pub(crate) fn is_tombstone_told(
        &mut self,
        slot: u32,
        (_, version): EntryId,
        hash: u64,
    ) -> bool {
        let id = self.segments[slot].id;
        if self.is_newer_in_step(hash, version) || self.is_settled(id, hash, version) {
            return true;
        }
        match self.members.written(hash) {
            Some(written) => self.overrule_written(written, version),
            None => {
                // What it could tell of others is lost with it.
                if let Some(before) = self.tells_before(id) {
                    self.lose_track_before(before);
                }
                self.emit(Effect::MarkBehind(id, UNTOLD));
            }
        }
        self.is_settled(id, hash, version)
    }

    /// Whether the record says that a segment which is behind will start empty, or it overrules this version there.
    fn is_settled(&self, id: SegmentId, hash: u64, version: Version) -> bool {
        self.members.behind_since(id).is_some_and(|since| {
            let written = self.members.written(hash);
            let is_overruled = |written| self.members.is_overruled(written, version, since);
            since == UNTOLD || written.is_some_and(is_overruled)
        })
    }

    /// Whether segments in step hold a whole replica of a version that is newer than this one, of a key with this hash.
    fn is_newer_in_step(&self, hash: u64, version: Version) -> bool {
        let is_newer =
            |record: &Object| record.state == ObjectState::Complete && record.version > version;
        let newer = self.index.find_hashed(&self.objects, hash, is_newer);
        newer.is_some_and(|object| {
            let lacking = self.replicas_where(object, |range| !self.is_in_step(range));
            self.has_replica_but(object, lacking)
        })
    }

    /// Has the record strike a member; see [`Self::strike_members`].
    pub(crate) fn strike_member(&mut self, id: SegmentId) {
        self.strike_members(&BTreeSet::from([id]));
    }

    /// Has the record strike members, and with them the missing ones of which nobody else could tell this leader what
    /// they lack. Later leaders no longer know what those segments lack that are behind since before one of them.
    pub(crate) fn strike_members(&mut self, ids: &BTreeSet<SegmentId>) {
        let is_left = |id: &SegmentId| !self.members.is_pending(Effect::Strike(*id));
        let mut struck: BTreeSet<SegmentId> = ids.iter().copied().filter(is_left).collect();
        let would_tell = struck.iter().filter_map(|&id| self.missing_would_tell_before(id)).max();
        if let Some(before) = would_tell {
            struck.extend(self.missing_since_before(before).filter(is_left));
        }
        let tells = struck.iter().filter_map(|&id| self.tells_before(id)).max();
        if let Some(before) = tells {
            self.lose_track_but(before, &struck);
        }
        for id in struck {
            if let Some(slot) = self.segments.find(id) {
                self.segments.set(slot, Closed::Struck, true);
            }
            self.emit(Effect::Strike(id));
        }
    }

    /// A segment is lent by another process than the one that wrote its entries. The new process may lack some that had no
    /// rows, so it cannot tell of all changes that segments lack which are behind since before it.
    ///
    /// False while the record does not say so yet.
    pub(crate) fn note_restarted(&mut self, id: SegmentId) -> bool {
        if let Some(before) = self.missing_would_tell_before(id) {
            let untold: BTreeSet<SegmentId> = self.missing_since_before(before).collect();
            self.strike_members(&untold);
        }
        let Some(before) = self.tells_before(id) else { return true };
        self.lose_track_before(before);
        self.members.behind_before(before).next().is_none()
    }

    /// A segment can tell later leaders what those segments lack that are behind since before this version; none if it
    /// can tell nothing. A disk tells nothing that the record does not: what lies on disks alone was evicted from memory.
    fn tells_before(&self, id: SegmentId) -> Option<Version> {
        match self.members.is_behind(id).filter(|_| !self.members.is_disk(id))? {
            true => self.members.behind_since(id),
            false => Some(NEWER_THAN_ALL),
        }
    }

    /// As [`Self::tells_before`], of a segment that has not reported to this leader.
    fn would_tell_before(&self, id: SegmentId) -> Option<Version> {
        let since = self.recovery.were_behind.get(&id).copied();
        (!self.members.is_disk(id)).then(|| since.unwrap_or(NEWER_THAN_ALL))
    }

    /// As [`Self::would_tell_before`]; none if the segment is not missing.
    fn missing_would_tell_before(&self, id: SegmentId) -> Option<Version> {
        self.recovery.is_missing(id).then(|| self.would_tell_before(id)).flatten()
    }

    /// The missing segments that were behind since before a version when this leader began.
    fn missing_since_before(&self, version: Version) -> impl Iterator<Item = SegmentId> {
        let recovery = &self.recovery;
        let before = recovery.were_behind.iter().filter(move |&(_, &since)| since < version);
        before.map(|(&id, _)| id).filter(|&id| recovery.is_missing(id))
    }

    /// From now on no later leader can tell what those segments lack that are behind since before a version.
    pub(crate) fn lose_track_before(&mut self, version: Version) {
        self.lose_track_but(version, &BTreeSet::new());
    }

    /// As [`Self::lose_track_before`], but for segments that are about to be struck.
    fn lose_track_but(&mut self, version: Version, struck: &BTreeSet<SegmentId>) {
        let is_left =
            |id: &SegmentId| !struck.contains(id) && !self.members.is_pending(Effect::Strike(*id));
        for id in self.members.behind_before(version).filter(is_left).collect::<Vec<_>>() {
            self.emit(Effect::MarkBehind(id, UNTOLD));
        }
    }

    /// Whether a segment that was behind before this leader began must wait until others have reported that know what
    /// it lacks.
    pub(crate) fn awaits_others(&self, id: SegmentId) -> bool {
        let Some(&since) = self.recovery.were_behind.get(&id) else { return false };
        let knows_more = |other| other != id && self.would_tell_before(other) > Some(since);
        !self.members.is_pending(Effect::Strike(id)) && self.recovery.missing().any(knows_more)
    }

    /// Whether a segment may lack changes of earlier leaders. Segments that this leader marked itself do not.
    pub(super) fn lacks_earlier_changes(&self, slot: u32) -> bool {
        self.recovery.were_behind.contains_key(&self.segments[slot].id)
    }

    /// Whether the record overrules an entry that a segment reports.
    pub(super) fn is_overruled_on(&self, slot: u32, key: &str, version: Version) -> bool {
        let since = self.recovery.were_behind.get(&self.segments[slot].id);
        self.members.has_overruled()
            && since
                .is_some_and(|&since| self.members.is_overruled(written_hash(key), version, since))
    }
}
