//! Nodes that are read and written one-sided, over the provider `tcp` of libfabric.

use std::process::Command;

use mooncake_client::{Buffer, PutSource, ReplicateConfig, SliceList, Store, StoreConfig};
use mooncake_testing::{Master, Program};
use mooncake_transfer::FabricOptions;

use crate::start::{CLIENT, MASTER, config};

const MOONCAKE: &str = env!("CARGO_BIN_EXE_mooncake");

/// The loopback interface: the provider would take another one.
const VARIABLES: [(&str, &str); 3] = [
    ("MOONCAKE_TRANSPORTS", "fabric"),
    ("MOONCAKE_FABRIC_PROVIDER", "tcp"),
    ("FI_TCP_IFACE", "lo"),
];

fn config_over(provider: &str, master: &str) -> StoreConfig {
    let (provider, device) = (Some(provider.to_owned()), Some("lo".to_owned()));
    StoreConfig {
        transports: "fabric".parse().expect("it is a way"),
        fabric: FabricOptions { library: None, provider, device },
        ..config(master)
    }
}

#[test]
fn objects_go_to_another_process_and_back_one_sided() {
    let master = Master::start(MASTER, &[]);
    let follows = format!("--master_server_address={}", master.rpc);
    let args = ["--host=127.0.0.1", "--port=0", "--global_segment_size=32MB", &follows];
    let node = Program::start_with_variables(CLIENT, &args, &VARIABLES);
    node.line("the storage node is ready");
    let store = Store::open(config_over("tcp", &master.rpc)).expect("the master serves");
    for (key, len) in [("short", 100), ("long", 200_000), ("longer", 9 << 20)] {
        let bytes: Vec<u8> = (0..len).map(|at: usize| (at / 7 + len) as u8).collect();
        let buffer = Buffer::from_vec(bytes.clone());
        let source = PutSource::new(key, SliceList::from(buffer.raw()));
        let put = store.put(&[source], &ReplicateConfig::default()).remove(0);
        put.expect("there is room");
        let read = store.get(&[key]).remove(0).expect("it is there");
        assert!(read.into_vec() == bytes, "{key}");
    }
    let args = ["doctor", "--master", &master.rpc, "--master-http", &master.admin];
    let output = Command::new(MOONCAKE).args(args).envs(VARIABLES).output();
    let text = String::from_utf8_lossy(&output.expect("the program exists").stdout).into_owned();
    assert!(text.contains("  way         fabric\n"), "{text}");
    assert!(text.contains(" on lo, ") && text.contains(" reads its memory"), "{text}");
}

#[test]
fn where_fabric_alone_is_allowed_a_missing_provider_is_an_error_that_names_it() {
    let master = Master::start(MASTER, &[]);
    let error = Store::open(config_over("carrier-pigeon", &master.rpc)).err();
    let text = error.expect("there is no such provider").to_string();
    let begin = "MOONCAKE_TRANSPORTS allows fabric alone, and fabric cannot be used: libfabric ";
    assert!(text.starts_with(begin) && text.contains("carrier-pigeon"), "{text}");
}
