//! Nodes that are killed, or paused, under a store that uses them.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_testing::{PATIENCE, Program};
use rustix::process::Signal;

/// A master with its nodes, and a store that lends nothing.
struct Pool {
    address: String,
    admin: String,
    nodes: Vec<Program>,
    store: Store,
    _master: Program,
}

impl Pool {
    /// With one node, and then a second one after `begin` has put what is to lie on the first.
    fn start(begin: impl FnOnce(&Pool)) -> Pool {
        let free = ["--rpc_port=0", "--port=0", "--metrics_port=0", "--state_dir=none"];
        let here = ["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1"];
        let args: Vec<&str> = free.into_iter().chain(here).collect();
        let master = Program::start(env!("CARGO_BIN_EXE_mooncake_master"), &args);
        let line = master.line("the master serves");
        let (address, admin) =
            (Program::field(&line, "rpc_addr="), Program::field(&line, "admin_addr="));
        let config = StoreConfig {
            master: address.clone(),
            segment_bytes: 0,
            // As from another host: memory that is shared can be read while its process is paused.
            transports: "tcp".parse().expect("a transport"),
            ..StoreConfig::from_variables(|_| None).expect("the defaults make sense")
        };
        let store = Store::open(config).expect("the master serves");
        let mut pool = Pool { address, admin, nodes: Vec::new(), store, _master: master };
        pool.add_node();
        begin(&pool);
        pool.add_node();
        pool
    }

    fn add_node(&mut self) {
        let master = format!("--master_server_address={}", self.address);
        let args = ["--host=127.0.0.1", "--global_segment_size=32MB", "--port=0", &master];
        let node = Program::start(env!("CARGO_BIN_EXE_mooncake_client"), &args);
        node.line("the storage node is ready");
        self.nodes.push(node);
    }

    fn put(&self, key: &str, replica_num: u32) -> Result<(), ErrorCode> {
        let value = Buffer::from_vec(value(key));
        let source = PutSource::new(key, SliceList::from(value.raw()));
        let config = ReplicateConfig { replica_num, ..ReplicateConfig::default() };
        self.store.put(&[source], &config).remove(0)
    }

    /// What a get gives, and how long it takes. Bytes that it gives are right.
    fn get(&self, key: &str) -> (Result<(), ErrorCode>, Duration) {
        let begun = Instant::now();
        let got = self.store.get(&[key]).remove(0);
        let took = begun.elapsed();
        (got.map(|buffer| assert!(buffer.into_vec() == value(key), "{key} is wrong")), took)
    }

    fn exists(&self, key: &str) -> bool {
        self.store.exist(&[key]).remove(0).expect("the master answers")
    }

    /// How long it takes until a key is there, or until it is not.
    fn wait(&self, key: &str, there: bool) -> Duration {
        let begun = Instant::now();
        while self.exists(key) != there {
            assert!(begun.elapsed() < PATIENCE, "{key}: {there} never comes");
            std::thread::sleep(Duration::from_millis(1));
        }
        begun.elapsed()
    }

    fn metric(&self, line: &str) {
        let mut stream = TcpStream::connect(&self.admin).expect("the admin server listens");
        let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers");
        assert!(answer.lines().any(|found| found == line), "{line} is not in\n{answer}");
    }
}

/// Bytes that say which key they are of.
fn value(key: &str) -> Vec<u8> {
    key.bytes().cycle().take(200_000).collect()
}

const NOT_FOUND: Result<(), ErrorCode> = Err(ErrorCode::ObjectNotFound);

fn within(took: Duration, ms: u64, what: &str) {
    assert!(took < Duration::from_millis(ms), "{what} took {took:?}");
}

#[test]
fn the_keys_of_a_killed_node_are_missing_at_once_and_can_be_put_again() {
    let mut pool = Pool::start(|pool| {
        for key in ["read", "unread", "early"] {
            pool.put(key, 1).expect("there is room");
        }
        assert_eq!(pool.get("read").0, Ok(()));
    });
    pool.put("both", 2).expect("there is room");
    pool.nodes[0].kill();
    let (early, took) = pool.get("early");
    assert!(matches!(early, Err(ErrorCode::ObjectNotFound | ErrorCode::TransferFail)), "{early:?}");
    within(took, 100, "a get of what was just lost");
    within(pool.wait("read", false), 300, "noticing");
    for key in ["read", "unread", "early"] {
        let (got, took) = pool.get(key);
        assert_eq!(got, NOT_FOUND, "{key}");
        within(took, 100, "a miss");
    }
    assert_eq!(pool.get("both").0, Ok(()), "the other replica serves");
    pool.metric("master_segments_out_of_sight 1");
    for key in ["read", "unread", "early"] {
        assert_eq!(pool.put(key, 1), Ok(()), "{key}");
        assert_eq!(pool.get(key).0, Ok(()), "{key}");
    }
}

#[test]
fn the_keys_of_a_paused_node_vanish_and_come_back() {
    let pool = Pool::start(|pool| {
        for key in ["kept", "again"] {
            pool.put(key, 1).expect("there is room");
            assert_eq!(pool.get(key).0, Ok(()));
        }
    });
    pool.nodes[0].signal(Signal::STOP);
    let (got, took) = pool.get("kept");
    assert!(got.is_err(), "its node is paused");
    within(took, 1_000, "a get from a node that says nothing");
    let (_, took) = pool.get("kept");
    within(took, 100, "another");
    within(pool.wait("kept", false), 1_500, "noticing");
    assert_eq!(pool.put("again", 1), Ok(()));
    assert_eq!(pool.get("again").0, Ok(()));
    pool.metric("master_segments_out_of_sight 1");
    pool.nodes[0].signal(Signal::CONT);
    within(pool.wait("kept", true), 2_000, "coming back");
    let begun = Instant::now();
    while pool.get("kept").0 != Ok(()) {
        assert!(begun.elapsed() < PATIENCE, "kept cannot be read any more");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(pool.get("again").0, Ok(()));
    pool.metric("master_segments_out_of_sight 0");
}

#[test]
fn a_put_goes_to_another_node_when_one_is_paused() {
    let pool = Pool::start(|_| {});
    pool.nodes[0].signal(Signal::STOP);
    for number in 0..8 {
        let begun = Instant::now();
        assert_eq!(pool.put(&format!("key-{number}"), 1), Ok(()));
        // Whatever the paused node may yet take of it must not come back: the master notes that first.
        within(begun.elapsed(), 2_000, "a put");
    }
    for number in 0..8 {
        assert_eq!(pool.get(&format!("key-{number}")).0, Ok(()));
    }
}
