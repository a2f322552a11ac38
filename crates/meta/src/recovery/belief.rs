//! Which reported entries a leader believes.
//!
//! Of the reported versions of a key, the leader serves the highest. Once a key changes under this leader, later
//! reports of it are *overruled*. The leader remembers overruled keys as long as segments may report.
//!
//! An entry says whether nodes may have held an older version of its key when it was granted. If so, its object is
//! *replacing*: a member that has not reported may still hold the older version. No reader gets a replacing object
//! before the routes of earlier leaders are over and the missing members are marked behind. Once they are marked, no
//! later leader believes them. This leader may believe them until its window is over. If it loses or evicts the
//! replacing object meanwhile, it believes no older version of the key from then on.

use mooncake_types::Version;
use mooncake_types::mutation::{Rule, is_broken};

use super::attributes::Attributes;
use super::phase::Phase;
use crate::Meta;
use crate::objects::{Hashed, ObjectState};

/// A reported version of an object.
#[derive(Clone, Copy)]
pub(super) struct FoundVersion<'a> {
    pub(super) key: &'a str,
    pub(super) hash: u64,
    pub(super) version: Version,
    /// Length of the object, in bytes.
    pub(super) len: u64,
    pub(super) attributes: Attributes<'a>,
}

/// How the leader treats a reported entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belief {
    /// The leader knows a newer state of its key, and no reader has a route to the entry.
    Refuted,
    /// It belongs to this object, which the leader knows.
    Known(u32),
    /// It is older than the object that holds its key, but readers may have routes to it.
    Outdated,
    /// It is the newest version of its key. An older object may hold the key.
    Newest { older: Option<u32> },
    /// It is the newest finished version of its key. This put of a newer one holds the key, and has not ended.
    Beside { put: u32 },
}

impl Meta {
    /// Decides how the leader treats an entry that a segment reports and that is finished. Of a segment that lacks
    /// changes of earlier leaders no version is given to readers that another one has replaced: the put of the newer
    /// one may be acknowledged.
    pub(super) fn judge_entry_on(&self, slot: u32, found: &FoundVersion<'_>) -> Belief {
        match self.judge_entry(found) {
            belief @ (Belief::Refuted | Belief::Newest { .. } | Belief::Beside { .. }) => belief,
            belief if !self.lacks_earlier_changes(slot) => belief,
            Belief::Outdated => Belief::Refuted,
            Belief::Known(object) => match self.objects[object].state {
                ObjectState::Tombstone => Belief::Refuted,
                _ => Belief::Known(object),
            },
        }
    }

    /// Decides how the leader treats a reported entry that is finished.
    fn judge_entry(&self, found: &FoundVersion<'_>) -> Belief {
        let holder = self.index.get(&self.objects, Hashed { key: found.key, hash: found.hash });
        let held = holder.map(|holder| self.objects[holder].version);
        let is_current = held == Some(found.version);
        if !is_current && self.is_overruled(found) {
            return Belief::Refuted;
        }
        if let Some(object) = holder.filter(|_| is_current) {
            return Belief::Known(object);
        }
        if let Some(object) = self.tombstones.leased().of_version(found.version) {
            // Readers with a route to this version have nodes drop the replicas that the leader named, and then read
            // the version that replaced it. So the leader must not name another replica.
            return match self.recovery.phase.are_former_routes_over() {
                true => Belief::Refuted,
                false => Belief::Known(object),
            };
        }
        let is_older = held.is_some_and(|held| found.version < held);
        if is_older
            && let Some(put) = holder
            && self.objects[put].state == ObjectState::Processing
        {
            return Belief::Beside { put };
        }
        match is_older && !is_broken(Rule::HighestVersionWins) {
            false => Belief::Newest { older: holder },
            true if self.recovery.phase.are_former_routes_over() => Belief::Refuted,
            true => Belief::Outdated,
        }
    }

    /// Whether the key of a reported entry was put, removed, cleared or lost under this leader.
    fn is_overruled(&self, found: &FoundVersion<'_>) -> bool {
        self.recovery.overruled.covers(found.hash, found.version)
            && !is_broken(Rule::LatecomersGiveWay)
    }

    /// Remembers that the key with this hash changed, while segments may report older versions of it.
    pub(crate) fn overrule(&mut self, hash: u64) {
        // Earlier leaders granted all reported entries.
        self.overrule_below(hash, Version { epoch: self.term.epoch(), counter: 0 });
    }

    /// From now on the leader believes no report of a key with this hash below this version.
    pub(crate) fn overrule_below(&mut self, hash: u64, version: Version) {
        if self.recovery.phase.may_report() {
            self.recovery.overruled.note(hash, version);
        }
    }

    /// Notes that a reported object may have replaced an older version.
    pub(super) fn note_replacing(&mut self, object: u32) {
        if self.recovery.phase != Phase::Over {
            self.recovery.replacing.insert(object);
        }
    }

    /// Whether members that have not reported may hold an older version of a reported object.
    pub(super) fn is_replacing(&self, object: u32) -> bool {
        self.recovery.replacing.contains(&object)
    }

    /// Whether readers must not get an object yet, as a member that has not reported may hold an older version: routes of
    /// earlier leaders may lead there, or a later leader might believe it.
    pub(crate) fn is_hidden(&self, object: u32) -> bool {
        let are_over = || self.recovery.phase.are_former_routes_over() && self.serves();
        self.is_replacing(object) && !(are_over() && self.is_told(object))
    }

    /// Readers want a hidden object: has the record overrule the versions that it replaces.
    pub(crate) fn reveal(&mut self, object: u32) {
        if self.is_replacing(object) && self.serves() {
            self.tell(object);
        }
    }

    /// Forgets an object that lost its key. If it was replacing, the leader believes no older version of the key.
    pub(crate) fn forget_replacing(&mut self, object: u32) {
        if self.recovery.replacing.remove(&object) {
            let record = &self.objects[object];
            let hash = self.index.hash(&record.key);
            self.overrule_below(hash, record.version);
        }
    }
}
