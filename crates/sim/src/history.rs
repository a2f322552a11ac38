use std::collections::BTreeMap;

use mooncake_types::Version;

/// What the run knows about every key, by event. Each read is judged against it when the read ends.
///
/// A key is a register, and its versions take effect in growing order. A version takes effect between two events: the
/// master ends its put, and its writer hears of it. If the writer hears of a failure, or nothing, it may take effect
/// at any later time. A removal empties the register. A miss is judged only if the key was readable all the time.
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
    /// The bounds for reads, each with the event from which it holds. Both grow.
    bounds: Vec<(u64, Bound)>,
    /// The last event at which the master had no readable object under the key.
    absent_at: u64,
}

/// The oldest version that may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    version: Version,
    /// Whether that version was removed: then reads may return only newer ones.
    is_removed: bool,
}

impl History {
    /// Notes that a master granted a put.
    pub(crate) fn grant(&mut self, key: usize, version: Version) {
        self.granted.insert(version, Life { key, is_ended: false });
    }

    /// Notes that a master ended a put.
    pub(crate) fn end(&mut self, key: usize, version: Version) {
        self.granted.insert(version, Life { key, is_ended: true });
    }

    /// Notes that a writer knows its version to be complete, or that a reader got it.
    pub(crate) fn know(&mut self, key: usize, version: Version, event: u64) {
        self.bind(key, Bound { version, is_removed: false }, event);
    }

    /// Notes that a client knows its removal to be done. The removal took this version and all older ones.
    pub(crate) fn remove(&mut self, key: usize, newest: Version, event: u64) {
        self.bind(key, Bound { version: newest, is_removed: true }, event);
    }

    fn bind(&mut self, key: usize, bound: Bound, event: u64) {
        let bounds = &mut self.keys.entry(key).or_default().bounds;
        if bounds.last().is_none_or(|(_, newest)| *newest < bound) {
            bounds.push((event, bound));
        }
    }

    /// Whether a client knows this version to be complete, or has read it, and knows of no later change of the key.
    pub(crate) fn is_newest_known(&self, key: usize, version: Version) -> bool {
        let bounds = self.keys.get(&key).map_or(&[][..], |key| &key.bounds);
        bounds.last().is_some_and(|(_, bound)| *bound == Bound { version, is_removed: false })
    }

    /// Notes that the master has no readable object under a key.
    pub(crate) fn absent(&mut self, key: usize, event: u64) {
        self.keys.entry(key).or_default().absent_at = event;
    }

    /// Judges a read that began at event `began` and returned this version. A version whose put no master ended may be
    /// read only if a later leader found its bytes complete.
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

    /// Judges an answer that a key has an object, to a question asked at event `began`.
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

    /// Judges a miss of a read that began at event `began`.
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
