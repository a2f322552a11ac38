//! When a node's connection ends, its objects are missing at once, and found again after its next ping.

use std::io::Write;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use mooncake_types::{Reply, Request, SegmentId};
use serde_json::json;

use crate::support::{Rpc, Running, config, eventually, get, start, start_with};

fn ping(segments: &[u128]) -> Request<'static> {
    let segments = segments.iter().map(|&id| SegmentId(id)).collect();
    Request::Ping { segments, unreachable: vec![], reads: None }
}

fn exists(rpc: &mut Rpc) -> bool {
    let reply = rpc.ask(&Request::exist(vec!["k"]));
    let Reply::Exist(results) = reply else { panic!("{reply:?}") };
    results[0].expect("the key is one that the store takes")
}

/// A node that has pinged and holds one key.
fn node(master: &Running) -> Rpc {
    let mut node = master.connect(1);
    node.ask(&ping(&[]));
    node.mount(5, "node-a", 64 << 10);
    node.put(&["k"], 100);
    node
}

/// How long it takes until the key is missing.
fn missing_after(master: &Running, other: &mut Rpc) -> Duration {
    let begun = Instant::now();
    eventually("the key is missing", || !exists(other));
    assert!(get(master.admin, "/metrics").body.contains("\nmaster_segments_out_of_sight 1\n"));
    begun.elapsed()
}

#[test]
fn a_node_whose_connection_ends_is_out_of_sight_until_it_pings() {
    let master = start();
    let mut other = master.connect(2);
    let mut ended = node(&master);
    for end in ["closed", "half a frame", "nonsense"] {
        assert!(exists(&mut other));
        match end {
            "half a frame" => ended.stream.write_all(&[0x4B, 0x4D, 16]).expect("it is open"),
            "nonsense" => ended.stream.write_all(&[0xAB; 64]).expect("it is open"),
            _ => {}
        }
        ended.stream.shutdown(Shutdown::Both).expect("it is open");
        let waited = missing_after(&master, &mut other);
        assert!(waited < Duration::from_millis(300), "{end}: {waited:?}");
        ended = master.connect(1);
        assert!(!exists(&mut other), "a connection is no ping");
        ended.ask(&ping(&[5]));
        assert!(exists(&mut other), "{end}");
    }
}

#[test]
fn only_the_connection_of_the_last_ping_counts() {
    let master = start();
    let mut other = master.connect(2);
    let old = node(&master);
    let mut new = master.connect(1);
    new.ask(&ping(&[5]));
    let third = master.connect(1);
    drop((old, third));
    // The master notices ended connections in order, so it has seen both when it has seen this one.
    let mut marker = master.connect(3);
    marker.ask(&ping(&[]));
    marker.mount(6, "node-b", 64 << 10);
    drop(marker);
    eventually("the marker is gone", || get(master.admin, "/get_all_segments").body == "node-a\n");
    assert!(exists(&mut other));
    drop(new);
    eventually("the key is missing", || !exists(&mut other));
}

#[test]
fn a_connection_that_is_idle_for_too_long_ends_as_any_other() {
    let master = start_with(impatient());
    let mut other = master.connect(2);
    let node = node(&master);
    let begun = Instant::now();
    eventually("the key is missing", || !exists(&mut other));
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(node);
}

fn impatient() -> mooncake_master::Config {
    mooncake_master::Config { idle_timeout_ms: 300, ..config() }
}

#[test]
fn a_node_that_a_client_cannot_reach_is_out_of_sight_unless_it_pings() {
    let master = start();
    let mut other = master.connect(2);
    let mut node = node(&master);
    let report = Request::Ping { segments: vec![], unreachable: vec![SegmentId(5)], reads: None };
    for _ in 0..20 {
        other.ask(&report);
        std::thread::sleep(Duration::from_millis(50));
        node.ask(&ping(&[5]));
        assert!(exists(&mut other), "it pings");
    }
    other.ask(&report);
    let begun = Instant::now();
    eventually("the key is missing", || !exists(&mut other));
    let waited = begun.elapsed().as_millis();
    assert!((400..1_500).contains(&waited), "{waited} ms");
    node.ask(&ping(&[5]));
    assert!(exists(&mut other));
}

#[test]
fn operators_see_which_segments_are_out_of_sight() {
    let master = start();
    let mut other = master.connect(2);
    let node = node(&master);
    assert_eq!(get(master.admin, "/get_all_segments").body, "node-a\n");
    let detail = || get(master.admin, "/get_segments_detail").json()["segments"][0].clone();
    assert_eq!(detail()["in_sight"], true);
    drop(node);
    missing_after(&master, &mut other);
    assert_eq!(get(master.admin, "/get_all_segments").body, "");
    assert_eq!((&detail()["in_sight"], &detail()["status"]), (&json!(false), &json!("OK")));
    assert_eq!(
        get(master.admin, "/query_segment?segment=node-a").body,
        "node-a\nUsed(bytes): 100\nCapacity(bytes) : 65536\nOut of sight: 1\n"
    );
    let status = get(master.admin, "/api/v1/segments/status?segment=node-a").json();
    assert_eq!(status["error_message"], "out of sight");
    let metrics = get(master.admin, "/metrics").body;
    for line in ["master_segment_count 1", "master_total_capacity_bytes 0"] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}

/// What the master says stands in the way of puts.
fn obstacle(rpc: &mut Rpc) -> String {
    let reply = rpc.ask(&Request::ListSegments { from: 0, limit: 1 });
    let Reply::Segments(page) = reply else { panic!("{reply:?}") };
    page.put_obstacle
}

#[test]
fn a_dead_node_is_not_told_as_a_full_pool() {
    let master = start();
    let mut other = master.connect(2);
    assert_eq!(obstacle(&mut other), "no node lends memory");
    let node = node(&master);
    let in_use = obstacle(&mut other);
    assert!(in_use.contains(" of 64 KB are in use"), "{in_use}");
    assert!(exists(&mut other));
    let leased = obstacle(&mut other);
    assert!(leased.contains("eviction does not take what readers have leases on"), "{leased}");
    drop(node);
    missing_after(&master, &mut other);
    assert_eq!(
        obstacle(&mut other),
        "no node in sight takes puts: 1 whose nodes do not ping; start the nodes again"
    );
}
