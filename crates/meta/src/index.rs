//! Key to object. Split into shards so that growing one of them is a short pause however many objects there are.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use crate::record::Object;
use crate::slab::Slab;

const SHARDS: usize = 256;

#[derive(Debug)]
pub(crate) struct Index {
    shards: Vec<HashTable<u32>>,
    state: FixedState,
}

impl Index {
    /// `seed` decides the order inside the tables, which is never seen.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            state: FixedState::with_seed(seed),
        }
    }

    pub(crate) fn hash(&self, key: &str) -> u64 {
        self.state.hash_one(key)
    }

    pub(crate) fn get(&self, objects: &Slab<Object>, key: &str) -> Option<u32> {
        let hash = self.hash(key);
        self.shards[shard(hash)].find(hash, |&id| &*objects[id].key == key).copied()
    }

    /// The key must not be in the index.
    pub(crate) fn insert(&mut self, objects: &Slab<Object>, id: u32) {
        let hash = self.state.hash_one(&*objects[id].key);
        let state = &self.state;
        self.shards[shard(hash)].insert_unique(hash, id, |&id| state.hash_one(&*objects[id].key));
    }

    pub(crate) fn remove(&mut self, objects: &Slab<Object>, id: u32) {
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

/// The tables use the low bits for the bucket and the top seven for the tag; the shard takes bits between.
fn shard(hash: u64) -> usize {
    (hash >> 48) as usize % SHARDS
}
