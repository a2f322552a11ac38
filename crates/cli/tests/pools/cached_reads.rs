//! Reads through cached routes while the master process is paused or killed.

use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_testing::Master;
use rustix::process::Signal;

use crate::start::MASTER;

fn open(master: &Master, segment_bytes: u64) -> Store {
    Store::open(StoreConfig {
        local_hostname: "127.0.0.1".to_owned(),
        master: master.rpc.clone(),
        segment_bytes,
        rpc_timeout: Duration::from_secs(1),
        ..StoreConfig::default()
    })
    .expect("the store opens")
}

fn get(store: &Store, key: &str) -> Result<Vec<u8>, ErrorCode> {
    store.get(&[key]).remove(0).map(Buffer::into_vec)
}

#[test]
fn reads_go_on_for_a_while_when_the_master_is_paused_or_killed() {
    // A client that lends no memory pings the master twice within this time.
    const ROUTES_LAST: Duration = Duration::from_millis(450);
    for signal in [Signal::STOP, Signal::KILL] {
        let master = Master::start(MASTER, &["--default_kv_lease_ttl=4s"]);
        let (node, client) = (open(&master, 16 << 20), open(&master, 0));
        let bytes = Buffer::from_vec(vec![7; 100_000]);
        let source = PutSource::new("key", SliceList::from(bytes.raw()));
        assert_eq!(node.put(&[source], &ReplicateConfig::default()), [Ok(())]);
        assert_eq!(get(&client, "key"), Ok(vec![7; 100_000]));
        let left = Instant::now();
        master.program.signal(signal);
        let within = || left.elapsed() < ROUTES_LAST;
        while within() {
            let read = get(&client, "key");
            assert!(read == Ok(vec![7; 100_000]) || !within(), "{:?}", read.map(|it| it.len()));
        }
        let deadline = left + Duration::from_secs(20);
        while get(&client, "key").is_ok() {
            assert!(Instant::now() < deadline, "the route never ends");
        }
    }
}
