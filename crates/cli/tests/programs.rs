//! The programs as processes: their starts, their messages and their ends.

#![allow(missing_docs, reason = "tests are no public interface")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use mooncake_testing::{Master, PATIENCE, Program, free_port, http_get};
use rustix::process::Signal;

/// Both names of the port flag; port 0 means any free port.
const ANY_PORTS: [&str; 6] = [
    "--state_dir=none",
    "--rpc_port=0",
    "--port=0",
    "--metrics_port=0",
    "--rpc_address=127.0.0.1",
    "--metrics_host=127.0.0.1",
];

const MASTER: &str = env!("CARGO_BIN_EXE_mooncake_master");
const CLIENT: &str = env!("CARGO_BIN_EXE_mooncake_client");
const MOONCAKE: &str = env!("CARGO_BIN_EXE_mooncake");

fn output(path: &str, args: &[&str]) -> Output {
    Command::new(path).args(args).output().expect("the program exists")
}

#[test]
fn a_master_serves_within_a_second_and_stops_on_signals_within_another() {
    for signal in [Signal::TERM, Signal::INT] {
        let begun = Instant::now();
        let mut master = Master::start(MASTER, &[]);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        assert_eq!(http_get(&master.admin, "/role"), "leader");
        TcpStream::connect(&master.rpc).expect("the RPC port is open");
        let (code, took) = master.program.stop(signal);
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

#[test]
fn a_master_starts_again_at_once_on_the_same_ports() {
    let mut first = Master::start(MASTER, &[]);
    let open = TcpStream::connect(&first.rpc).expect("the RPC port is open");
    assert_eq!(first.program.stop(Signal::TERM).0, Some(0));
    let port = |address: &str| address.rsplit(':').next().expect("a port").to_owned();
    let second = Program::start(
        MOONCAKE,
        &[
            "master",
            &format!("-rpc-port={}", port(&first.rpc)),
            "--metrics-port",
            &port(&first.admin),
            "--rpc_address=127.0.0.1",
        ],
    );
    second.first_line("the master serves");
    assert_eq!(http_get(&first.admin, "/role"), "leader");
    drop(open);
}

#[test]
fn operators_find_a_program_by_its_name_however_it_was_started() {
    let comm = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs");
    let mut starts = vec![(MASTER, ANY_PORTS.to_vec())];
    starts.push((MOONCAKE, [&["master"][..], &ANY_PORTS].concat()));
    for (path, args) in starts {
        let program = Program::start(path, &args);
        program.first_line("the master serves");
        assert_eq!(comm(program.id()), "mooncake_master\n", "{path}");
    }
}

#[test]
fn a_name_without_its_program_says_what_is_missing() {
    let folder = std::env::temp_dir().join(format!("mooncake-alone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let alone = folder.join("mooncake_client");
    std::fs::copy(CLIENT, &alone).expect("a copy");
    let output = output(alone.to_str().expect("text"), &["--help"]);
    std::fs::remove_dir_all(&folder).expect("it is there");
    let said = String::from_utf8(output.stderr).expect("text");
    let missing = folder.join("mooncake").display().to_string();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with(&format!("mooncake_client: cannot run {missing}: ")), "{said}");
}

#[test]
fn a_master_logs_its_metrics_and_what_has_no_effect() {
    let master = Master::start(MASTER, &["--enable_metadata_cleanup_on_timeout"]);
    master.program.first_line("no effect without --enable_http_metadata_server");
    let line = master.program.first_line("Master Metrics: ");
    assert!(
        line.contains("Master Metrics: Storage: 0 B / 0 B | Keys: 0 (soft-pinned: 0)"),
        "{line}"
    );
    assert!(line.contains("role=leader, state=serving, service_ready=true"), "{line}");
}

#[test]
fn a_master_goes_on_when_nobody_reads_its_log() {
    let mut child = Command::new(MASTER)
        .args(ANY_PORTS)
        .arg("--log_level=trace")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program exists");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("the master serves") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).expect("text"), 0, "the master ended");
    }
    let (_, rest) = line.split_once("rpc_addr=").unwrap_or_else(|| panic!("no address in {line}"));
    let rpc = rest.split_whitespace().next().expect("an address").to_owned();
    drop(stderr);
    for _ in 0..10 {
        let mut stream = TcpStream::connect(&rpc).expect("the master serves");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(&[0x5a; 64]).expect("there is room");
        // The master logs that it refuses these bytes, and continues.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let mut program = Program::without_log(child);
    assert_eq!(program.stop(Signal::TERM).0, Some(0));
}

#[test]
fn help_that_nobody_reads_is_no_fault() {
    for (path, argument) in [(MOONCAKE, "help"), (MOONCAKE, "--version"), (MASTER, "--help")] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let status = Command::new(path).arg(argument).stdout(writer).status();
        assert_eq!(status.expect("the program exists").code(), Some(0), "{path} {argument}");
    }
}

#[test]
fn a_master_serves_metadata_where_it_is_told_to() {
    let metadata = [
        "--enable_http_metadata_server=true",
        "--http_metadata_server_host=127.0.0.1",
        "--http_metadata_server_port=0",
    ];
    let master = Master::start(MASTER, &metadata);
    let line = master.program.first_line("metadata_addr=");
    let (_, address) = line.split_once("metadata_addr=").expect("the line was found by it");
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    assert_eq!(http_get(address.trim_end(), "/health"), "OK");
    assert_eq!(http_get(address.trim_end(), "/metadata?key=a"), "metadata not found");
}

#[test]
fn a_taken_port_ends_the_master_with_the_flag_to_change() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = other.local_addr().expect("bound").port().to_string();
    for flag in ["rpc_port", "metrics_port", "http_metadata_server_port"] {
        let mut args: Vec<String> = ANY_PORTS.iter().map(ToString::to_string).collect();
        args.push("--http_metadata_server_host=127.0.0.1".to_owned());
        args.push("--enable_http_metadata_server".to_owned());
        args.push("--http_metadata_server_port=0".to_owned());
        let mut command = Command::new(MASTER);
        let ended = command
            .args(args)
            .arg(format!("--{flag}={port}"))
            .output()
            .expect("the program exists");
        assert_eq!(ended.status.code(), Some(1));
        let text = String::from_utf8_lossy(&ended.stderr);
        let expected = format!(
            "port {port} on 127.0.0.1 is taken by another process; choose another with --{flag}"
        );
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn wrong_command_lines_end_with_2_and_say_why() {
    let cases: &[(&str, &[&str], &str)] = &[
        (
            MASTER,
            &["--rpc_prt=1"],
            "mooncake_master: unknown flag --rpc_prt; did you mean --rpc_port?\n",
        ),
        (CLIENT, &["--hots=x"], "mooncake_client: unknown flag --hots; did you mean --host?\n"),
        (MOONCAKE, &["mster"], "mooncake: there is no command 'mster'; did you mean master?\n"),
        (MOONCAKE, &[], "A distributed KV-cache store"),
    ];
    for (path, args, expected) in cases {
        let ended = output(path, args);
        assert_eq!(ended.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(text.starts_with(expected), "{text}");
    }
    for (path, args) in
        [(MASTER, "--help"), (CLIENT, "--help"), (MOONCAKE, "help"), (MOONCAKE, "--version")]
    {
        let ended = output(path, &[args]);
        assert_eq!(ended.status.code(), Some(0));
        assert!(!ended.stdout.is_empty());
    }
}

#[test]
fn a_storage_node_says_when_it_is_ready_and_takes_its_segment_back_when_it_stops() {
    let master = Master::start(MASTER, &[]);
    let address = format!("--master_server_address={}", master.rpc);
    let door = format!("-port={}", free_port());
    let mut node = Program::start(
        CLIENT,
        &["--host=127.0.0.1", &address, "--global_segment_size=16MB", &door, "--protocol=tcp"],
    );
    let line = node.first_line("the storage node is ready");
    assert!(line.contains("segment=16 MB") && line.contains(&master.rpc), "{line}");
    let name = http_get(&master.admin, "/get_all_segments");
    assert!(line.contains(name.trim_end()) && name.starts_with("127.0.0.1:"), "{line}: {name}");
    assert_eq!(
        http_get(&master.admin, &format!("/query_segment?segment={}", name.trim_end())),
        format!("{name}Used(bytes): 0\nCapacity(bytes) : 16777216\n")
    );
    let (code, took) = node.stop(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(http_get(&master.admin, "/get_all_segments"), "");
}

#[test]
fn a_storage_node_says_over_http_how_it_is() {
    let mut master = Master::start(MASTER, &[]);
    let address = format!("--master_server_address={}", master.rpc);
    let args = [
        "--host=127.0.0.1",
        &address,
        "--global_segment_size=16MB",
        "--enable_http_server",
        "--http_host=127.0.0.1",
        "--http_port=0",
        "--port=0",
    ];
    let mut node = Program::start(CLIENT, &args);
    let line = node.first_line("http_addr=");
    let (_, http) = line.split_once("http_addr=").expect("the line was found by it");
    let http = http.trim_end();
    let health =
        |word: &str| http_get(http, "/health").starts_with(&format!(r#"{{"status":"{word}","#));
    assert!(health("healthy"));
    assert!(http_get(http, "/metrics").contains("# TYPE mooncake_transfer_read_bytes counter"));
    assert!(http_get(http, "/metrics/summary").starts_with("=== Transfer Metrics Summary ==="));
    assert_eq!(master.program.stop(Signal::TERM).0, Some(0));
    let deadline = Instant::now() + PATIENCE;
    while !health("master_unreachable") {
        assert!(Instant::now() < deadline, "the node does not notice");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
    TcpStream::connect(http).expect_err("nobody listens any more");
}

#[test]
fn a_taken_http_port_ends_a_storage_node() {
    let master = Master::start(MASTER, &[]);
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = other.local_addr().expect("bound").port();
    let address = format!("--master_server_address={}", master.rpc);
    let http_port = format!("--http_port={port}");
    let args = [
        &address,
        "--global_segment_size=16MB",
        "--enable_http_server",
        "--http_host=127.0.0.1",
        &http_port,
    ];
    let ended = output(CLIENT, &args);
    assert_eq!(ended.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    let expected = format!("port {port} on 127.0.0.1 is taken by another process");
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn a_storage_node_of_another_cluster_or_without_a_master_says_so() {
    let master = Master::start(MASTER, &["--cluster_id=green"]);
    let address = format!("--master_server_address={}", master.rpc);
    let ended = output(CLIENT, &[&address, "--cluster_id=blue", "--global_segment_size=16MB"]);
    assert_eq!(ended.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(text.contains("\"green\"") && text.contains("\"blue\""), "{text}");

    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nobody = free.local_addr().expect("bound").to_string();
    drop(free);
    let mut command = Command::new(CLIENT);
    command.arg(format!("--master_server_address={nobody}")).arg("--global_segment_size=16MB");
    let ended =
        command.env("MC_RPC_CONNECT_TIMEOUT_MS", "300").output().expect("the program exists");
    assert_eq!(ended.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(text.contains(&nobody), "{text}");
}

#[test]
fn a_storage_node_waits_for_its_master_with_one_line_and_may_be_stopped_meanwhile() {
    let port = free_port();
    let address = format!("--master_server_address=127.0.0.1:{port}");
    let waiting = || {
        let args = ["--host=127.0.0.1", &address, "--global_segment_size=16MB", "--port=0"];
        // Without the flag, it would end after 200 ms.
        let variables = [("MC_RPC_CONNECT_TIMEOUT_MS", "200"), ("MOONCAKE_WAIT_FOR_MASTER", "1")];
        let node = Program::start_with_variables(CLIENT, &args, &variables);
        let line = node.line("no master has taken this client yet");
        assert!(line.contains("it goes on trying until one does"), "{line}");
        node
    };
    let mut stopped = waiting();
    let (code, took) = stopped.stop(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_millis(500), "{took:?}");

    let mut node = waiting();
    let rpc = format!("--rpc_port={port}");
    let master = Program::start(
        MASTER,
        &[&rpc, "--rpc_address=127.0.0.1", "--metrics_port=0", "--state_dir=none"],
    );
    master.line("the master serves");
    let line = node.first_line("the storage node is ready");
    assert!(line.contains("the storage node is ready"), "{line}");
    assert_eq!(node.seen("no master has taken this client yet"), 1);
    assert_eq!(node.stop(Signal::TERM).0, Some(0));
}

#[test]
fn logs_may_be_json_from_the_first_line_on() {
    let args = [&ANY_PORTS[..], &["--log_format=json"]].concat();
    let mut master = Program::start(MASTER, &args);
    let first = master.first_line("mooncake_master starts");
    let serves = master.first_line("the master serves");
    assert_eq!(master.stop(Signal::TERM).0, Some(0));
    for (line, field) in [(&first, "version"), (&serves, "rpc_addr")] {
        let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(object["level"], "INFO");
        for name in ["timestamp", "target", "message", field] {
            assert!(object[name].is_string(), "{name} of {line}");
        }
    }
}

#[test]
fn a_port_that_is_named_is_also_the_one_where_a_node_serves() {
    let master = Master::start(MASTER, &[]);
    let (address, port) = (format!("--master_server_address={}", master.rpc), free_port());
    let named = format!("--port={port}");
    let node = |host: &str| {
        let node = Program::start(CLIENT, &[host, &address, "--global_segment_size=16MB", &named]);
        node.line("the storage node is ready");
        node
    };
    let mut served = node("--host=127.0.0.1");
    TcpStream::connect(("127.0.0.1", port)).expect("a probe finds it there");
    assert_eq!(http_get(&master.admin, "/get_all_segments"), format!("127.0.0.1:{port}\n"));
    served.kill();
    let other = free_port();
    let _elsewhere = node(&format!("--host=127.0.0.1:{other}"));
    TcpStream::connect(("127.0.0.1", other)).expect("the port of --host comes first");
}

#[test]
fn a_doctor_says_which_way_bytes_take_and_when_a_node_cannot_be_reached() {
    let master = Master::start(MASTER, &[]);
    let address = format!("--master_server_address={}", master.rpc);
    let door = format!("-port={}", free_port());
    let args = ["--host=127.0.0.1", &address, "--global_segment_size=16MB", &door];
    let mut node = Program::start(CLIENT, &args);
    node.first_line("the storage node is ready");
    let doctor = |transports: &str| {
        let args = ["doctor", "--master", &master.rpc, "--master-http", &master.admin];
        let mut command = Command::new(MOONCAKE);
        command.args(args).env("MOONCAKE_TRANSPORTS", transports);
        let output = command.output().expect("the program exists");
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text.into_owned())
    };
    let here = "it is on this host and belongs to this user; ";
    let found = [
        ("", "shm", format!("{here}its memory is mapped here")),
        ("process_vm", "process_vm", format!("{here}the kernel copies its memory")),
        ("tcp", "tcp", "it is on this host and belongs to this user; allowed are only tcp".into()),
    ];
    for (transports, way, why) in found {
        let (code, text) = doctor(transports);
        assert_eq!(code, Some(0), "{text}");
        assert!(
            text.contains(": 1 segments\n") && text.contains("(16 MB) at 127.0.0.1:"),
            "{text}"
        );
        assert!(text.contains(&format!("  way         {way}\n  because     {why}")), "{text}");
        assert!(text.contains("  round trip  ") && !text.contains("no answer"), "{text}");
    }
    let (code, text) = doctor("shm,carrier-pigeon");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("MOONCAKE_TRANSPORTS") && text.contains("shm, process_vm, fabric and tcp"),
        "{text}"
    );
    node.kill();
    let (code, text) = doctor("");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("  way         none\n  because     nobody serves at 127.0.0.1:"),
        "{text}"
    );
    let args = ["doctor", "--master", "127.0.0.1:1"];
    let nobody = output(MOONCAKE, &args);
    assert_eq!(nobody.status.code(), Some(1));
    let text = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(
        text.starts_with("mooncake doctor: no master that leads answered at 127.0.0.1:1: ")
            && text.contains("Connection refused")
            && text.contains("of several masters name all"),
        "{text}"
    );
}
