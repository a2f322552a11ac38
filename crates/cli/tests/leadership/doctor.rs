//! `mooncake doctor` and `mooncake status` of a pool with several masters.

use std::process::Command;

use crate::cluster::Cluster;

#[test]
fn a_doctor_finds_the_leader_in_a_list_or_by_its_coordinator_and_says_what_a_standby_is() {
    let mut cluster = Cluster::new("doctor");
    let (leader, standby) = cluster.pair();
    cluster.add_node();
    let doctor = |master: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake"));
        command.args(["doctor", "--master", master, "--master-http", &leader.admin]);
        let ended = command.output().expect("the program exists");
        let text = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
        (ended.status.code(), text.into_owned())
    };
    let list = format!("{},{}", standby.rpc, leader.rpc);
    for master in [&*leader.rpc, &list, cluster.coordinator()] {
        let (code, text) = doctor(master);
        assert_eq!(code, Some(0), "{master}: {text}");
        assert!(text.starts_with(&format!("master {}: 1 segments\n", leader.rpc)), "{text}");
    }
    let (code, text) = doctor(&standby.rpc);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&standby.rpc) && text.contains("of several masters name all"), "{text}");
}

#[test]
fn a_drain_that_asks_the_rpc_port_is_told_which_one_it_is() {
    let cluster = Cluster::new("drain-port");
    let leader = cluster.master();
    leader.wait_until_role("leader");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake"));
    command.args(["drain", "node", "--master_http", &leader.rpc]);
    let ended = command.output().expect("the program exists");
    let text = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{text}");
    assert!(text.contains("This is the RPC port of a Mooncake Store master"), "{text}");
    assert!(text.contains("The admin HTTP server is on port "), "{text}");
}

#[test]
fn status_names_the_leader_the_standby_and_a_master_that_is_away() {
    let mut cluster = Cluster::new("status");
    let (leader, standby) = cluster.pair();
    cluster.add_node();
    let status = |masters: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mooncake"));
        let ended = command.args(["status", "--master-http", masters]).output();
        let ended = ended.expect("the program exists");
        (ended.status.code(), String::from_utf8_lossy(&ended.stdout).into_owned())
    };
    let (code, text) = status(&format!("{},{}", standby.admin, leader.admin));
    assert_eq!(code, Some(0), "{text}");
    for line in ["  leader   serving ", "  standby  standby ", " memory  OK ", "  objects  0\n"] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    let (code, text) = status(&format!("127.0.0.1:1,{}", leader.admin));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("127.0.0.1:1") && text.contains("  no answer\n"), "{text}");
    assert!(text.contains("problems\n  cannot reach http://127.0.0.1:1/health: "), "{text}");
    let (code, text) = status(&standby.admin);
    assert_eq!(code, Some(1), "{text}");
    let hint = format!("the master that leads serves clients at {}: name its", leader.rpc);
    assert!(text.contains(&hint), "{text}");
}
