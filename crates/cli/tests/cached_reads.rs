//! Reads by known routes while the master, a process of its own, stands still.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use rustix::process::{Pid, Signal, kill_process};

/// A running master. Dropping it kills it.
struct Master {
    child: Child,
    rpc: String,
}

impl Master {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mooncake_master"))
            .args(["--rpc_port=0", "--port=0", "--metrics_port=0", "--rpc_address=127.0.0.1"])
            .args(["--metrics_host=127.0.0.1", "--default_kv_lease_ttl=4s", "--state_dir=none"])
            .env_remove("MOONCAKE_AUTH_TOKEN")
            .env_remove("MC_STORE_CLUSTER_ID")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program exists");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let said = lines.find_map(|line| {
            let line = line.expect("it logs text");
            let (_, rest) = line.split_once("rpc_addr=")?;
            rest.split(' ').next().map(str::to_owned)
        });
        // Whatever else it says is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self { rpc: said.expect("it serves"), child }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process id");
        kill_process(pid, signal).expect("the process runs");
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

impl Drop for Master {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
        master.signal(signal);
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
