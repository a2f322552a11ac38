//! Repair of replicas that were lost with their nodes, and extra replicas for objects that are read often, in
//! processes.

use std::time::{Duration, Instant};

use mooncake_client::{Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store};
use mooncake_testing::{Master, Node, PATIENCE, Program};

use crate::start::{MASTER, node, store};

const OBJECTS: usize = 60;

/// Nodes under a master that soon declares a silent node lost, and a store that lends no memory.
struct Pool {
    nodes: Vec<Node>,
    store: Store,
    master: Master,
}

impl Pool {
    fn start(nodes: usize, flags: &[&str]) -> Pool {
        let fast = ["--client_ttl=1", "--default_kv_lease_ttl=500"];
        let master = Master::start(MASTER, &[&fast[..], flags].concat());
        let store = store(&master.rpc);
        let mut pool = Pool { nodes: Vec::new(), store, master };
        for _ in 0..nodes {
            pool.add_node();
        }
        pool
    }

    fn add_node(&mut self) {
        self.nodes.push(node(&self.master.rpc, &[]));
    }

    fn put(&self, key: &str, replica_num: u32) {
        let value = Buffer::from_vec(value(key));
        let source = PutSource::new(key, SliceList::from(value.raw()));
        let config = ReplicateConfig { replica_num, ..ReplicateConfig::default() };
        let put = self.store.put(&[source], &config).remove(0);
        assert_eq!(put, Ok(()), "{key}");
    }

    /// Gets a key and checks its bytes.
    fn get(&self, key: &str) -> Result<(), ErrorCode> {
        let got = self.store.get(&[key]).remove(0);
        got.map(|buffer| assert!(buffer.into_vec() == value(key), "{key} is wrong"))
    }

    fn get_all(&self, when: &str) {
        for number in 0..OBJECTS {
            assert_eq!(self.get(&key(number)), Ok(()), "{} {when}", key(number));
        }
    }

    /// Waits until a metric has this value; runs `act` between two looks.
    fn wait(&self, name: &str, value: u64, act: impl Fn()) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.master.metric(name);
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

/// Bytes generated from the key.
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
        pool.nodes[killed].program.kill();
        pool.get_all("at once, from the other replica");
        pool.add_node();
        pool.wait("master_repaired_replicas_total", (round * OBJECTS) as u64, || {
            pool.get_all("while it is repaired");
        });
        assert_eq!(pool.master.metric("master_objects_lacking_replicas"), 0);
        let line = pool.master.program.line("all lost replicas were repaired");
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
    pool.nodes[0].program.kill();
    pool.add_node();
    let deadline = Instant::now() + PATIENCE;
    while pool.master.metric("master_repaired_replicas_total") == 0 {
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
    // The threshold is 60 reads in three seconds. The master sees fewer lookups than that, so reads by cached routes
    // count.
    pool.wait("master_dynamic_replicas_total", 1, || {
        for _ in 0..5 {
            assert_eq!(pool.get("hot"), Ok(()));
        }
        assert_eq!(pool.get("cold"), Ok(()));
    });
    assert_eq!(pool.master.metric("master_dynamic_replica_objects"), 1);
    let line = pool.master.program.line("an object is read often");
    assert_eq!(Program::field(&line, "key="), "\"hot\"", "{line}");
    // One replica is enough to read it.
    let asked = pool.master.metric("master_segments_out_of_sight");
    assert_eq!(asked, 0);
    pool.nodes[0].program.kill();
    assert_eq!(pool.get("hot"), Ok(()));
}
