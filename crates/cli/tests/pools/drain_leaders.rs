//! Drains under a master that is killed. Only its memory holds the drain jobs; its record says what is drained.

use std::time::Instant;

use mooncake_client::Store;
use mooncake_testing::{Master, PATIENCE, Program};
use rustix::process::Signal;

use crate::drain::{get, keys, put};
use crate::start::{MASTER, node, store};

const MOONCAKE: &str = env!("CARGO_BIN_EXE_mooncake");

fn all_are_there(store: &Store, keys: &[String]) {
    let begun = Instant::now();
    for key in keys {
        while let Err(code) = get(store, key) {
            assert!(begun.elapsed() < PATIENCE, "{key}: {code}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn a_drain_goes_on_under_a_master_that_was_killed_and_started_again() {
    let mut master = Master::start_lasting(MASTER, &[]);
    let mut first = node(&master.rpc, &[]);
    let store = store(&master.rpc);
    let keys = keys(40);
    keys.iter().for_each(|key| put(&store, key, 1).expect("there is room"));
    let _second = node(&master.rpc, &[]);
    // While the node is paused, no object moves.
    first.program.signal(Signal::STOP);
    let args = ["drain", &*first.address, "--master_http", &*master.admin];
    let mut tool = Program::start(MOONCAKE, &args);
    let line = tool.line("drain job ");
    let job = line.trim_start_matches("drain job ");
    let mut watcher =
        Program::start(MOONCAKE, &["drain", "--job", job, "--master_http", &master.admin]);
    watcher.line("RUNNING");
    master.restart();
    first.program.signal(Signal::CONT);
    tool.line(&format!("another master leads, and knows nothing of drain job {job}"));
    assert_eq!(tool.end().code(), Some(0));
    // A tool that only watches the job follows the next one.
    watcher.line("another master leads");
    assert_eq!(watcher.end().code(), Some(0));
    first.program.kill();
    all_are_there(&store, &keys);
}
