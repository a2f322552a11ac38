//! Changes that a segment which is *behind* lacks, and how a later leader knows them.
//!
//! A segment is behind since a version if acknowledged changes may be missing on it: its node did not report to a leader
//! in time, or was out of sight while a version on it was removed or replaced. Leaders after this one let it catch up.
//! They know what it lacks from two sources:
//!
//! 1. What the segments hold that are in step, or behind since a later version. These report first. Of two versions of
//!    a key the higher one is served.
//! 2. The overruled keys in the membership record. Before a version may be gone from those segments that hides an older
//!    one on a segment that is behind, the record has the hash of its key. Removals wait for that, and eviction passes
//!    such objects over until then.
//!
//! The record has room for [`MAX_OVERRULED_KEYS`] keys. If there are more, or if a segment leaves on which others
//! depend, no later leader can tell what the segments lack that are behind by then: under a later leader they start
//! empty. Under this leader they still catch up.

use mooncake_types::limits::MAX_OVERRULED_KEYS;
use mooncake_types::{Epoch, PutEnd, Request, SegmentId, Version};

use super::Recovery;
use crate::Meta;
use crate::objects::{Object, ObjectState, Range};
use crate::segments::{Closed, Effect, written_hash};
use crate::tombstones::EntryId;

/// Newer than every version.
const NEWER_THAN_ALL: Version = Version { epoch: Epoch(u64::MAX), counter: u64::MAX };

/// No later leader can tell what has changed since: see [`Effect::MarkBehind`].
const UNTOLD: Version = Version { epoch: Epoch(0), counter: 0 };

impl Meta {
    /// Whether the record has what a request takes away. If not, the change of the record is under way, and the client
    /// must ask again.
    pub(crate) fn is_written_ahead(&mut self, request: &Request<'_>) -> bool {
        if self.members.oldest_lacking().is_none() {
            return true;
        }
        // Also what this leader does not know must not come back. Earlier leaders granted it.
        let unknown = Some(self.term.first_grant());
        let (keys, named) = match request {
            Request::Remove { keys, .. } | Request::ClearReplicas { keys, .. } => (keys, unknown),
            Request::Retract { keys, ranges } => {
                (keys, ranges.iter().map(|it| it.version).max().max(unknown))
            }
            Request::PutEnd { puts } => {
                return puts
                    .iter()
                    .fold(true, |is_written, put| self.is_put_told(put) && is_written);
            }
            Request::Scan(_) if request.changes_objects() => {
                self.lose_track_before(NEWER_THAN_ALL);
                return self.members.oldest_lacking().is_none();
            }
            _ => return true,
        };
        let mut is_written = true;
        for key in keys {
            if let Some(newest) = self.newest_known(key).max(named) {
                is_written &= self.write_ahead(key, newest);
            }
        }
        is_written
    }

    /// Whether later leaders know that a put which ends now takes the place of older versions: a segment in step holds
    /// it, or the record overrules what is older.
    fn is_put_told(&mut self, put: &PutEnd<'_>) -> bool {
        let is_it = |&object: &u32| self.objects[object].version == put.version;
        let found = self.find(put.key).filter(is_it).or(self.find_beside(put.key, put.version));
        let Some(object) = found else { return true };
        let is_in_step = self.ranges_of(object).any(|(_, range)| self.is_in_step(range));
        let Version { epoch, counter } = put.version;
        is_in_step
            || self.write_ahead(put.key, Version { epoch, counter: counter.saturating_sub(1) })
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
        if !self.members.is_overruled(hash, version) {
            if self.members.overruled_keys() >= MAX_OVERRULED_KEYS {
                self.lose_track_before(NEWER_THAN_ALL);
                return !self.members.has_trackable();
            }
            self.members.note_written(self.index.hash(key), hash);
            self.emit(Effect::Overrule(hash, version));
        }
        self.members.is_overruled(hash, version)
    }

    /// Whether an object may be evicted: the record has its key, or it hides no older version on a segment that is
    /// behind.
    pub(crate) fn may_be_evicted(&mut self, object: u32) -> bool {
        if !self.members.has_trackable() {
            return true;
        }
        let oldest = self.members.oldest_lacking();
        let record = &self.objects[object];
        let hash = self.index.hash(&record.key);
        let mut of_key = self.tombstones.of_key(hash);
        let hides = oldest.is_some_and(|oldest| record.version > oldest)
            || self.is_replacing(object)
            || of_key.any(|(slot, _)| self.segments[slot].is(Closed::Behind));
        drop(of_key);
        let (key, version) = (record.key.clone(), record.version);
        !hides || self.write_ahead(&key, version)
    }

