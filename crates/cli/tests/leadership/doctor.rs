//! `mooncake doctor` of a pool with several masters.

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
