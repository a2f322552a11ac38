//! Nodes that advertise an address where they cannot be reached.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_client::{ErrorCode, ReplicateConfig, Store};
use mooncake_testing::{Master, PATIENCE, Program, free_port, http_get};
use serde_json::Value;

use crate::start::{MASTER, node, store};

/// For each segment whether it is reachable and how many of its bytes are used, sorted by those bytes.
fn segments(master: &Master) -> Vec<(bool, u64)> {
    let detail: Value =
        serde_json::from_str(&http_get(&master.admin, "/get_segments_detail")).expect("JSON");
    let segments = detail["segments"].as_array().expect("a list").iter();
    let mut found: Vec<(bool, u64)> = segments
        .map(|it| {
            let used = it["allocator_used_bytes"].as_u64().expect("a number");
            (it["reachable"].as_bool().expect("a truth value"), used)
        })
        .collect();
    found.sort_by_key(|&(_, used)| used);
    found
}

fn put(store: &Store, key: &str) -> Result<(), ErrorCode> {
    store.put_bytes(key, &[7; 10_000], &ReplicateConfig::default())
}

/// Forwards connections from one loopback port to another.
fn forward(from: u16, to: u16) {
    let listener = TcpListener::bind(("127.0.0.1", from)).expect("nobody listens there");
    thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.expect("it is whole");
            let far = TcpStream::connect(("127.0.0.1", to)).expect("the node listens");
            for (mut source, mut sink) in [
                (near.try_clone().expect("a descriptor"), far.try_clone().expect("a descriptor")),
                (far, near),
            ] {
                thread::spawn(move || {
                    // Either end may have closed already.
                    let _ = io::copy(&mut source, &mut sink);
                    let _ = sink.shutdown(Shutdown::Both);
                });
            }
        }
    });
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn puts_avoid_nodes_that_advertise_an_address_where_they_are_not() {
    let master = Master::start(MASTER, &[]);
    let (told, real) = (free_port(), free_port());
    let (host, advertised) =
        (format!("--host=127.0.0.1:{real}"), format!("--advertise_address=127.0.0.1:{told}"));
    let http = ["--enable_http_server", "--http_host=127.0.0.1", "--http_port=0"];
    let lost = node(&master.rpc, &[&[&*host, &advertised], &http[..]].concat());
    let line = lost.program.first_line("the HTTP server of the storage node serves");
    let health = Program::field(&line, "http_addr=");
    master.program.first_line("may be on another network");
    assert_eq!(
        segments(&master),
        [(true, 0)],
        "a master that reached no node yet closes no segment"
    );

    let good = node(&master.rpc, &[]);
    let line = master.program.first_line("nothing is put there until it can");
    assert!(line.contains(&format!("127.0.0.1:{told}")), "{line}");
    let impostor = format!("--advertise_address={}", good.address);
    let _impostor = node(&master.rpc, &[&impostor]);
    master.program.first_line("another node serves there");
    lost.program.first_line("this node cannot be reached at the address that it tells others");
    let answer = http_get(&health, "/health");
    assert!(answer.starts_with(r#"{"status":"unreachable","code":4,"#), "{answer}");

    let store = store(&master.rpc);
    let refused: Vec<_> =
        (0..200).filter_map(|n| put(&store, &format!("before-{n}")).err()).collect();
    assert_eq!(refused, []);
    let found = segments(&master);
    assert_eq!(found[..2], [(false, 0), (false, 0)], "{found:?}");

    forward(told, real);
    eventually("the node can be reached", || {
        segments(&master).iter().filter(|it| it.0).count() == 2
    });
    master.program.first_line("a node can be reached now");
    eventually("the node is well", || http_get(&health, "/health").contains("healthy"));
    let after = (0..40).map(|n| put(&store, &format!("after-{n}")));
    assert_eq!(after.filter_map(Result::err).collect::<Vec<_>>(), []);
    let found = segments(&master);
    assert_eq!((found[0], found[1].0, found[2].0), ((false, 0), true, true));
    assert!(found[1].1 > 0, "{found:?}");
}
