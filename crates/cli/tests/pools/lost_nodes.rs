//! Nodes that are killed or paused while a store uses them.

use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_testing::{Master, Node, PATIENCE};
use rustix::process::Signal;

use crate::start::{MASTER, config, node};

/// A master with its nodes, and a store that lends no memory.
struct Pool {
    nodes: Vec<Node>,
    store: Store,
    master: Master,
}

impl Pool {
    /// Starts one node, runs `begin` to put objects on it, and starts a second node.
    fn start(begin: impl FnOnce(&Pool)) -> Pool {
        let master = Master::start(MASTER, &[]);
        let config = StoreConfig {
            // Reads over TCP only, as from another host: shared memory would be readable while its process is paused.
            transports: "tcp".parse().expect("a transport"),
            ..config(&master.rpc)
        };
        let store = Store::open(config).expect("the master serves");
        let nodes = vec![node(&master.rpc, &[])];
        let mut pool = Pool { nodes, store, master };
        begin(&pool);
        pool.nodes.push(node(&pool.master.rpc, &[]));
        pool
    }

    fn put(&self, key: &str, replica_num: u32) -> Result<(), ErrorCode> {
        let value = Buffer::from_vec(value(key));
        let source = PutSource::new(key, SliceList::from(value.raw()));
        let config = ReplicateConfig { replica_num, ..ReplicateConfig::default() };
        self.store.put(&[source], &config).remove(0)
    }

    /// Gets a key and checks its bytes. Also returns how long the get took.
    fn get(&self, key: &str) -> (Result<(), ErrorCode>, Duration) {
        let begun = Instant::now();
        let got = self.store.get(&[key]).remove(0);
        let took = begun.elapsed();
        (got.map(|buffer| assert!(buffer.into_vec() == value(key), "{key} is wrong")), took)
    }

    fn exists(&self, key: &str) -> bool {
        self.store.exist(&[key]).remove(0).expect("the master answers")
    }

    /// How long it takes until `exists` answers `there` for this key.
    fn wait(&self, key: &str, there: bool) -> Duration {
        let begun = Instant::now();
        while self.exists(key) != there {
            assert!(begun.elapsed() < PATIENCE, "{key}: {there} never comes");
            std::thread::sleep(Duration::from_millis(1));
        }
        begun.elapsed()
    }
}

/// Bytes generated from the key.
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
    pool.nodes[0].program.kill();
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
    assert_eq!(pool.master.metric("master_segments_out_of_sight"), 1);
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
    pool.nodes[0].program.signal(Signal::STOP);
    let (got, took) = pool.get("kept");
    assert!(got.is_err(), "its node is paused");
    within(took, 1_000, "a get from a node that says nothing");
    let (_, took) = pool.get("kept");
    within(took, 100, "another");
    within(pool.wait("kept", false), 1_500, "noticing");
    assert_eq!(pool.put("again", 1), Ok(()));
    assert_eq!(pool.get("again").0, Ok(()));
    assert_eq!(pool.master.metric("master_segments_out_of_sight"), 1);
    pool.nodes[0].program.signal(Signal::CONT);
    within(pool.wait("kept", true), 2_000, "coming back");
    let begun = Instant::now();
    while pool.get("kept").0 != Ok(()) {
        assert!(begun.elapsed() < PATIENCE, "kept cannot be read any more");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(pool.get("again").0, Ok(()));
    assert_eq!(pool.master.metric("master_segments_out_of_sight"), 0);
}

#[test]
fn a_put_goes_to_another_node_when_one_is_paused() {
    let pool = Pool::start(|_| {});
    pool.nodes[0].program.signal(Signal::STOP);
    for number in 0..8 {
        let begun = Instant::now();
        assert_eq!(pool.put(&format!("key-{number}"), 1), Ok(()));
        // The failed attempt may still reach the paused node. The master records that segment as stale before the put
        // ends.
        within(begun.elapsed(), 2_000, "a put");
    }
    for number in 0..8 {
        assert_eq!(pool.get(&format!("key-{number}")).0, Ok(()));
    }
}
