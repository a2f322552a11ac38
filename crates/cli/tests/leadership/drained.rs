use std::time::{Duration, Instant};

use mooncake_testing::{Node, PATIENCE, Program};
use rustix::process::Signal;

use crate::cluster::{Cluster, Master, get, put, until_served};

#[test]
fn a_drain_goes_on_under_the_next_leader() {
    let cluster = Cluster::new("drained");
    let (mut leader, standby) = cluster.pair();
    let node = || {
        let path = env!("CARGO_BIN_EXE_mooncake_client");
        Node::start(path, cluster.coordinator(), &["--global_segment_size=32MB"])
    };
    let mut first = node();
    let store = cluster.store();
    let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    keys.iter().for_each(|key| assert_eq!(put(&store, key, 0), Ok(())));
    let _second = node();
    // While the node is paused, no object moves.
    first.program.signal(Signal::STOP);
    let masters = format!("{},{}", standby.admin, leader.admin);
    let args = ["drain", &*first.address, "--master_http", &*masters];
    let mut tool = Program::start(env!("CARGO_BIN_EXE_mooncake"), &args);
    tool.line("drain job ");
    leader.program.kill();
    standby.wait_until_role("leader");
    first.program.signal(Signal::CONT);
    tool.line("another master leads");
    assert_eq!(tool.end().code(), Some(0));
    first.program.kill();
    until_served(&store, "after");
    for key in &keys {
        assert_eq!(get(&store, key, 0), Ok(()), "{key}");
    }
}

#[test]
fn a_drain_that_nobody_watches_outlives_its_leader() {
    let cluster = Cluster::new("outlived");
    let (mut leader, standby) = cluster.pair();
    let node = || {
        let path = env!("CARGO_BIN_EXE_mooncake_client");
        Node::start(path, cluster.coordinator(), &["--global_segment_size=32MB"])
    };
    let first = node();
    let store = cluster.store();
    let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    keys.iter().for_each(|key| assert_eq!(put(&store, key, 0), Ok(())));
    let second = node();
    // While the node is paused, no object moves.
    first.program.signal(Signal::STOP);
    let masters = format!("{},{}", standby.admin, leader.admin);
    let args = ["drain", &*first.address, "--master_http", &*masters];
    let mut tool = Program::start(env!("CARGO_BIN_EXE_mooncake"), &args);
    tool.line("drain job ");
    assert_eq!(tool.stop(Signal::INT).0, Some(130));
    leader.program.kill();
    standby.wait_until_role("leader");
    first.program.signal(Signal::CONT);
    let begun = Instant::now();
    while !state(&standby, &first).contains("\"DRAINED\"") {
        assert!(begun.elapsed() < PATIENCE, "{}", state(&standby, &first));
        std::thread::sleep(Duration::from_millis(20));
    }
    for key in &keys {
        assert_eq!(get(&store, key, 0), Ok(()), "{key}");
    }
    assert!(state(&standby, &second).contains("\"OK\""));
}

/// The state of a node's segment.
fn state(master: &Master, node: &Node) -> String {
    master.says(&format!("/api/v1/segments/status?segment={}", node.address))
}
