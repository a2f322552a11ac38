//! Objects by key, where one key may have several.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::record::Object;
use super::records::Records;

/// The objects of each key, in the order of their versions.
#[derive(Debug, Default)]
pub(crate) struct ByKey(HashMap<Box<str>, Vec<u32>, FixedState>);

impl ByKey {
    /// How many keys have objects.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, key: &str) -> &[u32] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn insert(&mut self, objects: &Records<Object>, object: u32) {
        let Object { key, version, .. } = &objects[object];
        let Some(of_key) = self.0.get_mut(key) else {
            self.0.insert(key.clone(), vec![object]);
            return;
        };
        let place = of_key.partition_point(|&other| objects[other].version < *version);
        of_key.insert(place, object);
    }

    /// Removes an object, which must be there.
    pub(crate) fn remove(&mut self, objects: &Records<Object>, object: u32) {
        let key = &*objects[object].key;
        let of_key = self.0.get_mut(key).expect("the object is kept by its key");
        of_key.retain(|&other| other != object);
        if of_key.is_empty() {
            self.0.remove(key);
        }
    }
}
