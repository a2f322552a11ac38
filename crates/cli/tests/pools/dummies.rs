//! `mooncake_client` as the host of dummy clients, and the addresses on which it listens or which it advertises.

use std::process::Command;
use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_dummy::{DummyConfig, DummyStore};
use mooncake_testing::{Master, Program};

use crate::start::{CLIENT, MASTER};

/// Starts a node.
fn node(master: &Master, more: &[&str]) -> Program {
    let master = format!("--master_server_address={}", master.rpc);
    let mut args = vec!["--host=127.0.0.1", "--global_segment_size=32MB", &master];
    args.extend(more);
    Program::start(CLIENT, &args)
}

/// The address that a node logs once it is ready.
fn address(node: &Program) -> String {
    let line = node.line("the storage node is ready");
    Program::field(&line, "address=").trim_matches('"').to_owned()
}

/// A port number in a range of this process.
fn port(number: u16) -> u16 {
    30_000 + (std::process::id() % 3000) as u16 * 10 + number
}

fn put(dummy: &DummyStore, key: &str, value: &[u8]) -> Result<(), ErrorCode> {
    let bytes = Buffer::from_vec(value.to_vec());
    let source = PutSource::new(key, SliceList::from(bytes.raw()));
    dummy.put(&[source], &ReplicateConfig::default()).remove(0)
}

fn get(dummy: &DummyStore, key: &str) -> Result<Vec<u8>, ErrorCode> {
    dummy.get(&[key]).remove(0).map(Buffer::into_vec)
}

#[test]
fn a_node_serves_dummies_until_it_is_killed_and_its_successor_serves_them_on() {
    let master = Master::start(MASTER, &[]);
    let port = port(1);
    let flag = format!("--port={port}");
    let first = node(&master, &[&flag, "--threads=2"]);
    first.line("dummy clients are served on @mooncake_client_");
    first.line("the storage node is ready");
    let server_address = format!("127.0.0.1:{port}");
    let config = DummyConfig { server_address, ..DummyConfig::default() };
    let (one, two) = (DummyStore::open(config.clone()), DummyStore::open(config));
    let (one, two) = (one.expect("it is served"), two.expect("it is served"));
    assert_eq!(put(&one, "key", b"value"), Ok(()));
    assert_eq!(get(&two, "key"), Ok(b"value".to_vec()));

    drop(first);
    let begun = Instant::now();
    assert_eq!(put(&one, "other", b"value"), Err(ErrorCode::RpcFail));
    assert_eq!(get(&two, "key"), Err(ErrorCode::RpcFail));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());

    let second = node(&master, &[&flag]);
    second.line("the storage node is ready");
    assert_eq!(put(&two, "fresh", b"value"), Ok(()));
    assert_eq!(get(&one, "fresh"), Ok(b"value".to_vec()));
}

#[test]
fn a_port_that_was_asked_for_must_be_free() {
    let master = Master::start(MASTER, &[]);
    let flag = format!("--port={}", port(2));
    let first = node(&master, &[&flag]);
    first.line("the storage node is ready");
    let mut second = node(&master, &[&flag]);
    second.line(&format!("{flag}: @mooncake_client_{}.sock: Address already in use", port(2)));
    assert!(!second.end().success());
    let none = node(&master, &["--port=0"]);
    none.line("the storage node is ready");
}

#[test]
fn a_node_is_known_by_the_address_that_it_is_told_to_advertise() {
    let master = Master::start(MASTER, &[]);
    // The advertised name of this host differs from the name that the node listens on.
    let node = node(&master, &["--port=0", "--advertise_address=localhost"]);
    let hostname = address(&node);
    assert!(hostname.starts_with("localhost:"), "{hostname}");
    let config =
        StoreConfig { master: master.rpc.clone(), segment_bytes: 0, ..StoreConfig::default() };
    let client = Store::open(config).expect("the master is there");
    assert_eq!(client.put_bytes("key", b"value", &ReplicateConfig::default()), Ok(()));
    let located = client.locate(&["key"]).remove(0).expect("it is there");
    let segment = &located.replicas[0].stripes[0].segment;
    assert_eq!((&*segment.name, &*segment.endpoint), (&*hostname, &*hostname));
    assert_eq!(client.get(&["key"]).remove(0).map(Buffer::into_vec), Ok(b"value".to_vec()));
}

/// Runs a pool in a new network namespace, which has only loopback. Without the permission to make one, which only
/// root has, the test checks nothing.
#[test]
fn a_host_with_loopback_only_is_served() {
    let script = format!(
        "ip link set lo up && {{ {MASTER} --rpc_port=45051 --metrics_port=0 --state_dir=none & \
         exec {CLIENT} --master_server_address=127.0.0.1:45051 --global_segment_size=8MB --port=0; }}"
    );
    let alone = |command: &str| {
        let args = ["--net", "--pid", "--fork", "--kill-child", "sh", "-c", command].to_vec();
        ("unshare", args.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let (program, args) = alone("ip link set lo up");
    if !Command::new(program).args(args).output().is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: this user may not make a network namespace");
        return;
    }
    let (program, args) = alone(&script);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let node = Program::start(program, &args);
    let hostname = address(&node);
    assert!(hostname.starts_with("127.0.0.1:"), "{hostname}");
}
