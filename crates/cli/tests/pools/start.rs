//! What these tests start.

use mooncake_client::{Store, StoreConfig};
use mooncake_testing::Node;

pub(crate) const MASTER: &str = env!("CARGO_BIN_EXE_mooncake_master");
pub(crate) const CLIENT: &str = env!("CARGO_BIN_EXE_mooncake_client");

/// A node of 32 MB, unless the flags say otherwise, that follows the master at this address.
pub(crate) fn node(master: &str, flags: &[&str]) -> Node {
    Node::start(CLIENT, master, &[&["--global_segment_size=32MB"], flags].concat())
}

/// What stores are made of that lend nothing.
pub(crate) fn config(master: &str) -> StoreConfig {
    StoreConfig {
        master: master.to_owned(),
        segment_bytes: 0,
        ..StoreConfig::from_variables(|_| None).expect("the defaults make sense")
    }
}

/// A store that lends nothing.
pub(crate) fn store(master: &str) -> Store {
    Store::open(config(master)).expect("the master serves")
}
