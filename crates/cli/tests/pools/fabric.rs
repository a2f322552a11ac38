//! Nodes that are read and written one-sided, over the provider `tcp` of libfabric.

use std::process::Command;
use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, HttpAddress, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_testing::{Master, PATIENCE, Program, free_port, http_get};
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

/// What was moved counts as what carried it: all but the short put, which is a message.
fn expect_counts(master: &Master, [node, client]: [u16; 2]) {
    let metrics = |port: u16| move || http_get(&format!("127.0.0.1:{port}"), "/metrics");
    let counts = |name: &str, label: &str| {
        [("tcp", 100), ("fabric", 200_000 + (9 << 20))]
            .map(|(way, bytes)| format!("{name}_bytes{{{label}=\"{way}\"}} {bytes}"))
    };
    expect_lines(metrics(client), &counts("mooncake_client_written", "target"));
    expect_lines(metrics(node), &counts("mooncake_node_received", "way"));
    let read = ["mooncake_client_read_objects{source=\"fabric\"} 3".to_owned()];
    expect_lines(metrics(client), &read);
    let read = ["master_read_objects_total{source=\"fabric\"} 3".to_owned()];
    expect_lines(|| master.says("/metrics"), &read);
}

/// Waits until a text has all of these lines.
fn expect_lines(text: impl Fn() -> String, wanted: &[String]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = text();
        if wanted.iter().all(|wanted| text.lines().any(|line| line == wanted)) {
            return;
        }
        assert!(Instant::now() < deadline, "{wanted:?} are not all in {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn objects_go_to_another_process_and_back_one_sided() {
    let master = Master::start(MASTER, &[]);
    let follows = format!("--master_server_address={}", master.rpc);
    let ports = [free_port(), free_port()];
    let http = ["--enable_http_server=true".to_owned(), format!("--http_port={}", ports[0])];
    let lends = ["--host=127.0.0.1", "--port=0", "--global_segment_size=32MB", &follows];
    let args = [&lends[..], &http.each_ref().map(String::as_str)].concat();
    let node = Program::start_with_variables(CLIENT, &args, &VARIABLES);
    node.line("the storage node is ready");
    let http = Some(HttpAddress { host: "127.0.0.1".to_owned(), port: ports[1] });
    let config = StoreConfig { http, ..config_over("tcp", &master.rpc) };
    let store = Store::open(config).expect("the master serves");
    for (key, len) in [("short", 100), ("long", 200_000), ("longer", 9 << 20)] {
        let bytes: Vec<u8> = (0..len).map(|at: usize| (at / 7 + len) as u8).collect();
        let buffer = Buffer::from_vec(bytes.clone());
        let source = PutSource::new(key, SliceList::from(buffer.raw()));
        let put = store.put(&[source], &ReplicateConfig::default()).remove(0);
        put.expect("there is room");
        let read = store.get(&[key]).remove(0).expect("it is there");
        assert!(read.into_vec() == bytes, "{key}");
    }
    expect_counts(&master, ports);
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
