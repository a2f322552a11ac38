use std::collections::BTreeMap;

use mooncake_client::Version;
use mooncake_types::Tick;

/// What is known of every version and every key, in steps of the pool. With it each read is judged when it ends.
///
/// A key is a register: versions take their places in growing order, each between the call that ends its put at the master
/// and the moment when its writer is told so. A removal empties it. A miss says nothing, unless the key was there all the
/// time.
#[derive(Default)]
pub(crate) struct History {
    versions: BTreeMap<Version, Life>,
    keys: BTreeMap<usize, Key>,
    /// When the last master was lost, and until when its leases lasted: what it had in its index is unknown to the next.
    lost: Option<Tick>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// From when on its removal has been acknowledged.
    removed_at: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Key {
    /// Versions whose ends the master has taken, oldest first.
    ended: Vec<Version>,
    /// The newest version that somebody was told of, and when that was; in growing order of both.
    known: Vec<(Version, u64)>,
    /// When the key was last without a readable object at the master.
    absent_at: u64,
}

/// A removal that the master has carried out and that nobody has been told of.
#[derive(Clone, Debug)]
pub(crate) struct Removal {
    pub(crate) key: usize,
    versions: Vec<Version>,
}

impl History {
    /// The master has ended a put.
    pub(crate) fn end(&mut self, key: usize, version: Version) {
        self.versions.entry(version).or_default();
        let ended = &mut self.keys.entry(key).or_default().ended;
        if !ended.contains(&version) {
            ended.push(version);
        }
    }

    /// A writer was told that its version is in place, or a reader got it.
    pub(crate) fn know(&mut self, key: usize, version: Version, step: u64) {
        let known = &mut self.keys.entry(key).or_default().known;
        if known.last().is_none_or(|(newest, _)| *newest < version) {
            known.push((version, step));
        }
    }

    /// The master has removed what it had under a key.
    pub(crate) fn remove(&mut self, key: usize) -> Removal {
        let versions = std::mem::take(&mut self.keys.entry(key).or_default().ended);
        Removal { key, versions }
    }

    /// Whoever asked for a removal was told that it is done.
    pub(crate) fn acknowledge(&mut self, removal: &Removal, step: u64) {
        for version in &removal.versions {
            let life = self.versions.get_mut(version).expect("it was ended");
            life.removed_at.get_or_insert(step);
        }
    }

    /// There is nothing to be read under a key at the master.
    pub(crate) fn absent(&mut self, key: usize, step: u64) {
        self.keys.entry(key).or_default().absent_at = step;
    }

    /// The master has forgotten everything, and `until` its leases last.
    pub(crate) fn lose_master(&mut self, until: Tick) {
        self.lost = Some(until);
    }

    /// Judges a read from `began` to `ended` that returned this version.
    pub(crate) fn check(&self, key: usize, version: Version, began: u64, now: Tick) {
        let Some(life) = self.versions.get(&version) else {
            // What lies whole at its nodes counts as ended for a master that has come back.
            assert!(self.lost.is_some(), "{version} was read before its put ended");
            return;
        };
        if self.lost.is_some_and(|until| now <= until) {
            return;
        }
        let removed = life.removed_at.is_some_and(|at| at < began);
        assert!(!removed, "{version} of key {key} was read after it was removed");
        let known = self.keys.get(&key).map_or(&[][..], |key| &key.known);
        let before = known.partition_point(|(_, at)| *at < began);
        let newest = known[..before].iter().map(|(version, _)| *version).max();
        let is_old = newest.is_some_and(|newest| newest > version);
        assert!(!is_old, "{version} of key {key} was read after {newest:?} was known");
    }

    /// Judges a miss of a read that began at that step.
    pub(crate) fn check_miss(&self, key: usize, began: u64) {
        let absent_at = self.keys.get(&key).map_or(u64::MAX, |key| key.absent_at);
        assert!(absent_at >= began, "key {key} was missed although it was there all the time");
    }
}
