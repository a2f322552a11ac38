//! Warnings and errors about starts that will not do what the operator expects.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::path::PathBuf;
use std::process::Command;

use mooncake_testing::{Master, Node, Program, free_port};

const MASTER: &str = env!("CARGO_BIN_EXE_mooncake_master");
const CLIENT: &str = env!("CARGO_BIN_EXE_mooncake_client");

/// The path of a file for this test.
fn place(name: &str) -> PathBuf {
    let name = format!("{name}-{}", std::process::id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The error output of a program that cannot start.
fn says(path: &str, args: &[&str]) -> String {
    let ended = Command::new(path).args(args).output().expect("the program exists");
    assert!(!ended.status.success(), "{args:?}");
    String::from_utf8(ended.stderr).expect("text")
}

const SMALL: &str = "--global_segment_size=16MB";

#[test]
fn a_master_without_a_home_says_that_it_keeps_no_state_file() {
    let homeless = [("HOME", ""), ("XDG_STATE_HOME", "")];
    let ports = ["--rpc_port=0", "--port=0", "--metrics_port=0", "--rpc_address=127.0.0.1"];
    let warning = "neither XDG_STATE_HOME nor HOME is set: this master keeps no state file";
    Program::start_with_variables(MASTER, &ports, &homeless).line(warning);
    let told = [&ports[..], &["--state_dir=none"]].concat();
    let master = Program::start_with_variables(MASTER, &told, &homeless);
    master.first_line("the master serves");
    assert_eq!(master.seen(warning), 0);
}

#[test]
fn each_port_that_other_hosts_reach_without_a_token_is_warned_about() {
    let ports = ["--rpc_port=0", "--port=0", "--metrics_port=0", "--state_dir=none"];
    let start =
        |more: &[&str]| Program::start_with_variables(MASTER, &[&ports, more].concat(), &[]);
    let warning = "every host that reaches";
    let (rpc, admin) = ("the RPC port 0.0.0.0:", "the admin HTTP port 0.0.0.0:");
    let metadata = "the metadata server 0.0.0.0:";
    let events = "the KV event port 0.0.0.0:";
    let with_events =
        ["--enable_kv_events", "--kv_events_backend_id=x", "--kv_events_bind_endpoint=tcp://*:*"];
    for (more, open, closed) in [
        (&["--rpc_address=0.0.0.0"][..], &[rpc, admin][..], &[metadata][..]),
        (&["--rpc_address=127.0.0.1", "--metrics_host=0.0.0.0"], &[admin], &[rpc]),
        (&["--http_metadata_server_port=0"], &[rpc, admin, metadata], &[]),
        (&["--http_metadata_server_port=0", "--auth_token=x"], &[metadata], &[rpc, admin]),
        (&[&["--rpc_address=127.0.0.1"][..], &with_events].concat(), &[events], &[rpc, admin]),
        (
            &[&["--http_metadata_server_port=0", "--auth_token=x"][..], &with_events].concat(),
            &[metadata],
            &[rpc, admin, events],
        ),
    ] {
        let line = start(more).line(warning);
        assert!(open.iter().all(|port| line.contains(port)), "{more:?}: {line}");
        assert!(!closed.iter().any(|port| line.contains(port)), "{more:?}: {line}");
    }
    for more in [&["--rpc_address=127.0.0.1"][..], &["--auth_token=secret"], &["--insecure"]] {
        let master = start(more);
        master.first_line("the master serves");
        assert_eq!(master.seen(warning), 0, "{more:?}");
    }
}

#[test]
fn a_master_on_loopback_serves_admin_http_to_no_other_host() {
    let ports = ["--rpc_port=0", "--port=0", "--metrics_port=0", "--state_dir=none"];
    let more = ["--rpc_address=127.0.0.2", "--http_metadata_server_port=0"];
    let master = Program::start_with_variables(MASTER, &[&ports[..], &more].concat(), &[]);
    let metadata = Program::field(&master.line("the metadata server serves"), "metadata_addr=");
    let admin = Program::field(&master.line("the master serves"), "admin_addr=");
    for address in [admin, metadata] {
        assert!(address.starts_with("127.0.0.2:"), "{address}");
    }
}

#[test]
fn a_token_in_a_file_is_shown_to_nobody() {
    let (file, other) = (place("token"), place("other-token"));
    std::fs::write(&file, "secret\n").expect("it can be written");
    std::fs::write(&other, "guess\n").expect("it can be written");
    let flag = |file: &PathBuf| format!("--auth_token_file={}", file.display());
    let master = Master::start(MASTER, &[&flag(&file)]);
    let _node = Node::start(CLIENT, &master.rpc, &[SMALL, &flag(&file)]);
    let address = format!("--master_server_address={}", master.rpc);
    let refused = |more: &[&str]| says(CLIENT, &[&[&*address, SMALL, "--port=0"], more].concat());
    assert!(refused(&[&flag(&other)]).contains("token"));
    let both = refused(&[&flag(&file), "--auth_token=secret"]);
    assert!(both.contains("are both given; one of them gives the token"), "{both}");
    let missing = refused(&["--auth_token_file=/nowhere/token"]);
    assert!(
        missing.contains("--auth_token_file: the token file /nowhere/token cannot be read"),
        "{missing}"
    );
    for file in [file, other] {
        std::fs::remove_file(file).expect("it is there");
    }
}

#[test]
fn dummy_clients_are_missed_only_where_they_were_asked_for() {
    let master = Master::start(MASTER, &[]);
    let address = format!("--master_server_address={}", master.rpc);
    let args = ["--host=127.0.0.1", &address, SMALL];
    let (first, second) = (Program::start(CLIENT, &args), Program::start(CLIENT, &args));
    for node in [first, second] {
        // One of the two nodes gets the default socket, unless a node outside this test has it.
        let line = node.line("dummy clients are");
        assert!(line.contains(" INFO "), "{line}");
    }
    let port = format!("--port={}", free_port());
    let asked = [&args[..], &[&port]].concat();
    let node = Program::start(CLIENT, &asked);
    node.line("the storage node is ready");
    let error = says(CLIENT, &asked);
    assert!(error.contains(&port) && error.contains("Address already in use"), "{error}");
}

#[test]
fn a_segment_on_a_disk_is_warned_about() {
    let master = Master::start(MASTER, &[]);
    let file = place("segment");
    let flag = format!("--segment_path={}", file.display());
    let node = Node::start(CLIENT, &master.rpc, &[SMALL, &flag]);
    let opened = std::fs::File::open(&file).expect("it was made");
    if !mooncake_memory::lies_in_memory(&opened.into()).expect("the system says it") {
        let line = node.program.first_line("this segment lies on a disk");
        assert!(line.contains(" WARN ") && line.contains("/dev/shm"), "{line}");
    }
    drop(node);
    std::fs::remove_file(file).expect("it is there");
}

/// A limit on its address space keeps the process from getting this memory, so the test does not fill the machine.
#[test]
fn a_segment_larger_than_the_machine_is_warned_about() {
    let command = format!("ulimit -v 8000000; exec {CLIENT} --global_segment_size=16TB");
    let ended = Command::new("sh").args(["-c", &command]).output().expect("there is a shell");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        said.contains("WARN") && said.contains("this process lends 16 TB, more than "),
        "{said}"
    );
    assert!(said.contains("cannot be mapped"), "{said}");
}

#[test]
fn what_has_no_effect_is_named_once_with_what_happens_instead() {
    let variables = [("MC_STORE_LOCAL_HOT_USE_SHM", "1"), ("MC_STORE_USE_HUGEPAGE", "0")];
    let flags = [
        "--state_dir=none",
        "--rpc_port=0",
        "--port=0",
        "--metrics_port=0",
        "--rpc_address=127.0.0.1",
        "--pod_name=pod",
        "--oplog_poll_interval_ms=5",
        "--max_threads=8",
        "--enable_oplog=false",
        "--enable_snapshot=true",
        "--logtostderr",
    ];
    let master = Program::start_with_variables(MASTER, &flags, &variables);
    let line = master.line("without effect in this build");
    for part in [
        "--oplog_poll_interval_ms (there is no operation log",
        "--max_threads (one thread",
        "--enable_snapshot (there are no snapshots: a new leader asks the nodes",
        "MC_STORE_LOCAL_HOT_USE_SHM (all processes",
    ] {
        assert!(line.contains(part), "{line}");
    }
    for quiet in ["HUGEPAGE", "enable_oplog", "logtostderr", "pod_name"] {
        assert!(!line.contains(quiet), "{line}");
    }
    let rpc = Program::field(&master.line("the master serves"), "rpc_addr=");
    let address = format!("--master_server_address={rpc}");
    let args = [
        "--host=127.0.0.1",
        &address,
        SMALL,
        "--port=0",
        "--protocol=rdma",
        "--device_names=mlx5_0",
    ];
    let node = Program::start(CLIENT, &args);
    node.line("protocol 'rdma': there is no NIC of libibverbs, so other hosts are reached by tcp");
    let args =
        ["--host=127.0.0.1", &address, SMALL, "--port=0", "--protocol=efa", "--device_names=x"];
    let node = Program::start(CLIENT, &args);
    node.line("--device_names (no network card is chosen");
    node.line("protocol \"efa\" is taken for 'tcp'");
}

#[test]
fn a_number_that_a_call_returned_is_explained() {
    let explain = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_mooncake")).args(args).output();
    let ended = explain(&["error", "-200"]).expect("the program exists");
    let text = String::from_utf8(ended.stdout).expect("text");
    assert!(text.starts_with("NO_AVAILABLE_HANDLE (-200)\n  The pool has no room"), "{text}");
    let unknown = explain(&["error", "-2"]).expect("the program exists");
    assert_eq!(unknown.status.code(), Some(2));
}
