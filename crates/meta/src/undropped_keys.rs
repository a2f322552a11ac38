//! What is undropped, by key. In shards, like the index, so that growing is a short pause.

use hashbrown::HashTable;

use crate::index::{SHARDS, shard};
use crate::undropped::Place;

/// An entry: the hash of its key, its segment's slot, its place.
type Entry = (u64, u32, Place);

#[derive(Debug)]
pub(crate) struct UndroppedKeys {
    shards: Vec<HashTable<Entry>>,
    len: usize,
}

impl Default for UndroppedKeys {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect(), len: 0 }
    }
}

impl UndroppedKeys {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, entry: Entry) {
        let shard = &mut self.shards[shard(entry.0)];
        if shard.find(entry.0, |it| *it == entry).is_none() {
            shard.insert_unique(entry.0, entry, |it| it.0);
            self.len += 1;
        }
    }

    pub(crate) fn remove(&mut self, entry: Entry) {
        if let Ok(found) = self.shards[shard(entry.0)].find_entry(entry.0, |it| *it == entry) {
            found.remove();
            self.len -= 1;
        }
    }

    pub(crate) fn contains(&self, entry: Entry) -> bool {
        self.shards[shard(entry.0)].find(entry.0, |it| *it == entry).is_some()
    }

    /// The entries of a key with this hash, in no order.
    pub(crate) fn of_key(&self, hash: u64) -> impl Iterator<Item = (u32, Place)> {
        let alike = self.shards[shard(hash)].iter_hash(hash);
        alike.filter(move |entry| entry.0 == hash).map(|&(_, slot, place)| (slot, place))
    }
}
