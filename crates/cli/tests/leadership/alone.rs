use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cluster::{put, store, until_served};
use crate::surroundings::Folder;
use mooncake_testing::{Program, http_get};

fn start(state_dir: &Path, rpc_port: &str) -> Program {
    let args = [
        &format!("--state_dir={}", state_dir.display()),
        &format!("--rpc_port={rpc_port}"),
        "--port=0",
        "--metrics_port=0",
        "--rpc_address=127.0.0.1",
        "--metrics_host=127.0.0.1",
    ];
    Program::start(env!("CARGO_BIN_EXE_mooncake_master"), &args)
}

/// The port and the epoch that a serving master logs.
fn served(master: &Program) -> (String, u64) {
    let line = master.line("the master serves");
    let port = Program::field(&line, "rpc_addr=").rsplit(':').next().expect("a port").to_owned();
    (port, Program::field(&line, "epoch=").parse().expect("a number"))
}

fn file(state_dir: &Path, port: &str) -> PathBuf {
    state_dir.join("mooncake_cluster").join(port).join("members.json")
}

#[test]
fn the_epoch_grows_with_every_start_whatever_the_clock_says() {
    let folder = Folder::new("epochs");
    let mut master = start(folder.path(), "0");
    let (port, mut last) = served(&master);
    for signal in [Signal::KILL, Signal::TERM, Signal::KILL] {
        master.signal(signal);
        master.end();
        master = start(folder.path(), &port);
        let (_, epoch) = served(&master);
        assert!(epoch > last, "{epoch} after {last}");
        last = epoch;
    }
}

#[test]
fn a_record_that_cannot_be_used_ends_the_master_with_its_path() {
    let folder = Folder::new("corrupt");
    let mut master = start(folder.path(), "0");
    let (port, _) = served(&master);
    let path = file(folder.path(), &port);
    let second = start(folder.path(), "0");
    served(&second);
    master.kill();
    std::fs::write(&path, "{\"format\":").expect("it is our file");
    let mut master = start(folder.path(), &port);
    let line = master.line("cannot be used");
    assert!(line.contains(&path.display().to_string()), "{line}");
    assert_eq!(master.end().code(), Some(1));
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "{\"format\":");
}

/// A place in this folder that cannot be written. Root may write to any folder, but not below a path that is a file.
fn blocked(folder: &Folder) -> PathBuf {
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "").expect("a file for tests");
    std::fs::set_permissions(&blocked, PermissionsExt::from_mode(0o400)).expect("our file");
    blocked
}

#[test]
fn a_default_folder_that_cannot_be_written_is_a_warning() {
    let folder = Folder::new("unwritable");
    let blocked = blocked(&folder);
    let variables = [("XDG_STATE_HOME", blocked.to_str().expect("text"))];
    let args = ["--rpc_port=0", "--port=0", "--metrics_port=0", "--rpc_address=127.0.0.1"];
    let path = env!("CARGO_BIN_EXE_mooncake_master");
    let master = Program::start_with_variables(path, &args, &variables);
    let line = master.line("the membership record is not kept");
    assert!(line.contains("--state_dir"), "{line}");
    served(&master);
}

#[test]
fn a_master_whose_state_dir_cannot_be_written_does_not_start() {
    let folder = Folder::new("refused");
    let mut master = start(&blocked(&folder), "0");
    let line = master.line("cannot be read and written");
    assert!(line.contains("--state_dir=none"), "{line}");
    assert_eq!(master.end().code(), Some(1));
}

#[test]
fn a_state_disk_that_says_nothing_is_told_of_and_holds_up_neither_nodes_nor_the_end() {
    let folder = Folder::new("stalled");
    let mut master = start(folder.path(), "0");
    let line = master.line("the master serves");
    let (rpc, admin) = (Program::field(&line, "rpc_addr="), Program::field(&line, "admin_addr="));
    let port = rpc.rsplit(':').next().expect("a port");
    // Opening a pipe for writing blocks until a process opens it for reading.
    let next = file(folder.path(), port).with_extension("json.new");
    assert!(Command::new("mkfifo").arg(next).status().expect("it is installed").success());

    let address = format!("--master_server_address={rpc}");
    let args = ["--host=127.0.0.1", "--port=0", "--global_segment_size=32MB", &address];
    let mut node = Program::start(env!("CARGO_BIN_EXE_mooncake_client"), &args);
    node.line("PERSISTENT_FAIL");
    assert_ne!(node.end().code(), Some(0));
    master.line("the membership record cannot be written");
    let metrics = http_get(&admin, "/metrics");
    let late =
        metrics.lines().find(|line| line.starts_with("master_membership_record_late_seconds"));
    assert!(late.is_some_and(|line| !line.ends_with(" 0")), "{late:?}");
    master.signal(Signal::TERM);
    master.line("the membership record was not written");
    assert_eq!(master.end().code(), Some(1));
}

#[test]
fn a_master_alone_that_was_killed_with_its_nodes_takes_its_first_put_within_two_seconds() {
    let folder = Folder::new("all-killed");
    let mut master = start(folder.path(), "0");
    let (port, _) = served(&master);
    let address = format!("127.0.0.1:{port}");
    let node = || {
        let path = env!("CARGO_BIN_EXE_mooncake_client");
        let master = format!("--master_server_address={address}");
        let args = ["--host=127.0.0.1", "--port=0", "--global_segment_size=32MB", &master];
        let node = Program::start(path, &args);
        node.line("the storage node is ready");
        node
    };
    let mut killed = node();
    assert_eq!(put(&store(&address), "lost", 0), Ok(()));
    master.kill();
    killed.kill();
    let begun = Instant::now();
    master = start(folder.path(), &port);
    served(&master);
    let _node = node();
    until_served(&store(&address), "first");
    let took = begun.elapsed();
    println!("the first put took {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}
