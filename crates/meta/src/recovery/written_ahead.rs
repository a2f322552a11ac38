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
//! Where nobody names the key of an entry that must go, as in a removal by pattern, the record has a hash of its version
//! instead.
//!
//! The record has room for [some](crate::Config::max_overruled_keys) keys and versions one by one, and for
//! [more](crate::Config::max_filtered_keys) in a filter: a later leader takes a few more for overruled, and drops those
//! entries too. If there are more, or if a segment leaves on which others depend, no later leader can tell what the segments
//! lack that are behind by then: under a later leader they start empty. Under this leader they still catch up.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{Epoch, OverruledKey, PutEnd, Request, Scan, ScanAction, SegmentId, Version};

use super::NEWER_THAN_ALL;
use crate::Meta;
use crate::objects::{MatchedKeys, Object, ObjectState, Range};
use crate::segments::{Closed, Effect, Segment, written_hash, written_hash_of_version};
use crate::tombstones::EntryId;

/// No later leader can tell what has changed since: see [`Effect::MarkBehind`].
pub(super) const UNTOLD: Version = Version { epoch: Epoch(0), counter: 0 };

/// The newest version that is older than a granted one.
pub(super) fn before(version: Version) -> Version {
    Version { counter: version.counter.saturating_sub(1), ..version }
}

/// Whether a request removes all objects of all tenants by force, so that nothing is to stay on any segment.
pub(crate) fn takes_all(request: &Request<'_>) -> bool {
    match request {
        Request::Scan(Scan { tenant, pattern, action, .. }) => {
            let is_of_all = tenant.is_none() && pattern.is_none();
            *action == (ScanAction::Remove { force: true })
                && (is_of_all || is_broken(Rule::PatternsSpareOthers))
        }
        _ => false,
    }
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
            Request::Scan(_) if request.changes_objects() => return self.may_scan(request),
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

    /// Whether a removal of many objects may go on. What each page of it takes away is [written](Self::is_page_written)
    /// page by page. So it waits until the leader knows what lies on the segments that are behind: the record cannot name
    /// keys that the leader does not know. But if it takes all objects of all tenants, segments that are behind start empty
    /// under later leaders, as nothing in them is to stay.
    fn may_scan(&mut self, request: &Request<'_>) -> bool {
        if !takes_all(request) {
            return self.knows_all_behind();
        }
        if self.members.oldest_lacking().is_none() && !self.owes_drops() {
            return true;
        }
        self.lose_track_before(NEWER_THAN_ALL);
        !self.members.has_trackable()
    }

    /// Whether this leader knows each entry of the segments that are behind: they have reported. What a process has that
    /// took one over since, the process before it had, too.
    fn knows_all_behind(&self) -> bool {
        let is_known = |segment: &Segment| segment.is_mounted() && !segment.is(Closed::Recovering);
        let mut behind = self.members.behind_before(NEWER_THAN_ALL);
        behind.all(|id| self.segments.find(id).is_some_and(|slot| is_known(&self.segments[slot])))
    }

    /// Whether the record has what a page of a removal takes away, as far as the removed versions hide others on segments
    /// that are behind. If not, the change of the record is under way, and the client must ask for the page again.
    pub(crate) fn is_page_written(&mut self, scan: &Scan<'_>, page: &MatchedKeys) -> bool {
        if scan.action == ScanAction::List || !self.members.has_trackable() {
            return true;
        }
        let mut is_written = true;
        for key in page.names() {
            let newest = match self.has_outdated(self.index.hash(key)) {
                true => self.newest_known(key),
                false => None,
            };
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
    pub(super) fn has_outdated(&self, hash: u64) -> bool {
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

    pub(super) fn is_in_step(&self, range: &Range) -> bool {
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
    pub(super) fn write_ahead(&mut self, key: &str, version: Version) -> bool {
        if !self.members.has_trackable() || is_broken(Rule::ChangesAreWrittenAhead) {
            return true;
        }
        let hash = written_hash(key);
        if !self.members.is_overruled_on_all(hash, version) {
            if !self.has_room_in_record() {
                self.lose_track_before(NEWER_THAN_ALL);
                return !self.members.has_trackable();
            }
            self.members.note_written(self.index.hash(key), hash);
            self.overrule_written(hash, version);
        }
        self.members.is_overruled_on_all(hash, version)
    }

    /// Whether the record has room for one more overruled key or version.
    fn has_room_in_record(&self) -> bool {
        let config = &self.config;
        let most = config.max_overruled_keys + config.max_filtered_keys;
        self.members.overruled_keys() < most
    }

    fn overrule_written(&mut self, hash: u64, until: Version) {
        if !self.members.is_overruling(hash) {
            let at = self.term.newest_grant();
            self.emit(Effect::Overrule(hash, OverruledKey { until, at }));
        }
    }

    /// Whether a later leader knows that an entry on a segment that is behind has a tombstone. If the record has no room to
    /// say so, that leader will have the segment start empty. False while the change of the record is under way.
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
            // Who removed it did not name its key.
            None if self.has_room_in_record() => {
                let written = written_hash_of_version(version);
                self.members.note_written(written, written);
                self.overrule_written(written, version);
            }
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
            since == UNTOLD
                || written.is_some_and(is_overruled)
                || is_overruled(written_hash_of_version(version))
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

    /// Whether a segment may lack changes of earlier leaders. Segments that this leader marked itself do not.
    pub(super) fn lacks_earlier_changes(&self, slot: u32) -> bool {
        self.recovery.were_behind.contains_key(&self.segments[slot].id)
    }

    /// Whether the record overrules an entry that a segment reports.
    pub(super) fn is_overruled_on(&self, slot: u32, key: &str, version: Version) -> bool {
        let since = self.recovery.were_behind.get(&self.segments[slot].id);
        let hashes = || [written_hash(key), written_hash_of_version(version)];
        let is_in = |hash, since| match is_broken(Rule::FilteredKeysAreOverruled) {
            true if self.members.is_filtered(hash, version, since) => false,
            _ => self.members.is_overruled(hash, version, since),
        };
        let is_overruled = |&since: &Version| hashes().into_iter().any(|hash| is_in(hash, since));
        self.members.has_overruled()
            && since.is_some_and(is_overruled)
            && !is_broken(Rule::OverruledEntriesAreDropped)
    }
}
