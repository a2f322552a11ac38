//! `events` follows what the pool stores and removes.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use mooncake_testing::Node;
use serde_json::Value;

use crate::pool::{CLIENT, Pool, fed, mooncake};

const FLAGS: [&str; 3] = [
    "--enable_kv_events",
    "--kv_events_backend_id=pool",
    "--kv_events_bind_endpoint=tcp://127.0.0.1:0",
];

/// A follower, once the master knows it.
fn follow(pool: &Pool, args: &[&str], subscribers: u64) -> (Child, BufReader<ChildStdout>) {
    let mut command = pool.command(&[&["events"], args].concat());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program exists");
    let lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let deadline = std::time::Instant::now() + mooncake_testing::PATIENCE;
    let count = || {
        let status: Value =
            serde_json::from_str(&pool.master.says("/kv_events/status")).expect("JSON");
        status["subscribers"].as_u64().expect("a number")
    };
    while count() < subscribers {
        assert!(std::time::Instant::now() < deadline, "it does not subscribe");
        std::thread::yield_now();
    }
    (child, lines)
}

#[test]
fn events_come_as_lines_of_text_or_json_until_there_are_enough() {
    let pool = Pool::start(&FLAGS);
    let (mut text, lines) = follow(&pool, &["--prefix", "a", "--count", "2"], 1);
    let (mut all, mut json) = follow(&pool, &["--json", "--count", "3"], 2);
    pool.run_with(&["put", "b"], b"x").ok();
    let mut line = String::new();
    json.read_line(&mut line).expect("text");
    pool.run_with(&["put", "a\u{1}b", "--group", "g"], b"x").ok();
    json.read_line(&mut line).expect("text");
    pool.run(&["rm", "--force", "a\u{1}b"]).ok();
    json.read_line(&mut line).expect("text");
    let events: Vec<Value> =
        line.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let parts: Vec<_> =
        events.iter().map(|it| [&it["event_type"], &it["medium"], &it["object_key"]]).collect();
    assert_eq!(
        parts,
        [["stored", "cpu", "b"], ["stored", "cpu", "a\u{1}b"], ["removed", "cpu", "a\u{1}b"]]
    );
    assert_eq!(all.wait().expect("our child").code(), Some(0));
    let said: Vec<String> = lines.lines().map(|line| line.expect("text")).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].ends_with("  stored   cpu   a\u{1}b  group=g"), "{said:?}");
    assert!(said[1].ends_with("  removed  cpu   a\u{1}b"), "{said:?}");
    assert_eq!(text.wait().expect("our child").code(), Some(0));
}

#[test]
fn the_next_leader_is_followed() {
    let mut pool = Pool::start(&FLAGS);
    let (mut child, lines) = follow(&pool, &[], 1);
    // Only a publisher that was there for a moment is looked for again.
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_millis(1100) {
        std::thread::yield_now();
    }
    pool.master.program.kill();
    let mut complaint = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    stderr.read_line(&mut complaint).expect("text");
    assert!(complaint.ends_with("; waits for the next one\n"), "{complaint}");
    pool.master.start_again();
    let node = Node::start(CLIENT, &pool.master.rpc, &["--global_segment_size=16MB"]);
    let deadline = std::time::Instant::now() + mooncake_testing::PATIENCE;
    while !pool.master.says("/kv_events/status").contains(r#""subscribers":1"#) {
        assert!(std::time::Instant::now() < deadline, "it does not come back");
    }
    pool.run_with(&["put", "a"], b"x").ok();
    pool.run(&["rm", "--force", "a"]).ok();
    // A new leader may begin with `cleared`.
    let mut lines = lines.lines().map(|line| line.expect("text"));
    assert!(lines.any(|line| line.ends_with("stored   cpu   a")));
    assert!(lines.any(|line| line.ends_with("removed  cpu   a")));
    child.kill().expect("it runs");
    child.wait().expect("our child");
    drop(node);
}

#[test]
fn a_time_without_events_ends_well() {
    let pool = Pool::start(&FLAGS);
    assert_eq!(pool.run(&["events", "--seconds", "1"]).ok().text(), "");
}

#[test]
fn a_pool_without_events_and_an_endpoint_without_publisher_are_named() {
    let pool = Pool::start(&[]);
    let admin = &pool.master.admin;
    let expected =
        format!("mooncake events: the master at {admin} publishes no events: start it with");
    pool.run(&["events"]).fails(1, &expected);
    let nobody = format!("tcp://127.0.0.1:{}", mooncake_testing::free_port());
    let expected = format!("mooncake events: the publisher at {}: ", &nobody["tcp://".len()..]);
    pool.run(&["events", "--endpoint", &nobody]).fails(1, &expected);
    pool.run(&["events", "--endpoint", "ipc:///x"]).fails(2, "error: invalid value 'ipc:///x'");
    let local = mooncake(&["events", "--master", "local:///dev/shm"]);
    fed(local, b"").fails(1, "mooncake events: the pool local:///dev/shm has no admin HTTP");
}
