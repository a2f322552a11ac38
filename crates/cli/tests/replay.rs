//! `mooncake replay` with a master and nodes as processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_testing::{Master, Node};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
const PROCESSES: usize = 3;

fn replay(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake"));
    // The path of the shipped trace is relative to the root of the checkout.
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.arg("replay").args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(args: &[&str]) -> Output {
    replay(args).output().expect("the program starts")
}

fn text(output: &Output) -> String {
    let stream = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", stream(&output.stdout), stream(&output.stderr))
}

/// The processes whose parent is `parent`: their ids and programs.
fn children(parent: u32) -> BTreeMap<i32, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let stat = read("stat");
        // The fields are `pid (name) state ppid ...`, and the name may contain blanks.
        let parent_field = stat.rsplit_once(')').and_then(|(_, rest)| rest.split(' ').nth(2));
        if parent_field == Some(parent.to_string().as_str()) {
            found.insert(pid, read("cmdline").replace('\0', " "));
        }
    }
    found
}

fn poll<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        thread::sleep(POLL);
    }
}

fn running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // In a container without a reaper, an orphan that has ended remains a zombie.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("the process exists");
}

/// Starts a replay that outlasts the test, and waits until its processes run.
fn long_replay() -> (Child, BTreeMap<i32, String>) {
    let child =
        replay(&["--block-bytes", "1MiB", "--pool-bytes", "512MiB"]).spawn().expect("starts");
    let pids = poll("three processes that run their programs", || {
        let found = children(child.id());
        let all = found.values().filter(|line| !line.contains("--as-child-of")).count();
        (all == PROCESSES).then_some(found)
    });
    (child, pids)
}

fn wait_until_gone(pids: &BTreeMap<i32, String>) {
    for (&pid, program) in pids {
        poll(&format!("the end of {program}"), || (!running(pid)).then_some(()));
    }
}

fn json_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn real_requests_are_replayed_and_every_byte_is_right() {
    for clients in ["1", "3"] {
        let file = json_file(&format!("replay-{clients}.json"));
        let path = file.to_str().expect("UTF-8");
        let output = run(&[
            "--requests",
            "300",
            "--block-bytes",
            "8KiB",
            "--pool-ratio",
            "0.3",
            "--clients",
            clients,
            "--json",
            path,
        ]);
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).lines().any(|line| line == "wrong bytes             0"));
        let json: Value = serde_json::from_slice(&fs::read(&file).expect("written")).expect("JSON");
        let figure =
            |name: &str| json[name].as_f64().unwrap_or_else(|| panic!("no {name}: {json}"));
        assert_eq!((figure("requests"), figure("wrong_bytes")), (300.0, 0.0));
        assert_eq!(json["errors"], Value::Array(Vec::new()));
        assert!(figure("hit_ratio") > 0.0 && figure("hit_ratio") <= figure("infinite_hit_ratio"));
        assert!(figure("evicted_blocks") > 0.0, "{json}");
        let accounted = ["blocks_stored", "blocks_already_stored", "blocks_without_room"];
        let put: f64 = accounted.into_iter().map(figure).sum();
        assert!(figure("hits") + put <= figure("blocks"), "{json}");
    }
}

#[test]
fn what_sank_to_disks_is_hit_as_in_an_infinite_cache() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay-disks");
    fs::create_dir_all(&folder).expect("it can be made");
    let file = json_file("replay-disk.json");
    let (disk, path) = (folder.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    let sizes = ["--requests", "300", "--block-bytes", "8KiB", "--pool-ratio", "0.1"];
    let output = run(&[&sizes[..], &["--disk", disk, "--json", path]].concat());
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("of the distinct), and disks"), "{}", text(&output));
    let json: Value = serde_json::from_slice(&fs::read(&file).expect("written")).expect("JSON");
    let figure = |name: &str| json[name].as_f64().unwrap_or_else(|| panic!("no {name}: {json}"));
    assert!(figure("lru_hit_ratio") < 0.8 * figure("infinite_hit_ratio"), "{json}");
    assert!(figure("hit_ratio") > 0.99 * figure("infinite_hit_ratio"), "{json}");
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 0, "the files are gone");
}

#[test]
fn ctrl_c_stops_everything_and_says_so() {
    let (child, pids) = long_replay();
    signal(child.id().cast_signed(), Signal::INT);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(text(&output).contains("stopped by a signal"), "{}", text(&output));
    wait_until_gone(&pids);
}

#[test]
fn nothing_survives_a_killed_replay() {
    let (mut child, pids) = long_replay();
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    wait_until_gone(&pids);
}

#[test]
fn a_node_that_dies_ends_the_replay_with_its_name() {
    let (child, pids) = long_replay();
    let is_node = |line: &&String| line.contains("mooncake_client");
    let (&node, _) = pids.iter().find(|(_, line)| is_node(line)).expect("two nodes run");
    signal(node, Signal::KILL);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let message = text(&output);
    assert!(
        message.contains("mooncake_client") && message.contains("ended (signal: 9"),
        "{message}"
    );
    wait_until_gone(&pids);
}

#[test]
fn a_running_cluster_can_be_used_and_is_left_without_the_blocks() {
    let master = Master::start(env!("CARGO_BIN_EXE_mooncake_master"), &[]);
    let size = ["--global_segment_size=64MB"];
    let _node = Node::start(env!("CARGO_BIN_EXE_mooncake_client"), &master.rpc, &size);
    let output = run(&[
        "--master",
        &master.rpc,
        "--master-http",
        &master.admin,
        "--requests",
        "50",
        "--block-bytes",
        "4KiB",
    ]);
    assert!(output.status.success(), "{}", text(&output));
    let pool = text(&output).lines().find(|line| line.starts_with("pool")).map(str::to_owned);
    assert!(pool.as_ref().is_some_and(|line| line.contains("64 MB, 16,384 blocks")), "{pool:?}");
    assert_eq!(master.says("/get_all_keys"), "");
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let rows: &[(&[&str], i32, &str)] = &[
        (&["--trace", "/nowhere.gz"], 1, "cannot open /nowhere.gz"),
        (&["--pool-bytes", "64KiB"], 1, "a pool of 1 blocks is too small"),
        (&["--nodes", "two"], 2, "--nodes"),
        (&["--master", "127.0.0.1:1", "--requests", "1"], 1, "client 1 cannot open the store"),
    ];
    for (args, status, message) in rows {
        let output = run(args);
        assert_eq!(output.status.code(), Some(*status), "{args:?}: {}", text(&output));
        assert!(text(&output).contains(message), "{args:?}: {}", text(&output));
    }
}
