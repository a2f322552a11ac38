use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mooncake_client::{OpenError, ReplicateConfig, StoreConfig};
use mooncake_host_pool::{HostPool, HostPoolAddress};

/// A folder for one test, removed on drop.
pub(crate) struct TestFolder(pub(crate) PathBuf);

impl TestFolder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mooncake-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn open(&self, segment_bytes: u64) -> Result<HostPool, OpenError> {
        HostPool::open(&address(&format!("local://{}", self.0.display())), config(segment_bytes))
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn address(text: &str) -> HostPoolAddress {
    HostPoolAddress::parse(text).expect("a good address").expect("no master is named")
}

pub(crate) fn config(segment_bytes: u64) -> StoreConfig {
    StoreConfig { segment_bytes, ..StoreConfig::default() }
}

pub(crate) fn put(pool: &HostPool, key: &str, value: &[u8]) {
    let put = pool.put_bytes(key, value, &ReplicateConfig::default());
    put.unwrap_or_else(|code| panic!("{key}: {code}"));
}

pub(crate) fn get(pool: &HostPool, key: &str) -> Option<Vec<u8>> {
    pool.get(&[key]).remove(0).ok().map(|found| found.as_slice().to_vec())
}

/// Polls until it holds.
pub(crate) fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
