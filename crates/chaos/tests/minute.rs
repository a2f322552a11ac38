//! Runs the chaos program for a minute, as a test.

use std::process::Command;

#[test]
#[ignore = "it takes more than a minute: make test-chaos"]
fn a_minute_of_faults_breaks_no_promise() {
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_mooncake-chaos"));
    let status = chaos.args(["run", "--seconds", "60"]).status().expect("the program exists");
    assert!(status.success(), "{status}");
}
