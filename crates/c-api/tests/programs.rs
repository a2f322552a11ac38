//! Compiles programs in C and C++ against the library and its headers, and runs them on a pool with a master.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use mooncake_master::{Config, LeadershipConfig, Master, ServeError};
use mooncake_testing::Program;
use tokio::sync::oneshot;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// With each warning an error, since a header is compiled with the flags of its users.
const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"];

/// A master of this process, on a port of loopback.
struct TestMaster {
    address: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl TestMaster {
    fn start() -> Self {
        let config = Config {
            rpc_address: "127.0.0.1".to_owned(),
            rpc_port: 0,
            metrics_host: "127.0.0.1".to_owned(),
            metrics_port: 0,
            leadership: LeadershipConfig::Alone { state_dir: None },
            ..Config::default()
        };
        let master = Master::bind(config).expect("loopback has a free port");
        let address = master.rpc_addr().expect("it is bound").expect("to a port").to_string();
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            master.serve(async {
                let _ = stopped.await;
            })
        };
        Self { address, stop: Some(stop), thread: Some(std::thread::spawn(serve)) }
    }
}

impl Drop for TestMaster {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The folder that holds the library: that of this test program, or the one above.
fn library_folder() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let mut folders = program.ancestors().skip(1).take(2);
    let found = folders.find(|folder| folder.join("libmooncake_store.so").exists());
    found.expect("cargo builds the library before the tests").to_owned()
}

/// Compiles a program of `tests/programs`. Returns its path.
fn compile(source: &str, compiler: &[&str]) -> PathBuf {
    let library = library_folder();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.replace('.', "_"));
    let include = Path::new(CRATE).join("include/mooncake");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(WARNINGS).arg("-I").arg(include).arg("-o").arg(&program);
    command.arg(Path::new(CRATE).join("tests/programs").join(source));
    command.arg("-L").arg(&library).arg("-lmooncake_store").arg("-pthread");
    command.arg(format!("-Wl,-rpath,{}", library.display()));
    let output = command.output().expect("there is a compiler for C and C++");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source} does not compile:\n{said}");
    program
}

/// Runs a program on a new pool. Returns what it logged.
fn run(program: &Path) -> String {
    let master = TestMaster::start();
    let path = program.to_str().expect("the folder has a name in UTF-8");
    let (status, log) = Program::start(path, &[&master.address]).outcome();
    assert!(status.success(), "{status}:\n{log}");
    log
}

#[test]
fn a_program_in_c_makes_every_call() {
    run(&compile("calls.c", &["cc", "-std=c11"]));
}

#[test]
fn wrong_arguments_of_c_are_error_numbers_and_lines_in_the_log() {
    let log = run(&compile("wrong_arguments.c", &["cc", "-std=c11"]));
    for line in [
        "mooncake_store_put: store is null",
        "mooncake_store_put: store is no handle of a store, or of one that was destroyed",
        "mooncake_store_put: the store is not set up",
        "mooncake_store_put: the store was set up with local_buffer_size=0",
        "mooncake_store_put: key is null",
        "mooncake_store_put: key is not UTF-8",
        "mooncake_store_put: the buffer is null",
        "mooncake_store_put: size is more than any memory, or was negative",
        "mooncake_store_put: the value of \"key\" is empty",
        "mooncake_store_put: preferred_segments is null",
        "mooncake_store_put: a preferred segment is null",
        "mooncake_store_batch_put_from: keys is null",
        "mooncake_store_batch_put_from: results_out is null",
        "mooncake_store_batch_put_from: count is more than 1048576",
        "mooncake_store_setup: local_hostname is null",
        "mooncake_store_setup: protocol \"carrier\" is not one of",
        "mooncake_store_query_by_regex: visit is null",
        "mooncake_store_get_hostname: buf_out is null",
    ] {
        assert!(log.contains(line), "no line {line:?} in\n{log}");
    }
}

#[test]
fn the_library_has_the_functions_of_its_header_and_no_others() {
    let header = Path::new(CRATE).join("include/mooncake/store_c.h");
    let header = std::fs::read_to_string(header).expect("the header is text");
    let calls = header.split("mooncake_store_").skip(1);
    let calls = calls.filter_map(|rest| Some(rest.split_once('(')?.0));
    let is_name = |call: &&str| call.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let declared: BTreeSet<String> =
        calls.filter(is_name).map(|call| format!("mooncake_store_{call}")).collect();
    let library = library_folder().join("libmooncake_store.so");
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let listed = String::from_utf8(listed.expect("there is nm").stdout).expect("names are text");
    let exported: BTreeSet<String> = listed
        .lines()
        .filter_map(|line| Some(line.split_whitespace().last()?.to_owned()))
        .collect();
    assert_eq!(exported, declared);
    assert_eq!(declared.len(), 23);
}

#[test]
fn clients_in_cpp_share_a_pool() {
    run(&compile("client_integration.cpp", &["c++", "-std=c++17"]));
}
