//! Nodes that leave on request, by a drain or a signal: their objects move to other nodes first.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_client::{Buffer, ErrorCode, PutItem, PutSource, ReplicateConfig, SliceList, Store};
use mooncake_testing::{Master, Node, PATIENCE, Program};
use rustix::process::Signal;

use crate::start::{self, MASTER};

const LEN: usize = 200_000;

fn node(master: &Master, size: &str) -> Node {
    start::node(&master.rpc, &[&format!("--global_segment_size={size}")])
}

/// Runs `mooncake drain`. Returns its exit status, its output and its progress lines.
fn drain(master: &Master, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake"));
    command.args(["drain", "--master_http", &master.admin]).args(args);
    let output = command.output().expect("the program exists");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Bytes generated from the key and the generation.
fn value(key: &str, generation: u64) -> Vec<u8> {
    format!("{key}#{generation};").into_bytes().into_iter().cycle().take(LEN).collect()
}

pub(crate) fn put(store: &Store, key: &str, generation: u64) -> Result<(), ErrorCode> {
    let value = Buffer::from_vec(value(key, generation));
    let source = PutSource::new(key, SliceList::from(value.raw()));
    store.upsert(&[source], &ReplicateConfig::default()).remove(0)
}

/// Gets a key and returns the generation of its bytes, all of which must belong to it.
pub(crate) fn get(store: &Store, key: &str) -> Result<u64, ErrorCode> {
    let bytes = store.get(&[key]).remove(0)?.into_vec();
    let head = String::from_utf8_lossy(&bytes[..40]).into_owned();
    let (_, rest) = head.split_once('#').expect("a value");
    let generation = rest.split(';').next().and_then(|text| text.parse().ok());
    let generation = generation.expect("a number");
    assert!(bytes == value(key, generation), "{key} is torn");
    Ok(generation)
}

pub(crate) fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key-{number}")).collect()
}

