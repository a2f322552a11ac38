use std::collections::BTreeMap;

use mooncake_types::Version;

/// What is known of every key, in events of a run. With it each read is judged when it ends.
///
/// A key is a register: versions take their places in growing order, each between the call that ends its put at the
/// master and the moment when its writer is told so, or at any later time if the writer is told that it failed, or
/// nothing. A removal empties it. A miss says nothing, unless the key was there all the time.
#[derive(Debug, Default)]
pub(crate) struct History {
    keys: BTreeMap<usize, Key>,
    granted: BTreeMap<Version, Life>,
}

#[derive(Clone, Copy, Debug)]
struct Life {
    key: usize,
    is_ended: bool,
}

#[derive(Clone, Debug, Default)]
struct Key {
    /// From the event on, what a read must not be older than; in growing order of both.
    bounds: Vec<(u64, Bound)>,
    /// When the key was last without a readable object at the master.
    absent_at: u64,
}

/// The oldest version that may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    version: Version,
    /// That version was removed: only newer ones may be read.
    is_removed: bool,
}

impl History {
    /// A master has granted a put.
    pub(crate) fn grant(&mut self, key: usize, version: Version) {
        self.granted.insert(version, Life { key, is_ended: false });
    }

    /// A master has ended a put.
    pub(crate) fn end(&mut self, key: usize, version: Version) {
        self.granted.insert(version, Life { key, is_ended: true });
    }

    /// A writer was told that its version is in place, or a reader got it.
    pub(crate) fn know(&mut self, key: usize, version: Version, event: u64) {
        self.bind(key, Bound { version, is_removed: false }, event);
    }

    /// Whoever asked for a removal was told that it is done: it took this version, and with it all older ones.
    pub(crate) fn remove(&mut self, key: usize, newest: Version, event: u64) {
        self.bind(key, Bound { version: newest, is_removed: true }, event);
    }

    fn bind(&mut self, key: usize, bound: Bound, event: u64) {
        let bounds = &mut self.keys.entry(key).or_default().bounds;
        if bounds.last().is_none_or(|(_, newest)| *newest < bound) {
            bounds.push((event, bound));
        }
    }

    /// There is nothing to be read under a key at the master.
    pub(crate) fn absent(&mut self, key: usize, event: u64) {
        self.keys.entry(key).or_default().absent_at = event;
    }

    /// Judges a read that began at that event and returned this version. A version whose end no master took may be
    /// read if a later leader found its bytes complete.
    pub(crate) fn check(
        &self,
        key: usize,
        version: Version,
        began: u64,
        found_by_recovery: bool,
    ) -> Result<(), String> {
        let life = self.granted.get(&version).filter(|life| life.key == key);
        let Some(life) = life else {
            return Err(format!(
                "{version} was read under key {key}, for which it was not granted"
            ));
        };
        if !life.is_ended && !found_by_recovery {
            return Err(format!("{version} of key {key} was read before its put ended"));
        }
        let bounds = self.keys.get(&key).map_or(&[][..], |key| &key.bounds);
        let before = bounds.partition_point(|(event, _)| *event < began);
        let read = Bound { version, is_removed: false };
        let ended = if life.is_ended { "" } else { ", whose put had not ended," };
        match bounds[..before].iter().max_by_key(|(_, bound)| *bound) {
            Some((event, bound)) if read < *bound && bound.is_removed => Err(format!(
                "{version}{ended} of key {key} was read after {} was removed at event {event}; the read began at {began}",
                bound.version
            )),
            Some((event, bound)) if read < *bound => Err(format!(
                "{version}{ended} of key {key} was read after {} was known at event {event}; the read began at {began}",
                bound.version
            )),
            _ => Ok(()),
        }
    }

    /// Judges an answer that something is there under a key, to a question that was asked at that event.
    pub(crate) fn check_presence(
        &self,
        key: usize,
        began: u64,
        found_by_recovery: bool,
    ) -> Result<(), String> {
        let mut versions = self.granted.iter().rev().filter(|(_, life)| life.key == key);
        let is_good = |&version| self.check(key, version, began, found_by_recovery).is_ok();
        match versions.any(|(version, _)| is_good(version)) {
            true => Ok(()),
            false => Err(format!(
                "key {key} counted as there, and no version of it can have been, from event {began} on"
            )),
        }
    }

    /// Judges a miss of a read that began at that event.
    pub(crate) fn check_miss(&self, key: usize, began: u64) -> Result<(), String> {
        let absent_at = self.keys.get(&key).map_or(u64::MAX, |key| key.absent_at);
        match absent_at >= began {
            true => Ok(()),
            false => Err(format!(
                "key {key} was missed by a read that began at event {began}, although it was there since {absent_at}"
            )),
        }
    }
}
