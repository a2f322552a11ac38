//! Which entry a leader believes.
//!
//! Of the versions of a key that are reported the highest is served. What happened to a key since the leader began wins over
//! what is reported of it later: such keys are *touched*, as long as anybody may report.
//!
//! Some objects were granted while nodes may have held an older version of their key, as their entries say: they are
//! *replacing*. A member that has not reported may still hold the older version. So a replacing object is not read before the
//! routes of earlier leaders are over and the missing members are marked behind in the record: no later leader believes
//! these. This leader may believe them until its window is over. If it loses or evicts the replacing object meanwhile, it
//! believes no older version of the key any more.

use mooncake_types::Version;
use mooncake_types::mutation::{Rule, is_broken};

use super::attributes::Attributes;
use super::phase::Phase;
use crate::Meta;
use crate::objects::Hashed;

/// Most keys that are remembered while members are missing. Once there are more, the missing are struck.
const MOST_TOUCHED: usize = 1_000_000;

/// A version of an object of which something was found.
#[derive(Clone, Copy)]
pub(super) struct FoundVersion<'a> {
    pub(super) key: &'a str,
    pub(super) hash: u64,
    pub(super) version: Version,
    /// Length of the object, in bytes.
    pub(super) len: u64,
    pub(super) attributes: Attributes<'a>,
}

/// What an entry that was reported comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belief {
    /// Its key has changed since, and nobody has a route to it.
    Refuted,
    /// Of a version that is known, by this record.
    Known(u32),
    /// Older than what holds its key. Readers may have routes to it.
    Outdated,
    /// The newest of its key; an older one may hold it.
    Newest { older: Option<u32> },
}

impl Meta {
    /// What a finished entry comes to that was reported.
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
            // Readers that were told of it have the named replicas dropped, and go on to the version that replaced it. A
            // further replica must not be named after that.
            return match self.recovery.phase.has_settled() {
                true => Belief::Refuted,
                false => Belief::Known(object),
            };
        }
        let is_older = held.is_some_and(|held| found.version < held);
        match is_older && !is_broken(Rule::HighestVersionWins) {
            false => Belief::Newest { older: holder },
            true if self.recovery.phase.has_settled() => Belief::Refuted,
            true => Belief::Outdated,
        }
    }

    /// Whether what was reported of a key is older than what became of it since this leader began.
    fn is_overruled(&self, found: &FoundVersion<'_>) -> bool {
        let below = self.recovery.touched.get(&found.hash);
        below.is_some_and(|&below| found.version < below) && !is_broken(Rule::LatecomersGiveWay)
    }

    /// Remembers that the key with this hash was changed, as long as somebody may report an older version of it.
    pub(crate) fn touch(&mut self, hash: u64) {
        // All that is reported is of earlier leaders.
        self.touch_below(hash, Version { epoch: self.term.epoch(), counter: 0 });
    }

    /// Remembers that nothing of a key with this hash is believed below a version.
    fn touch_below(&mut self, hash: u64, version: Version) {
        if !self.recovery.phase.may_report() {
            return;
        }
        let below = self.recovery.touched.entry(hash).or_default();
        *below = version.max(*below);
        if self.recovery.touched.len() >= MOST_TOUCHED {
            self.close_window();
        }
    }

    /// An object was found that may have taken the place of another.
    pub(super) fn note_replacing(&mut self, object: u32) {
        if self.recovery.phase != Phase::Over {
            self.recovery.replacing.insert(object);
        }
    }

    /// Whether members that have not reported may hold an older version of what was found.
    pub(super) fn is_replacing(&self, object: u32) -> bool {
        self.recovery.replacing.contains(&object)
    }

    /// Whether nobody may read an object yet.
    pub(crate) fn is_unsettled(&self, object: u32) -> bool {
        let is_settled = || self.recovery.phase.has_settled() && self.serves();
        self.is_replacing(object) && !is_settled()
    }

    /// An object holds its key no longer.
    pub(crate) fn forget_replacing(&mut self, object: u32) {
        if self.recovery.replacing.remove(&object) {
            let record = &self.objects[object];
            let hash = self.index.hash(&record.key);
            self.touch_below(hash, record.version);
        }
    }
}
