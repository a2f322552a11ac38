//! Joins a pool, puts an object, gets it back and removes it.
//!
//! Start a master first, then: `cargo run -p mooncake-client --example quickstart [host:port of the master]`.

use mooncake_client::{ReplicateConfig, Store, StoreConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let master = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:50051".to_owned());
    let store = Store::open(StoreConfig {
        master,
        // Memory that this process lends to the pool; a pure client lends none.
        segment_bytes: 64 << 20,
        ..StoreConfig::from_env()?
    })?;
    println!("joined as {}", store.hostname());

    store.put_bytes("greeting", b"hello, pool", &ReplicateConfig::default())?;
    for found in store.get(&["greeting"]) {
        println!("got {:?}", String::from_utf8_lossy(found?.as_slice()));
    }
    for removed in store.remove(&["greeting"], true) {
        removed?;
    }
    store.close();
    Ok(())
}
