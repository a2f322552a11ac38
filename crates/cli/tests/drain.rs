//! Nodes that are taken away on purpose: nothing of what they hold is lost.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_testing::{PATIENCE, Program};
use rustix::process::Signal;

const LEN: usize = 200_000;

/// A master with its nodes.
struct Pool {
    address: String,
    admin: String,
    _master: Program,
}

struct Node {
    program: Program,
    /// Its address, which is the name of its segment.
    name: String,
}

impl Pool {
    fn start() -> Pool {
        let free = ["--rpc_port=0", "--port=0", "--metrics_port=0", "--state_dir=none"];
        let here = ["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1"];
        let args: Vec<&str> = free.into_iter().chain(here).collect();
        let master = Program::start(env!("CARGO_BIN_EXE_mooncake_master"), &args);
        let line = master.line("the master serves");
        let (address, admin) =
            (Program::field(&line, "rpc_addr="), Program::field(&line, "admin_addr="));
        Pool { address, admin, _master: master }
    }

    fn node(&self, size: &str) -> Node {
        let master = format!("--master_server_address={}", self.address);
        let size = format!("--global_segment_size={size}");
        let args = ["--host=127.0.0.1", "--port=0", &size, &master];
        let program = Program::start(env!("CARGO_BIN_EXE_mooncake_client"), &args);
        let name = Program::field(&program.line("the storage node is ready"), "address=");
        Node { program, name: name.trim_matches('"').to_owned() }
    }