#[test]
fn a_node_is_drained_under_readers_and_writers_and_then_killed() {
    let master = Master::start(MASTER, &[]);
    let address = &*master.rpc;
    let mut first = node(&master, "32MB");
    let store = start::store(address);
    let (quiet, busy) = (keys(60), ["busy-0", "busy-1", "busy-2"]);
    for key in quiet.iter().map(String::as_str).chain(busy) {
        put(&store, key, 0).expect("there is room");
    }
    let _second = node(&master, "32MB");
    let _third = node(&master, "32MB");
    let is_over = AtomicBool::new(false);
    let (reads, acknowledged) = (AtomicU64::new(0), [(); 3].map(|()| AtomicU64::new(0)));
    thread::scope(|scope| {
        scope.spawn(|| {
            let store = start::store(address);
            while !is_over.load(Ordering::Relaxed) {
                for key in &quiet {
                    assert_eq!(get(&store, key), Ok(0), "{key}");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        scope.spawn(|| {
            let store = start::store(address);
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
        let (status, out, progress) = drain(&master, &[&first.address]);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(status, Some(0), "{out}{progress}");
        assert!(out.contains("SUCCEEDED") && out.contains("can be stopped"), "{out}");
        assert!(progress.starts_with("drain job "), "{progress}");
    });
    assert!(reads.load(Ordering::Relaxed) > 0 && acknowledged[0].load(Ordering::Relaxed) > 0);
    first.program.kill();
    let store = start::store(address);
    for key in &quiet {
        assert_eq!(get(&store, key), Ok(0), "{key}");
    }
    for (key, last) in busy.iter().zip(&acknowledged) {
        assert_eq!(get(&store, key), Ok(last.load(Ordering::Relaxed)), "{key}");
    }
}

#[test]
fn results_are_told_as_json_to_programs() {
    let master = Master::start(MASTER, &[]);
    let first = node(&master, "32MB");
    let store = start::store(&master.rpc);
    put(&store, "key", 0).expect("there is room");
    let _second = node(&master, "32MB");
    let told = |args: &[&str]| -> serde_json::Value {
        let (status, out, progress) = drain(&master, args);
        assert_eq!(status, Some(0), "{out}{progress}");
        serde_json::from_str(&out).expect("one object")
    };
    let drained = told(&[&first.address, "--json"]);
    assert_eq!((&drained["status"], &drained["left"]), (&"SUCCEEDED".into(), &0.into()));
    assert_eq!((&drained["moved"], &drained["moved_bytes"]), (&1.into(), &LEN.into()));
    let again = told(&[&first.address, "--json"]);
    assert_eq!(again["segments"], serde_json::json!([first.address]));
    assert_eq!(again["status"], "SUCCEEDED");
    let undrained = told(&[&first.address, "--undo", "--json"]);
    assert_eq!(undrained, serde_json::json!({"undrained": [first.address]}));
}

#[test]
fn a_node_that_is_told_to_end_hands_over_what_it_holds() {
    for signal in [Signal::TERM, Signal::HUP] {
        hands_over_on(signal);
    }
}

fn hands_over_on(signal: Signal) {
    let master = Master::start(MASTER, &[]);
    let address = &*master.rpc;
    let mut first = node(&master, "32MB");
    let store = start::store(address);
    let keys = keys(40);
    keys.iter().for_each(|key| put(&store, key, 1).expect("there is room"));
    let _second = node(&master, "32MB");
    first.program.signal(signal);
    let line = first.program.line("other nodes have taken over all that lay here");
    assert_eq!(Program::field(&line, "moved="), "40");
    assert!(first.program.end().success());
    for key in &keys {
        assert_eq!(get(&store, key), Ok(1), "{key}");
    }
}

#[test]
fn what_has_no_room_elsewhere_is_counted_as_lost_and_holds_nobody_up() {
    let master = Master::start(MASTER, &[]);
    let address = &*master.rpc;
    let mut first = node(&master, "64MB");
    let store = start::store(address);
    let keys = keys(200);
    keys.iter().for_each(|key| put(&store, key, 1).expect("there is room"));
    let _second = node(&master, "16MB");
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
fn a_second_signal_ends_a_hand_over_at_once() {
    let master = Master::start(MASTER, &[]);
    let mut first = node(&master, "32MB");
    // The node waits up to two seconds for a put that has started.
    let begun = PutItem::new("begun", 4096);
    let store = start::store(&master.rpc);
    assert_eq!(store.put_session_start(&[begun], &ReplicateConfig::default()), [Ok(())]);
    let second = node(&master, "32MB");
    first.program.signal(Signal::TERM);
    first.program.line("stopping on SIGTERM");
    let (code, took) = first.program.stop(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(master.says("/get_all_segments"), format!("{}\n", second.address));
}

#[test]
fn a_second_signal_ends_a_node_whose_master_says_nothing() {
    let master = Master::start(MASTER, &[]);
    let mut node = node(&master, "32MB");
    master.program.signal(Signal::STOP);
    node.program.signal(Signal::TERM);
    node.program.line("stopping on SIGTERM");
    let (_, took) = node.program.stop(Signal::TERM);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn the_command_says_what_is_wrong() {
    let master = Master::start(MASTER, &[]);
    let node = node(&master, "16MB");
    let refused = drain(&master, &["nobody:1"]);
    assert_eq!((refused.0, &*refused.1), (Some(1), ""));
    assert_eq!(refused.2, "mooncake drain: the master refused: no segment is called nobody:1\n");
    let unknown = drain(&master, &["--job", "1-2"]);
    assert!(unknown.0 == Some(1) && unknown.2.contains("JOB_NOT_FOUND"), "{unknown:?}");
    for wrong in [&[][..], &["--max_concurrency=0", "a"], &["--job", "1-2", "a"]] {
        assert_eq!(drain(&master, wrong).0, Some(2), "{wrong:?}");
    }
    let help = drain(&master, &["--help"]);
    assert!(help.0 == Some(0) && help.1.contains("Usage: mooncake drain"), "{help:?}");
    // Draining an empty segment ends at once, also the second time.
    assert_eq!(drain(&master, &[&node.address]).0, Some(0));
    let again = drain(&master, &[&node.address]);
    assert!(again.0 == Some(0) && again.1.contains("empty already"), "{again:?}");
}

/// Starts `mooncake drain`, whose progress goes to standard error.
fn start_drain(master: &Master, segment: &str) -> Program {
    let args = ["drain", "--master_http", &master.admin, segment];
    Program::start(env!("CARGO_BIN_EXE_mooncake"), &args)
}

#[test]
fn a_drain_that_is_interrupted_names_its_job_and_the_same_command_finds_it_again() {
    let master = Master::start(MASTER, &[]);
    let first = node(&master, "32MB");
    let store = start::store(&master.rpc);
    // The job does not end before this put has.
    let begun = PutItem::new("begun", 4096);
    assert_eq!(store.put_session_start(&[begun], &ReplicateConfig::default()), [Ok(())]);
    let _second = node(&master, "32MB");
    let mut command = start_drain(&master, &first.address);
    let job = command.line("drain job ").replace("drain job ", "");
    command.line("RUNNING");
    let (code, _) = command.stop(Signal::INT);
    assert_eq!(code, Some(130));
    command.first_line(&format!("the job goes on: mooncake drain --job {job}"));

    let listed = master.says("/api/v1/drain_jobs");
    assert!(listed.contains(&format!("\"job_id\":\"{job}\"")), "{listed}");
    let (_, text, _) = status(&[&master.admin]);
    assert!(text.contains(&format!("drains\n  {job}  {}  RUNNING", first.address)), "{text}");
    let again = start_drain(&master, &first.address);
    again.line("these segments are being drained already");
    again.line(&format!("drain job {job}"));
    let canceled = drain(&master, &["--cancel", &job]);
    assert_eq!(canceled.0, Some(0), "{canceled:?}");
}

#[test]
fn a_drained_node_is_given_back_to_puts() {
    let master = Master::start(MASTER, &[]);
    let node = node(&master, "16MB");
    assert_eq!(drain(&master, &[&node.address]).0, Some(0));
    let store = start::store(&master.rpc);
    assert_eq!(put(&store, "early", 1), Err(ErrorCode::NoAvailableHandle));
    let undone = drain(&master, &["--undo", &node.address]);
    assert_eq!(undone, (Some(0), format!("{} takes puts again\n", node.address), String::new()));
    assert_eq!(put(&store, "late", 1), Ok(()));
    let unknown = drain(&master, &["--undo", "nobody:1"]);
    assert!(unknown.0 == Some(1) && unknown.2.contains("no segment is called"), "{unknown:?}");
    for wrong in [&["--undo"][..], &["--undo", "--job", "1-2"]] {
        assert_eq!(drain(&master, wrong).0, Some(2), "{wrong:?}");
    }
}

#[test]
fn a_drain_with_nowhere_to_go_says_so() {
    let master = Master::start(MASTER, &["--default_kv_lease_ttl=100ms"]);
    let only = node(&master, "32MB");
    put(&start::store(&master.rpc), "stays", 1).expect("there is room");
    let (code, _, said) = drain(&master, &[&only.address]);
    assert_eq!(code, Some(1));
    assert!(said.contains("no segment that takes puts has room"), "{said}");
}

/// Runs `mooncake status`. Returns its exit status, its output and what it complains about.
fn status(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake"));
    let output = command.arg("status").args(args).output().expect("the program exists");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_pool_with_lost_objects_and_fewer_replicas_than_asked_for_is_not_well() {
    let flags = ["--default_kv_lease_ttl=100ms", "--client_ttl=1"];
    let master = Master::start(MASTER, &flags);
    let mut nodes = [node(&master, "32MB"), node(&master, "32MB")];
    let store = start::store(&master.rpc);
    let value = Buffer::from_vec(value("a", 0));
    let put = |key, replica_num| {
        let config = ReplicateConfig { replica_num, ..ReplicateConfig::default() };
        store.put(&[PutSource::new(key, SliceList::from(value.raw()))], &config).remove(0)
    };
    assert_eq!(put("twice", 2), Ok(()));
    // Of so many objects some lie on either node.
    let once = keys(40);
    once.iter().for_each(|key| assert_eq!(put(key, 1), Ok(())));
    let address = format!("http://{}/", master.admin);
    assert_eq!(status(&[&address]).0, Some(0));
    nodes[0].program.kill();
    let line = master.program.line("objects are lost");
    assert!(line.contains(" WARN "), "{line}");
    let (code, text, _) = status(&["--master_http", &address]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("1 objects have fewer replicas than were asked for"), "{text}");
    assert!(text.contains("objects were lost in the last hour"), "{text}");
}

#[test]
fn a_master_that_hangs_is_said_to_hang() {
    let master = Master::start(MASTER, &[]);
    master.program.signal(Signal::STOP);
    let (code, text, _) = status(&[&master.admin]);
    assert_eq!(code, Some(1));
    assert!(text.contains("it does not answer within 5 s") && !text.contains("os error"), "{text}");
}
