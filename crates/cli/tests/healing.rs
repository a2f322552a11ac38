//! Replicas that are lost with their nodes and made anew, and replicas for what is read often, with real processes.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_testing::{PATIENCE, Program};

const OBJECTS: usize = 60;

/// A master whose nodes are given up fast, its nodes, and a store that lends nothing.
struct Pool {
    address: String,
    admin: String,
    nodes: Vec<Program>,
    store: Store,
    master: Program,
}

impl Pool {
    fn start(nodes: usize, flags: &[&str]) -> Pool {
        let free = ["--rpc_port=0", "--port=0", "--metrics_port=0", "--state_dir=none"];
        let here = ["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1"];
        let fast = ["--client_ttl=1", "--default_kv_lease_ttl=500"];
        let args: Vec<&str> = [&free[..], &here, &fast, flags].concat();
        let master = Program::start(env!("CARGO_BIN_EXE_mooncake_master"), &args);
        let line = master.line("the master serves");
        let (address, admin) =
            (Program::field(&line, "rpc_addr="), Program::field(&line, "admin_addr="));
        let config = StoreConfig {
            master: address.clone(),
            segment_bytes: 0,
            ..StoreConfig::from_variables(|_| None).expect("the defaults make sense")
        };
        let store = Store::open(config).expect("the master serves");
        let mut pool = Pool { address, admin, nodes: Vec::new(), store, master };
        for _ in 0..nodes {
            pool.add_node();
        }
        pool
    }

    fn add_node(&mut self) {
        let master = format!("--master_server_address={}", self.address);
        let args = ["--host=127.0.0.1", "--global_segment_size=32MB", "--port=0", &master];
        let node = Program::start(env!("CARGO_BIN_EXE_mooncake_client"), &args);
        node.line("the storage node is ready");
        self.nodes.push(node);
    }

    fn put(&self, key: &str, replica_num: u32) {
        let value = Buffer::from_vec(value(key));
        let source = PutSource::new(key, SliceList::from(value.raw()));
        let config = ReplicateConfig { replica_num, ..ReplicateConfig::default() };
        let put = self.store.put(&[source], &config).remove(0);
        assert_eq!(put, Ok(()), "{key}");
    }

    /// Bytes that a get gives are right.
    fn get(&self, key: &str) -> Result<(), ErrorCode> {
        let got = self.store.get(&[key]).remove(0);
        got.map(|buffer| assert!(buffer.into_vec() == value(key), "{key} is wrong"))
    }

    fn get_all(&self, when: &str) {
        for number in 0..OBJECTS {
            assert_eq!(self.get(&key(number)), Ok(()), "{} {when}", key(number));
        }
    }

    fn metric(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(&self.admin).expect("the admin server listens");
        let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers");
        let mut values =
            answer.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = values.next_back().unwrap_or_else(|| panic!("no {name} in\n{answer}"));
        value.parse().expect("a number")
    }

    /// Waits until a metric has a value, and has `act` done meanwhile.
    fn wait(&self, name: &str, value: u64, act: impl Fn()) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.metric(name);
            if found == value {
                return;
            }
            assert!(Instant::now() < deadline, "{name} is {found} and not {value}");
            act();
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn key(number: usize) -> String {
    format!("object {number}")
}

/// Bytes that say which key they are of.
fn value(key: &str) -> Vec<u8> {
    key.bytes().cycle().take(100_000).collect()
}

#[test]
fn what_has_two_replicas_outlives_nodes_that_are_killed_one_after_the_other() {
    let mut pool = Pool::start(2, &[]);
    for number in 0..OBJECTS {
        pool.put(&key(number), 2);
    }
    for (killed, round) in [(0, 1), (1, 2), (2, 3)] {
        pool.nodes[killed].kill();
        pool.get_all("at once, from the other replica");
        pool.add_node();
        pool.wait("master_repaired_replicas_total", (round * OBJECTS) as u64, || {
            pool.get_all("while it is repaired");
        });
        assert_eq!(pool.metric("master_objects_lacking_replicas"), 0);
        let line = pool.master.line("all lost replicas were made anew");
        assert_eq!(Program::field(&line, "replicas="), OBJECTS.to_string(), "{line}");
    }
    pool.get_all("after all nodes of before are gone");
}

#[test]
fn what_is_removed_or_replaced_while_it_is_repaired_is_not_brought_back() {
    let mut pool = Pool::start(2, &["--repair_bytes_per_second=2MB"]);
    for number in 0..OBJECTS {
        pool.put(&key(number), 2);
    }
    pool.nodes[0].kill();
    pool.add_node();
    let deadline = Instant::now() + PATIENCE;
    while pool.metric("master_repaired_replicas_total") == 0 {
        assert!(Instant::now() < deadline, "nothing is repaired");
        std::thread::sleep(Duration::from_millis(5));
    }
    let keys: Vec<String> = (0..OBJECTS).map(key).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for removed in pool.store.remove(&keys, true) {
        assert_eq!(removed, Ok(()));
    }
    pool.wait("master_objects_lacking_replicas", 0, || {});
    pool.wait("master_repairs_running", 0, || {});
    for key in keys {
        assert_eq!(pool.get(key), Err(ErrorCode::ObjectNotFound), "{key}");
    }
}

#[test]
fn an_object_that_one_client_reads_by_its_cached_route_gets_a_second_replica() {
    let hot = ["--dynamic_replication_mode=enforce", "--dynamic_replication_heat_window_seconds=3"];
    let mut pool =
        Pool::start(2, &[&hot[..], &["--dynamic_replication_admission_qps_threshold=20"]].concat());
    pool.put("hot", 1);
    pool.put("cold", 1);
    // Sixty reads in three seconds are far more than the master is asked for.
    pool.wait("master_dynamic_replicas_total", 1, || {
        for _ in 0..5 {
            assert_eq!(pool.get("hot"), Ok(()));
        }
        assert_eq!(pool.get("cold"), Ok(()));
    });
    assert_eq!(pool.metric("master_dynamic_replica_objects"), 1);
    let line = pool.master.line("an object is read often");
    assert_eq!(Program::field(&line, "key="), "\"hot\"", "{line}");
    // Either replica alone serves it.
    let asked = pool.metric("master_segments_out_of_sight");
    assert_eq!(asked, 0);
    pool.nodes[0].kill();
    assert_eq!(pool.get("hot"), Ok(()));
}
