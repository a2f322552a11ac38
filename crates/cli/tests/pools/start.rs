//! The nodes and stores that the tests here start.

use mooncake_client::{Store, StoreConfig};
use mooncake_testing::Node;

pub(crate) const MASTER: &str = env!("CARGO_BIN_EXE_mooncake_master");
pub(crate) const CLIENT: &str = env!("CARGO_BIN_EXE_mooncake_client");

/// A node that follows the master at this address. It lends 32 MB unless the flags say otherwise.
pub(crate) fn node(master: &str, flags: &[&str]) -> Node {
    Node::start(CLIENT, master, &[&["--global_segment_size=32MB"], flags].concat())
}

/// A configuration for stores that lend no memory.
pub(crate) fn config(master: &str) -> StoreConfig {
    StoreConfig {
        master: master.to_owned(),
        segment_bytes: 0,
        ..StoreConfig::from_variables(|_| None).expect("the defaults make sense")
    }
}

/// A store that lends no memory.
pub(crate) fn store(master: &str) -> Store {
    Store::open(config(master)).expect("the master serves")
}
