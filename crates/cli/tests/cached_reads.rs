//! Reads by known routes while the master, a process of its own, stands still.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_testing::Program;
use rustix::process::Signal;

/// A running master.
struct Master {
    program: Program,
    rpc: String,
}

impl Master {
    fn start() -> Self {
        let args = [
            "--rpc_port=0",
            "--port=0",
            "--metrics_port=0",
            "--rpc_address=127.0.0.1",
            "--metrics_host=127.0.0.1",
            "--default_kv_lease_ttl=4s",
            "--state_dir=none",
        ];
        let program = Program::start(env!("CARGO_BIN_EXE_mooncake_master"), &args);
        let rpc = Program::field(&program.line("the master serves"), "rpc_addr=");
        Self { program, rpc }
    }

    fn open(&self, segment_bytes: u64) -> Store {
        Store::open(StoreConfig {
            local_hostname: "127.0.0.1".to_owned(),
            master: self.rpc.clone(),
            segment_bytes,
            rpc_timeout: Duration::from_secs(1),
            ..StoreConfig::default()
        })
        .expect("the store opens")
    }
}

fn get(store: &Store, key: &str) -> Result<Vec<u8>, ErrorCode> {
    store.get(&[key]).remove(0).map(Buffer::into_vec)
}

#[test]
fn reads_go_on_within_the_lease_while_the_master_stands_still() {
    for signal in [Signal::STOP, Signal::KILL] {
        let master = Master::start();
        let (node, client) = (master.open(16 << 20), master.open(0));
        let bytes = Buffer::from_vec(vec![7; 100_000]);
        let source = PutSource::new("key", SliceList::from(bytes.raw()));
        assert_eq!(node.put(&[source], &ReplicateConfig::default()), [Ok(())]);
        let looked_up = Instant::now();
        assert_eq!(get(&client, "key"), Ok(vec![7; 100_000]));
        master.program.signal(signal);
        let within = || looked_up.elapsed() < Duration::from_millis(3_600);
        while within() {
            let read = get(&client, "key");
            assert!(read == Ok(vec![7; 100_000]) || !within(), "{:?}", read.map(|it| it.len()));
        }
        let deadline = looked_up + Duration::from_secs(20);
        while get(&client, "key").is_ok() {
            assert!(Instant::now() < deadline, "the lease never ends");
        }
    }
}
