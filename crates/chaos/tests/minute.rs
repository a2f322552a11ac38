//! Runs the chaos program for a minute, as a test.

use std::process::Command;

#[test]
#[ignore = "it takes more than a minute: make test-chaos"]
fn a_minute_of_faults_breaks_no_promise() {
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_mooncake-chaos"));
    let status = chaos.args(["run", "--seconds", "60"]).status().expect("the program exists");
    assert!(status.success(), "{status}");
}

#[test]
#[ignore = "it takes more than a minute: make test-chaos"]
fn a_minute_in_which_leaders_die_in_recovery_breaks_no_promise() {
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_mooncake-chaos"));
    let only = ["--only=leaders killed in recovery", "--only=node unplugged", "--only=node paused"];
    let status = chaos.args(["run", "--seconds", "60"]).args(only).status();
    let status = status.expect("the program exists");
    assert!(status.success(), "{status}");
}