    /// Runs `mooncake drain`: its status, what it printed, and its progress.
    fn drain(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake"));
        command.args(["drain", "--master_http", &self.admin]).args(args);
        let output = command.output().expect("the program exists");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

/// A store that lends nothing.
fn open(address: &str) -> Store {
    let config = StoreConfig {
        master: address.to_owned(),
        segment_bytes: 0,
        ..StoreConfig::from_variables(|_| None).expect("the defaults make sense")
    };
    Store::open(config).expect("the master serves")
}

/// Bytes that say which key they are of, and which of its values.
fn value(key: &str, generation: u64) -> Vec<u8> {
    format!("{key}#{generation};").into_bytes().into_iter().cycle().take(LEN).collect()
}

fn put(store: &Store, key: &str, generation: u64) -> Result<(), ErrorCode> {
    let value = Buffer::from_vec(value(key, generation));
    let source = PutSource::new(key, SliceList::from(value.raw()));
    store.upsert(&[source], &ReplicateConfig::default()).remove(0)
}

/// The generation that a get gives; all its bytes are of it.
fn get(store: &Store, key: &str) -> Result<u64, ErrorCode> {
    let bytes = store.get(&[key]).remove(0)?.into_vec();
    let head = String::from_utf8_lossy(&bytes[..40]).into_owned();
    let (_, rest) = head.split_once('#').expect("a value");
    let generation = rest.split(';').next().and_then(|text| text.parse().ok());
    let generation = generation.expect("a number");
    assert!(bytes == value(key, generation), "{key} is torn");
    Ok(generation)
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key-{number}")).collect()
}

#[test]
fn a_node_is_drained_under_readers_and_writers_and_then_killed() {
    let pool = Pool::start();
    let address = &*pool.address;
    let mut first = pool.node("32MB");
    let store = open(address);
    let (quiet, busy) = (keys(60), ["busy-0", "busy-1", "busy-2"]);
    for key in quiet.iter().map(String::as_str).chain(busy) {
        put(&store, key, 0).expect("there is room");
    }
    let _second = pool.node("32MB");
    let _third = pool.node("32MB");
    let is_over = AtomicBool::new(false);
    let (reads, acknowledged) = (AtomicU64::new(0), [(); 3].map(|()| AtomicU64::new(0)));
    thread::scope(|scope| {
        scope.spawn(|| {
            let store = open(address);
            while !is_over.load(Ordering::Relaxed) {
                for key in &quiet {
                    assert_eq!(get(&store, key), Ok(0), "{key}");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        scope.spawn(|| {
            let store = open(address);
            let mut generation = 0;
            while !is_over.load(Ordering::Relaxed) {
                generation += 1;
                for (key, last) in busy.iter().zip(&acknowledged) {
                    put(&store, key, generation).expect("a drain is in nobody's way");
                    last.store(generation, Ordering::Relaxed);
                    assert_eq!(get(&store, key), Ok(generation), "{key}");
                }
            }
        });
        let (status, out, progress) = pool.drain(&[&first.name]);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(status, Some(0), "{out}{progress}");
        assert!(out.contains("SUCCEEDED") && out.contains("can be stopped"), "{out}");
        assert!(progress.starts_with("drain job "), "{progress}");
    });
    assert!(reads.load(Ordering::Relaxed) > 0 && acknowledged[0].load(Ordering::Relaxed) > 0);
    first.program.kill();
    let store = open(address);
    for key in &quiet {
        assert_eq!(get(&store, key), Ok(0), "{key}");
    }
    for (key, last) in busy.iter().zip(&acknowledged) {
        assert_eq!(get(&store, key), Ok(last.load(Ordering::Relaxed)), "{key}");
    }
}

#[test]
fn a_node_that_is_told_to_end_hands_over_what_it_holds() {
    let pool = Pool::start();
    let address = &*pool.address;
    let mut first = pool.node("32MB");
    let store = open(address);
    let keys = keys(40);
    keys.iter().for_each(|key| put(&store, key, 1).expect("there is room"));
    let _second = pool.node("32MB");
    first.program.signal(Signal::TERM);
    let line = first.program.line("other nodes have taken over all that lay here");
    assert_eq!(Program::field(&line, "moved="), "40");
    assert!(first.program.end().success());
    for key in &keys {
        assert_eq!(get(&store, key), Ok(1), "{key}");
    }
}

#[test]
fn what_has_no_room_elsewhere_is_counted_as_lost_and_holds_nobody_up() {
    let pool = Pool::start();
    let address = &*pool.address;
    let mut first = pool.node("64MB");
    let store = open(address);
    let keys = keys(200);
    keys.iter().for_each(|key| put(&store, key, 1).expect("there is room"));
    let _second = pool.node("16MB");
    first.program.signal(Signal::TERM);
    let begun = Instant::now();
    let line = first.program.line("the rest is lost with this node");
    assert!(first.program.end().success() && begun.elapsed() < PATIENCE);
    let count = |name| Program::field(&line, name).parse::<usize>().expect("a number");
    let (moved, lost) = (count("moved="), count("lost="));
    assert!(moved >= 70 && moved + lost == 200, "{line}");
    let left = keys.iter().filter(|key| get(&store, key) == Ok(1)).count();
    assert_eq!(left, moved);
}

#[test]
fn the_command_says_what_is_wrong() {
    let pool = Pool::start();
    let node = pool.node("16MB");
    let refused = pool.drain(&["nobody:1"]);
    assert_eq!((refused.0, &*refused.1), (Some(1), ""));
    assert_eq!(refused.2, "mooncake drain: the master refused: SEGMENT_NOT_FOUND\n");
    let unknown = pool.drain(&["--job", "1-2"]);
    assert!(unknown.0 == Some(1) && unknown.2.contains("JOB_NOT_FOUND"), "{unknown:?}");
    for wrong in [&[][..], &["--max_concurrency=0", "a"], &["--job", "1-2", "a"]] {
        assert_eq!(pool.drain(wrong).0, Some(2), "{wrong:?}");
    }
    let help = pool.drain(&["--help"]);
    assert!(help.0 == Some(0) && help.1.contains("Usage: mooncake drain"), "{help:?}");
    // An empty segment is drained at once, and again; then its node can go.
    assert_eq!(pool.drain(&[&node.name]).0, Some(0));
    let again = pool.drain(&[&node.name]);
    assert!(again.2.contains("UNAVAILABLE_IN_CURRENT_STATUS"), "{again:?}");
}
