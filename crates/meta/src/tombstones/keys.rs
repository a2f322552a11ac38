//! Tombstones by key, in shards like the index, so that a table that grows causes only a short pause.

use std::collections::BTreeSet;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::entry::EntryId;
use crate::objects::{SHARDS, shard};

/// A place on a segment: the slot, and the entry there.
type At = (u32, EntryId);

#[derive(Debug)]
pub(crate) struct Keys {
    shards: Vec<HashTable<OfKey>>,
    len: usize,
}

/// The tombstones of the keys with one hash.
#[derive(Debug)]
struct OfKey {
    hash: u64,
    entries: KeyEntries,
}

/// Nearly always one entry. A key that is put and removed over and over may have very many.
#[derive(Debug)]
enum KeyEntries {
    One(At),
    Many(BTreeSet<At>),
}

impl Default for Keys {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect(), len: 0 }
    }
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, hash: u64, at: At) {
        let of_key = self.shards[shard(hash)].entry(hash, |it| it.hash == hash, |it| it.hash);
        let is_new = match of_key {
            Entry::Vacant(vacant) => {
                vacant.insert(OfKey { hash, entries: KeyEntries::One(at) });
                true
            }
            Entry::Occupied(mut known) => known.get_mut().entries.insert(at),
        };
        self.len += usize::from(is_new);
    }

    pub(crate) fn remove(&mut self, hash: u64, at: At) {
        let Ok(mut known) = self.shards[shard(hash)].find_entry(hash, |it| it.hash == hash) else {
            return;
        };
        let was_there = match &mut known.get_mut().entries {
            KeyEntries::One(one) => *one == at,
            KeyEntries::Many(many) => many.remove(&at),
        };
        let is_empty = match &known.get().entries {
            KeyEntries::One(_) => was_there,
            KeyEntries::Many(many) => many.is_empty(),
        };
        if is_empty {
            known.remove();
        }
        self.len -= usize::from(was_there);
    }

    pub(crate) fn contains(&self, hash: u64, at: At) -> bool {
        self.of_key(hash).any(|it| it == at)
    }

    /// The tombstones of keys with this hash, by segment.
    pub(crate) fn of_key(&self, hash: u64) -> impl Iterator<Item = At> {
        let of_key = self.shards[shard(hash)].find(hash, |it| it.hash == hash);
        let (one, many) = match of_key.map(|it| &it.entries) {
            None => (None, None),
            Some(KeyEntries::One(one)) => (Some(one), None),
            Some(KeyEntries::Many(many)) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten()).copied()
    }
}

impl KeyEntries {
    /// Adds an entry. Returns whether it is new.
    fn insert(&mut self, at: At) -> bool {
        match self {
            Self::One(one) if *one == at => false,
            Self::One(one) => {
                *self = Self::Many(BTreeSet::from([*one, at]));
                true
            }
            Self::Many(many) => many.insert(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::Version;

    use super::*;

    #[test]
    fn entries_of_a_key_are_those_that_were_put_in_and_not_removed() {
        let at = |number: u32| (number % 3, (u64::from(number), Version::default()));
        let (mut keys, mut expected) = (Keys::default(), BTreeSet::new());
        let mut dice = mooncake_types::Chance::new(5);
        for _ in 0..20_000 {
            let roll = dice.bits();
            let (hash, number) = (((roll >> 8) % 7) << 46, (roll >> 16) as u32 % 9);
            match roll & 1 {
                0 => {
                    keys.insert(hash, at(number));
                    expected.insert((hash, at(number)));
                }
                _ => {
                    keys.remove(hash, at(number));
                    expected.remove(&(hash, at(number)));
                }
            }
            let of_key: Vec<At> = keys.of_key(hash).collect();
            let wanted = expected.iter().filter(|it| it.0 == hash).map(|it| it.1);
            assert_eq!(of_key, wanted.collect::<Vec<At>>());
            assert_eq!(keys.len(), expected.len());
            assert_eq!(keys.contains(hash, at(number)), expected.contains(&(hash, at(number))));
        }
    }
}
