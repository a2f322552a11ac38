//! Connections that follow the protocol, and slow ones that must not delay them.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use mooncake_master::Config;
use mooncake_meta::Config as PoolConfig;
use mooncake_types::{ErrorCode, Reply, Request, Scan, ScanAction, SegmentId};
use mooncake_wire::{Header, Kind};

use crate::support::{Rpc, config, dial, eventually, get, hello, read_frame, start, start_with};

#[test]
fn a_client_mounts_puts_and_finds() {
    let master = start();
    let mut rpc = master.connect(1);
    rpc.mount(5, "node-a", 1 << 20);
    rpc.put(&["one", "two"], 4096);
    let reply = rpc.ask(&Request::exist(vec!["one", "three"]));
    assert_eq!(reply, Reply::Exist(vec![Ok(true), Ok(false)]));
    let reply = rpc.ask(&Request::GetReplicaList { keys: vec!["one", "three", ""] });
    let Reply::Located { results, segments, lease_ms, .. } = reply else { panic!("{reply:?}") };
    let lens: Vec<_> =
        results.into_iter().map(|result| result.map(|located| located.len)).collect();
    assert_eq!(lens, vec![Ok(4096), Err(ErrorCode::ObjectNotFound), Err(ErrorCode::InvalidKey)]);
    assert_eq!(segments[0].name.as_ref(), "node-a");
    assert_eq!(lease_ms, PoolConfig::default().lease_ttl_ms);
}

#[test]
fn the_epoch_of_a_new_master_is_higher_than_that_of_its_predecessor() {
    let mut first = start();
    let epoch = first.connect(1).epoch;
    first.stop();
    eventually("a later epoch", || start().connect(1).epoch > epoch);
}

#[test]
fn requests_in_one_packet_are_answered_in_order() {
    let master = start();
    let mut rpc = master.connect(1);
    let mut out = Vec::new();
    for id in 0..500 {
        mooncake_wire::encode_request(&mut out, id, &Request::exist(vec!["k"]));
    }
    rpc.stream.write_all(&out).expect("the master reads");
    for id in 0..500 {
        assert_eq!(rpc.receive(), (id, Reply::Exist(vec![Ok(false)])));
    }
}

#[test]
fn a_request_in_single_bytes_is_answered() {
    let master = start();
    let mut rpc = master.connect(1);
    let mut out = Vec::new();
    mooncake_wire::encode_request(&mut out, 3, &Request::exist(vec!["k"]));
    for byte in out {
        rpc.stream.write_all(&[byte]).expect("the master reads");
    }
    assert_eq!(rpc.receive(), (3, Reply::Exist(vec![Ok(false)])));
}

#[test]
fn a_client_that_reads_no_replies_does_not_hold_up_others() {
    let master = start();
    let mut owner = master.connect(1);
    owner.mount(5, "node-a", 64 << 20);
    let keys: Vec<String> = (0..1000).map(|i| format!("{i:0>100}")).collect();
    owner.put(&keys.iter().map(String::as_str).collect::<Vec<_>>(), 1024);

    let mut deaf = master.connect(2);
    deaf.stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a socket");
    let scan = Request::Scan(Scan {
        tenant: Some("default"),
        pattern: None,
        action: ScanAction::List,
        cursor: 0,
        limit: 1000,
    });
    let mut out = Vec::new();
    for id in 0..1000 {
        mooncake_wire::encode_request(&mut out, id, &scan);
    }
    // The master stops reading when its replies fill the socket. Then this write blocks until its timeout.
    while deaf.stream.write_all(&out).is_ok() {}

    let begun = Instant::now();
    for _ in 0..100 {
        owner.ask(&Request::Ping {
            segments: vec![SegmentId(5)],
            unreachable: vec![],
            reads: None,
        });
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn a_silent_connection_is_closed_after_the_idle_time() {
    let master = start_with(Config { idle_timeout_ms: 100, ..config() });
    let mut rpc = master.connect(1);
    assert!(read_frame(&mut rpc.stream).is_none());
    master.assert_serves();
}

#[test]
fn a_connection_that_stops_within_a_frame_is_closed_and_an_idle_one_is_not() {
    let master = start_with(Config { frame_timeout_ms: 100, ..config() });
    let (mut idle, mut stuck) = (master.connect(1), master.connect(2));
    stuck.stream.write_all(&[0x4B, 0x4D, 16]).expect("the connection is open");
    assert!(read_frame(&mut stuck.stream).is_none());
    idle.ask(&Request::Ping { segments: vec![], unreachable: vec![], reads: None });
    master.assert_serves();
}

#[test]
fn a_frame_that_trickles_in_has_no_more_time() {
    let master = start_with(Config { frame_timeout_ms: 300, ..config() });
    let mut slow = master.connect(1);
    let header = Header { kind: Kind::Request, flags: 0, body_len: 1 << 20, request_id: 1 };
    slow.stream.write_all(&header.encode()).expect("the connection is open");
    let begun = Instant::now();
    while slow.stream.write_all(&[0]).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the master goes on waiting");
        thread::sleep(Duration::from_millis(20));
    }
    master.assert_serves();
}

#[test]
fn silent_connections_of_one_host_keep_nobody_out() {
    let master = start_with(Config { max_connections: 64, ..config() });
    let mut silent: Vec<_> = (0..200).map(|_| dial(master.rpc)).collect();
    let begun = Instant::now();
    eventually("a client is served", || Rpc::connect(master.rpc, &hello(3)).is_ok());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(read_frame(&mut silent[0]).is_none(), "the oldest was cut off");
}

#[test]
fn connections_over_the_limit_are_told_so() {
    let master = start_with(Config { max_connections: 2, ..config() });
    let (_first, second) = (master.connect(1), master.connect(2));
    let (code, message) = Rpc::connect(master.rpc, &hello(3)).err().expect("a refusal");
    assert_eq!(code, ErrorCode::UnavailableInCurrentStatus);
    assert_eq!(message, "the master serves 2 connections, which is its limit");
    drop(second);
    eventually("a free place", || Rpc::connect(master.rpc, &hello(3)).is_ok());
}

#[test]
fn a_client_that_falls_silent_loses_its_segment_in_time() {
    let pool = PoolConfig { client_ttl_ms: 200, lease_ttl_ms: 100, ..PoolConfig::default() };
    let master = start_with(Config { pool, ..config() });
    master.connect(1).mount(5, "node-a", 1 << 20);
    assert_eq!(get(master.admin, "/get_all_segments").body, "node-a\n");
    let begun = Instant::now();
    eventually("the segment's end", || get(master.admin, "/get_all_segments").body.is_empty());
    assert!(begun.elapsed() < Duration::from_millis(600), "{:?}", begun.elapsed());
}

#[test]
fn a_peer_that_vanishes_in_mid_request_harms_nobody() {
    let master = start();
    for cut in [1, 10, 20] {
        let mut out = Vec::new();
        mooncake_wire::encode_hello(&mut out, 1, &hello(4));
        mooncake_wire::encode_request(&mut out, 2, &Request::exist(vec!["k"]));
        let mut stream = dial(master.rpc);
        stream.write_all(&out[..out.len() - cut]).expect("the master reads");
        drop(stream);
    }
    master.assert_serves();
}
