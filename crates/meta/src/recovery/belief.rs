//! Which reported entries a leader believes.
//!
//! Of the reported versions of a key, the leader serves the highest. A change of a key since the leader began overrules
//! reports that come later: as long as segments may report, the leader remembers *overruled* keys.
//!
//! An entry says whether nodes may have held an older version of its key when it was granted. The object of such an entry is
//! *replacing*: a member that has not reported may still hold the older version. No reader gets a replacing object before
//! the routes of earlier leaders are over and the missing members are marked behind, so that no later leader believes them.
//! This leader may believe them until its window is over. If it loses or evicts the replacing object meanwhile, it believes
//! no older version of the key any more.

use mooncake_types::Version;
use mooncake_types::mutation::{Rule, is_broken};

use super::attributes::Attributes;
use super::phase::Phase;
use crate::Meta;
use crate::objects::Hashed;

/// Most overruled keys. Once there are more, the leader strikes the missing members from the record.
const MOST_OVERRULED: usize = 1_000_000;

/// A version of an object of which a segment reported an entry.
#[derive(Clone, Copy)]
pub(super) struct FoundVersion<'a> {
    pub(super) key: &'a str,
    pub(super) hash: u64,
    pub(super) version: Version,
    /// Length of the object, in bytes.
    pub(super) len: u64,
    pub(super) attributes: Attributes<'a>,
}

/// What the leader makes of a reported entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belief {
    /// Its key has changed since, and no reader has a route to it.
    Refuted,
    /// It belongs to this object, which is known.
    Known(u32),
    /// It is older than the object that holds its key. Readers may have routes to it.
    Outdated,
    /// It is the newest of its key, which an older object may hold.
    Newest { older: Option<u32> },
}

impl Meta {
    /// What the leader makes of a finished entry that was reported.
    pub(super) fn judge_entry(&self, found: &FoundVersion<'_>) -> Belief {
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
            // Readers that have a route to it have its named replicas dropped, and go on to the version that replaced it.
            // No further replica may be named after that.
            return match self.recovery.phase.are_former_routes_over() {
                true => Belief::Refuted,
                false => Belief::Known(object),
            };
        }
        let is_older = held.is_some_and(|held| found.version < held);
        match is_older && !is_broken(Rule::HighestVersionWins) {
            false => Belief::Newest { older: holder },
            true if self.recovery.phase.are_former_routes_over() => Belief::Refuted,
            true => Belief::Outdated,
        }
    }

    /// Whether the key of a reported entry was put, removed, cleared or lost since this leader began.
    fn is_overruled(&self, found: &FoundVersion<'_>) -> bool {
        let below = self.recovery.overruled.get(&found.hash);
        below.is_some_and(|&below| found.version < below) && !is_broken(Rule::LatecomersGiveWay)
    }

    /// Remembers that the key with this hash was changed, as long as segments may report older versions of it.
    pub(crate) fn overrule(&mut self, hash: u64) {
        // All reported entries are of earlier leaders.
        self.overrule_below(hash, Version { epoch: self.term.epoch(), counter: 0 });
    }

    /// Remembers that no report of a key with this hash is believed below a version.
    fn overrule_below(&mut self, hash: u64, version: Version) {
        if !self.recovery.phase.may_report() {
            return;
        }
        let below = self.recovery.overruled.entry(hash).or_default();
        *below = version.max(*below);
        if self.recovery.overruled.len() >= MOST_OVERRULED {
            self.close_window();
        }
    }

    /// A reported object may have replaced an older version.
    pub(super) fn note_replacing(&mut self, object: u32) {
        if self.recovery.phase != Phase::Over {
            self.recovery.replacing.insert(object);
        }
    }

    /// Whether members that have not reported may hold an older version of a reported object.
    pub(super) fn is_replacing(&self, object: u32) -> bool {
        self.recovery.replacing.contains(&object)
    }

    /// Whether an object may not be read before the routes of earlier leaders are over.
    pub(crate) fn awaits_former_routes(&self, object: u32) -> bool {
        let are_over = || self.recovery.phase.are_former_routes_over() && self.serves();
        self.is_replacing(object) && !are_over()
    }

    /// An object does not hold its key any more.
    pub(crate) fn forget_replacing(&mut self, object: u32) {
        if self.recovery.replacing.remove(&object) {
            let record = &self.objects[object];
            let hash = self.index.hash(&record.key);
            self.overrule_below(hash, record.version);
        }
    }
}
