//! The index from keys to objects. It has many shards, so that growing one is a short pause, however many objects
//! there are.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use mooncake_types::{ErrorCode, limits};
use std::hash::BuildHasher;
use std::hint::black_box;

use super::record::{Object, Range};
use super::records::Records;
use crate::slab::NONE;

pub(crate) const SHARDS: usize = 256;

/// Look-ups whose waits for memory overlap.
const AT_ONCE: usize = 32;

/// A key and its hash, so that the hash is computed once for each key of a request.
#[derive(Clone, Copy)]
pub(crate) struct Hashed<'k> {
    pub(crate) key: &'k str,
    pub(crate) hash: u64,
}

#[derive(Debug)]
pub(crate) struct Index {
    shards: Vec<HashTable<u32>>,
    state: FixedState,
}

impl Index {
    /// `seed` decides the order inside the tables, on which no answer depends.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            state: FixedState::with_seed(seed),
        }
    }

    pub(crate) fn hash(&self, key: &str) -> u64 {
        self.state.hash_one(key)
    }

    pub(crate) fn hashed<'k>(&self, key: &'k str) -> Hashed<'k> {
        Hashed { key, hash: self.hash(key) }
    }

    pub(crate) fn get(&self, objects: &Records<Object>, key: Hashed<'_>) -> Option<u32> {
        let Hashed { key, hash } = key;
        self.shards[shard(hash)].find(hash, |&id| &*objects[id].key == key).copied()
    }

    /// Whether `is_wanted` holds for an object whose key has this hash.
    pub(crate) fn has_hashed(
        &self,
        objects: &Records<Object>,
        hash: u64,
        is_wanted: impl Fn(&Object) -> bool,
    ) -> bool {
        self.find_hashed(objects, hash, is_wanted).is_some()
    }

    /// An object for which `is_wanted` holds and whose key has this hash.
    pub(crate) fn find_hashed(
        &self,
        objects: &Records<Object>,
        hash: u64,
        is_wanted: impl Fn(&Object) -> bool,
    ) -> Option<u32> {
        // The table itself compares only seven bits of the hash.
        let is_it =
            |&id: &u32| is_wanted(&objects[id]) && self.state.hash_one(&*objects[id].key) == hash;
        self.shards[shard(hash)].find(hash, is_it).copied()
    }

    /// Has the processor load the records that look-ups of these keys will read, for many keys at once. In a large
    /// pool nearly every step of a look-up waits for memory, and look-ups in sequence would wait at each step.
    pub(crate) fn fetch_ahead<'k>(
        &self,
        objects: &Records<Object>,
        ranges: &Records<Range>,
        mut keys: impl Iterator<Item = &'k str>,
    ) {
        loop {
            let (mut hashes, mut guesses) = ([0; AT_ONCE], [NONE; AT_ONCE]);
            let mut count = 0;
            for (hash, key) in hashes.iter_mut().zip(keys.by_ref()) {
                *hash = self.hash(key);
                count += 1;
            }
            // This compares seven bits of the hash, and seldom finds another key's object.
            for (guess, &hash) in guesses.iter_mut().zip(&hashes[..count]) {
                *guess = self.shards[shard(hash)].find(hash, |_| true).copied().unwrap_or(NONE);
            }
            let found = guesses.iter().filter_map(|&guess| objects.get(guess));
            let read = found.filter_map(|object| {
                let key = object.key.as_bytes();
                let range = ranges.get(object.first_range)?;
                Some(u32::from(key[0] ^ key[key.len() - 1]) ^ range.next)
            });
            black_box(read.fold(0, |all, one| all ^ one));
            if count < AT_ONCE {
                return;
            }
        }
    }

    /// Makes room for this many further keys, so that no table grows while they are inserted.
    pub(crate) fn reserve(&mut self, objects: &Records<Object>, keys: usize) {
        // Keys do not spread evenly over the shards.
        let each = (keys / SHARDS).saturating_mul(17) / 16;
        for shard in &mut self.shards {
            shard.reserve(each, |&id| self.state.hash_one(&*objects[id].key));
        }
    }

    /// The key must not be in the index.
    pub(super) fn insert(&mut self, objects: &Records<Object>, id: u32) {
        self.insert_hashed(objects, id, self.hash(&objects[id].key));
    }

    /// As [`insert`](Self::insert), for callers that have the key's hash already.
    pub(super) fn insert_hashed(&mut self, objects: &Records<Object>, id: u32, hash: u64) {
        let state = &self.state;
        self.shards[shard(hash)].insert_unique(hash, id, |&id| state.hash_one(&*objects[id].key));
    }

    pub(super) fn remove(&mut self, objects: &Records<Object>, id: u32) {
        let hash = self.state.hash_one(&*objects[id].key);
        let entry = self.shards[shard(hash)].find_entry(hash, |&found| found == id);
        assert!(entry.is_ok(), "object {id} leaves an index that it is not in");
        if let Ok(entry) = entry {
            entry.remove();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }
}

/// The tables use the low bits of a hash for the bucket and the top seven for the tag. The shard uses bits between.
pub(crate) fn shard(hash: u64) -> usize {
    (hash >> 48) as usize % SHARDS
}

/// Refuses a key whose length the store does not accept.
pub(crate) fn check_key(key: &str) -> Result<(), ErrorCode> {
    match (1..=limits::MAX_KEY_BYTES).contains(&key.len()) {
        true => Ok(()),
        false => Err(ErrorCode::InvalidKey),
    }
}