    /// Whether a later leader knows that an entry on a segment that is behind has a tombstone. If it does not, it will
    /// have the segment start empty.
    pub(crate) fn is_tombstone_told(
        &mut self,
        slot: u32,
        (_, version): EntryId,
        hash: u64,
    ) -> bool {
        let id = self.segments[slot].id;
        let is_told = self.members.behind_since(id) == Some(UNTOLD)
            || self.members.is_settled(hash, version)
            || self.is_newer_in_step(hash, version);
        if !is_told {
            self.emit(Effect::MarkBehind(id, UNTOLD));
        }
        is_told || self.members.behind_since(id) == Some(UNTOLD)
    }

    /// Whether a segment in step holds a readable version of a key with this hash that is newer than this one.
    fn is_newer_in_step(&self, hash: u64, version: Version) -> bool {
        let is_newer =
            |record: &Object| record.state == ObjectState::Complete && record.version > version;
        let newer = self.index.find_hashed(&self.objects, hash, is_newer);
        newer.is_some_and(|object| self.ranges_of(object).any(|(_, range)| self.is_in_step(range)))
    }

    /// Has the record strike a member. Segments that are behind since before it may lack changes that only it could
    /// tell.
    pub(crate) fn strike_member(&mut self, id: SegmentId) {
        if self.members.is_pending(Effect::Strike(id)) {
            return;
        }
        let is_missing = self.recovery.phase.missing().is_some_and(|missing| missing.contains(&id));
        self.emit(Effect::Strike(id));
        let Some(before) = self.tells_before(id) else { return };
        match is_missing {
            // This leader knows what the segment held.
            false => self.lose_track_before(before),
            true => self.strike_all_before(before),
        }
    }

    /// A segment can tell what those segments lack that are behind since before this version; none if it can tell
    /// nothing. A disk tells nothing that the record does not: what lies on disks alone was evicted from memory.
    fn tells_before(&self, id: SegmentId) -> Option<Version> {
        if self.members.is_disk(id) {
            return None;
        }
        match self.members.is_behind(id)? {
            true => self.recovery.were_behind.get(&id).copied().or(self.members.behind_since(id)),
            false => Some(NEWER_THAN_ALL),
        }
    }

    /// A segment is lent by another process than the one that wrote its entries. The new process may lack some that had no
    /// rows, so it cannot tell of all changes that segments lack which are behind since before it.
    pub(crate) fn note_restarted(&mut self, id: SegmentId) {
        let Some(before) = self.tells_before(id) else { return };
        if self.segments.find(id).is_none() {
            self.strike_all_before(before);
        }
        self.lose_track_before(before);
    }

    /// From now on no later leader can tell what those segments lack that are behind since before a version.
    pub(crate) fn lose_track_before(&mut self, version: Version) {
        for id in self.members.behind_before(version).collect::<Vec<_>>() {
            self.emit(Effect::MarkBehind(id, UNTOLD));
        }
    }

    /// Neither this leader nor a later one can tell what those segments lack that were behind since before a version
    /// when this leader began, and have not reported.
    fn strike_all_before(&mut self, version: Version) {
        let Recovery { were_behind, phase, .. } = &self.recovery;
        let is_missing = |id| phase.missing().is_some_and(|missing| missing.contains(id));
        let before = were_behind.iter().filter(|&(id, &since)| since < version && is_missing(id));
        for id in before.map(|(&id, _)| id).collect::<Vec<_>>() {
            match self.segments.find(id) {
                Some(slot) => self.strike(slot),
                None => self.strike_member(id),
            }
        }
    }

    /// Whether a segment that was behind before this leader began must wait until others have reported that know what
    /// it lacks.
    pub(crate) fn awaits_others(&self, id: SegmentId) -> bool {
        let Some(&since) = self.recovery.were_behind.get(&id) else { return false };
        let knows_more = |other| other != id && self.tells_before(other) > Some(since);
        !self.members.is_pending(Effect::Strike(id)) && self.recovery.missing().any(knows_more)
    }

    /// Whether a segment may lack changes of earlier leaders. Segments that this leader marked itself do not.
    pub(super) fn lacks_earlier_changes(&self, slot: u32) -> bool {
        self.recovery.were_behind.contains_key(&self.segments[slot].id)
    }

    /// Whether the record overrules an entry that a segment reports.
    pub(super) fn is_overruled_on(&self, slot: u32, key: &str, version: Version) -> bool {
        self.members.has_overruled()
            && self.lacks_earlier_changes(slot)
            && self.members.is_overruled(written_hash(key), version)
    }
}
