//! Standbys that follow the nodes' ledgers.

use std::time::Instant;

use mooncake_client::{Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store};
use mooncake_testing::PATIENCE;

use crate::cluster::{Cluster, Master, get, put, until_served, value};

const NODES: usize = 2;
const OBJECTS: usize = 60;

/// More objects of 100 kB than both nodes have room for.
const FLOOD: usize = 800;

/// Waits until a standby knows the ledgers of all nodes, with this many entries.
pub(crate) fn wait_until_warm(standby: &Master, entries: usize) {
    let begun = Instant::now();
    let right = format!(
        "\"is_warm\":true,\"segments\":{NODES},\"known_segments\":{NODES},\"entries\":{entries}}}"
    );
    loop {
        let health = standby.says("/health");
        if health.contains(&right) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{right} is not in {health}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// How many requests of this kind a leader has received.
fn requests(master: &Master, name: &str) -> u64 {
    let metrics = master.says("/metrics");
    let name = format!("master_{name}_requests_total ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.expect("it is one of them").parse().expect("a number")
}

fn put_pinned(store: &Store, key: &str) -> Result<(), ErrorCode> {
    let value = Buffer::from_vec(value(key, 0));
    let source = PutSource::new(key, SliceList::from(value.raw()));
    let config = ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    store.put(&[source], &config).remove(0)
}

/// Kills a leader whose standby is warm. All objects are readable, removed ones are not, and a pinned one survives.
pub(crate) fn a_warm_standby_takes_over(mut cluster: Cluster) {
    let (mut leader, standby) = cluster.pair();
    (0..NODES).for_each(|_| cluster.add_node());
    let store = cluster.store();
    let keys: Vec<String> = (0..OBJECTS).map(|number| format!("old-{number}")).collect();
    for key in &keys {
        assert_eq!(put(&store, key, 0), Ok(()), "{key}");
    }
    wait_until_warm(&standby, OBJECTS);
    assert_eq!(put_pinned(&store, "pinned"), Ok(()));
    assert_eq!(store.remove(&[&keys[0]], true), [Ok(())]);
    assert_eq!(put(&store, "late", 0), Ok(()));
    wait_until_warm(&standby, OBJECTS + 1);
    // The standby has most likely not followed these last changes before the leader dies.
    assert_eq!(store.remove(&[&keys[1]], true), [Ok(())]);
    assert_eq!(put(&store, "last", 0), Ok(()));
    leader.program.kill();
    until_served(&store, "after");
    assert_eq!(standby.says("/role"), "leader");
    for key in &keys[..2] {
        assert_eq!(get(&store, key, 0), Err(ErrorCode::ObjectNotFound), "{key}");
    }
    let rest = keys[2..].iter().map(String::as_str).chain(["late", "last", "pinned"]);
    for key in rest {
        assert_eq!(get(&store, key, 0), Ok(()), "{key}");
    }
    assert_eq!(requests(&standby, "report_changes"), NODES as u64);
    assert_eq!(requests(&standby, "report_inventory"), 0, "nobody told everything");
    for number in 0..FLOOD {
        // A put may find no room.
        let _ = put(&store, &format!("flood-{number}"), 0);
    }
    assert_eq!(get(&store, "pinned", 0), Ok(()));
    let flood: Vec<String> = (0..FLOOD).map(|number| format!("flood-{number}")).collect();
    let flood: Vec<&str> = flood.iter().map(String::as_str).collect();
    assert!(store.exist(&flood).contains(&Ok(false)), "something had to be evicted");
}

#[test]
fn a_warm_standby_is_told_only_what_changed_since() {
    a_warm_standby_takes_over(Cluster::new("warm"));
}

/// The leader seals what the standby may follow, and what it says to clients. So does the next leader, by other keys.
#[test]
fn a_warm_standby_of_a_pool_with_a_secret_takes_over() {
    a_warm_standby_takes_over(Cluster::new("secret").with_secret());
}

#[test]
fn a_standby_that_is_not_to_follow_is_told_everything() {
    let mut cluster = Cluster::new("cold").with_flag("--ha_warm_standby=false");
    let (mut leader, standby) = cluster.pair();
    (0..NODES).for_each(|_| cluster.add_node());
    let store = cluster.store();
    assert_eq!(put(&store, "early", 0), Ok(()));
    assert!(standby.says("/health").contains("\"is_warm\":false,\"segments\":0"));
    assert!(standby.says("/metrics").lines().any(|line| line == "master_standby_is_warm 0"));
    leader.program.kill();
    until_served(&store, "after");
    assert_eq!(get(&store, "early", 0), Ok(()));
    assert_eq!(requests(&standby, "report_changes"), 0);
}

/// The third master also follows entries that the second learned as a standby.
#[test]
fn a_standby_of_a_leader_that_was_warm_is_warm_too() {
    let mut cluster = Cluster::new("third");
    let (mut leader, mut second) = cluster.pair();
    (0..NODES).for_each(|_| cluster.add_node());
    let store = cluster.store();
    assert_eq!(put(&store, "early", 0), Ok(()));
    wait_until_warm(&second, 1);
    leader.program.kill();
    until_served(&store, "between");
    assert_eq!(put(&store, "middle", 0), Ok(()));
    let third = cluster.master();
    let begun = Instant::now();
    while !third.says("/metrics").lines().any(|line| line == "master_standby_is_warm 1") {
        assert!(begun.elapsed() < PATIENCE, "{}", third.says("/health"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    second.program.kill();
    until_served(&store, "after");
    for key in ["early", "middle"] {
        assert_eq!(get(&store, key, 0), Ok(()), "{key}");
    }
    assert_eq!(requests(&third, "report_inventory"), 0);
}
