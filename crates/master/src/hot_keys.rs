//! The objects that were last found to be read often, so that operators learn their names. The state machine reports
//! them if it counts reads; nothing is counted for this.

use std::collections::VecDeque;

use mooncake_types::{DEFAULT_TENANT, ShownKey, Tick, split_tenant};

/// Most keys that are remembered.
const MOST: usize = 16;
/// How long a key is named.
const TOLD_MS: u64 = 3_600_000;

/// An object that is read often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HotKey {
    /// Its key, as logs show it, and its tenant, if that is not the default one.
    pub(crate) key: String,
    /// The replicas that it had in memory.
    pub(crate) replicas: u32,
    /// When it was reported.
    seen: Tick,
}

impl HotKey {
    /// How long ago it was reported.
    pub(crate) fn ago_ms(&self, now: Tick) -> u64 {
        now.since_ms(self.seen)
    }
}

/// See the module. The last one comes first.
#[derive(Debug, Default)]
pub(crate) struct HotKeys(VecDeque<HotKey>);

impl HotKeys {
    /// Notes that an object was found to be read often.
    pub(crate) fn note(&mut self, now: Tick, key: &str, replicas: u32) {
        let (tenant, key) = split_tenant(key);
        let key = match tenant {
            DEFAULT_TENANT => ShownKey(key).to_string(),
            tenant => format!("{} of {tenant}", ShownKey(key)),
        };
        self.0.retain(|known| known.key != key);
        self.0.truncate(MOST - 1);
        self.0.push_front(HotKey { key, replicas, seen: now });
    }

    /// Those of the last hour.
    pub(crate) fn recent(&self, now: Tick) -> Vec<HotKey> {
        self.0.iter().filter(|known| known.ago_ms(now) < TOLD_MS).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_named_once_and_for_an_hour() {
        let mut hot = HotKeys::default();
        hot.note(Tick(0), "a", 1);
        hot.note(Tick(10), "b", 1);
        hot.note(Tick(20), "a", 2);
        let seen = |now| {
            let recent = hot.recent(Tick(now));
            recent
                .iter()
                .map(|it| (it.key.clone(), it.replicas, it.ago_ms(Tick(now))))
                .collect::<Vec<_>>()
        };
        assert_eq!(seen(30), [("\"a\"".to_owned(), 2, 10), ("\"b\"".to_owned(), 1, 20)]);
        assert_eq!(seen(TOLD_MS + 10), [("\"a\"".to_owned(), 2, TOLD_MS - 10)]);
        assert_eq!(seen(TOLD_MS + 20), []);
    }

    #[test]
    fn the_last_keys_are_remembered_and_no_more() {
        let mut hot = HotKeys::default();
        (0..100).for_each(|key| hot.note(Tick(key), &format!("{key}"), 1));
        let keys: Vec<String> = hot.recent(Tick(100)).into_iter().map(|it| it.key).collect();
        assert_eq!(keys.len(), MOST);
        assert_eq!((&*keys[0], &*keys[MOST - 1]), ("\"99\"", "\"84\""));
    }
}
