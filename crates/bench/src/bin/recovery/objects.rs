use std::time::{Duration, Instant};

use mooncake_client::{Buffer, PutSource, ReplicateConfig, SliceList, Store};

use crate::Outcome;

const VALUE_BYTES: usize = 64;

const KEY_BYTES: usize = 120;

/// How many keys one call names.
const BATCH: usize = 4096;

/// One object in this many is read and compared.
const READ_ONE_IN: usize = 100;

/// Small objects, whose values are the ends of their keys.
pub(crate) struct Objects {
    keys: Vec<String>,
    values: Buffer,
}

impl Objects {
    pub(crate) fn new(count: usize) -> Self {
        let keys: Vec<String> = (0..count).map(|it| format!("{it:0KEY_BYTES$}")).collect();
        let bytes = keys.iter().flat_map(|key| value(key)).copied().collect();
        Self { keys, values: Buffer::from_vec(bytes) }
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        (self.keys.len() * VALUE_BYTES) as u64
    }

    pub(crate) fn put(&self, store: &Store) -> Outcome<()> {
        for (batch, keys) in self.keys.chunks(BATCH).enumerate() {
            let source = |(number, key)| {
                let at = (batch * BATCH + number) * VALUE_BYTES;
                PutSource::new(key, SliceList::from(self.values.raw().sub(at, VALUE_BYTES)))
            };
            let keys = keys.iter().map(String::as_str);
            let sources: Vec<PutSource<'_>> = keys.enumerate().map(source).collect();
            store
                .put(&sources, &ReplicateConfig::default())
                .into_iter()
                .collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// Waits until the store finds every object.
    pub(crate) fn wait_for(&self, store: &Store, patience: Duration) -> Outcome<()> {
        let begun = Instant::now();
        for keys in self.keys.chunks(BATCH) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            while !store.exist(&keys).iter().all(|found| *found == Ok(true)) {
                if begun.elapsed() > patience {
                    return Err("some objects never came back".into());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// Reads some objects, compares their bytes, and returns how many they were.
    pub(crate) fn read_some(&self, store: &Store) -> Outcome<usize> {
        let keys: Vec<&str> = self.keys.iter().step_by(READ_ONE_IN).map(String::as_str).collect();
        for (key, got) in keys.iter().zip(store.get(&keys)) {
            if got?.as_slice() != value(key) {
                return Err(format!("wrong bytes of {key}").into());
            }
        }
        Ok(keys.len())
    }
}

fn value(key: &str) -> &[u8] {
    &key.as_bytes()[KEY_BYTES - VALUE_BYTES..]
}
