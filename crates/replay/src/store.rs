//! The store as the pool of a replay.

use mooncake_client::{GetTarget, PutSource, Store};
use mooncake_types::{ErrorCode, ReplicateConfig};

use crate::pool::{Item, Pool};

impl Pool for Store {
    fn exist(&self, keys: &[&str]) -> Vec<Result<bool, ErrorCode>> {
        Store::exist(self, keys)
    }

    fn get_into(&self, items: &[Item<'_>]) -> Vec<Result<u64, ErrorCode>> {
        let targets: Vec<GetTarget<'_>> =
            items.iter().map(|&(key, slice)| GetTarget { key, dst: slice.into() }).collect();
        Store::get_into(self, &targets)
    }

    fn put(&self, items: &[Item<'_>]) -> Vec<Result<(), ErrorCode>> {
        let sources: Vec<PutSource<'_>> =
            items.iter().map(|&(key, slice)| PutSource::new(key, slice.into())).collect();
        Store::put(self, &sources, &ReplicateConfig::default())
    }
}
