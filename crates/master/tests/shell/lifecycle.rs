//! Start, stop and restart of a master.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use mooncake_master::{BindError, Config, Master};
use mooncake_meta::Config as PoolConfig;
use mooncake_types::Request;

use crate::support::{config, dial, get, read_frame, start, start_with};

#[test]
fn a_port_that_is_taken_is_named_with_its_flag() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = other.local_addr().expect("bound").port();
    let host = || "127.0.0.1".to_owned();
    let rpc = Master::bind(Config { rpc_port: port, ..config() }).expect_err("the port is taken");
    assert_eq!(rpc, BindError::Taken { flag: "rpc_port", host: host(), port });
    assert_eq!(
        rpc.to_string(),
        format!(
            "port {port} on 127.0.0.1 is taken by another process; choose another with --rpc_port"
        )
    );
    let admin =
        Master::bind(Config { metrics_port: port, ..config() }).expect_err("the port is taken");
    assert_eq!(admin, BindError::Taken { flag: "metrics_port", host: host(), port });
}

#[test]
fn an_address_that_cannot_be_used_is_named() {
    let unknown = Config { rpc_address: "no.such.host.invalid".to_owned(), ..config() };
    let error = Master::bind(unknown).expect_err("the name means nothing").to_string();
    assert!(error.starts_with("cannot resolve --rpc_address=no.such.host.invalid: "), "{error}");
    let foreign = Config { metrics_host: "192.0.2.1".to_owned(), ..config() };
    let error = Master::bind(foreign).expect_err("not an address of this host").to_string();
    assert!(error.starts_with("cannot listen on 192.0.2.1, port 0 (--metrics_port): "), "{error}");
    let pool = PoolConfig { eviction_ratio: 2.0, ..PoolConfig::default() };
    let error = Master::bind(Config { pool, ..config() }).expect_err("not a ratio").to_string();
    assert!(error.starts_with("eviction_ratio is 2"), "{error}");
}

#[test]
fn it_starts_again_at_once_on_the_same_ports() {
    let mut first = start();
    let mut rpc = first.connect(1);
    rpc.mount(5, "node-a", 1 << 20);
    let (rpc_port, metrics_port) = (first.rpc.port(), first.admin.port());
    get(first.admin, "/health");
    first.stop();
    let second = start_with(Config { rpc_port, metrics_port, ..config() });
    second.assert_serves();
    drop(rpc);
}

#[test]
fn a_stop_writes_what_was_answered_and_closes_within_a_second() {
    let mut master = start();
    let mut idle: Vec<_> = (1..20).map(|client| master.connect(client)).collect();
    let mut busy = master.connect(100);
    busy.send(&Request::Ping { segments: vec![], unreachable: vec![], reads: None });
    let half_open = dial(master.rpc);
    let slow_http = dial(master.admin);
    busy.receive();
    let begun = Instant::now();
    master.stop();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    for rpc in &mut idle {
        assert!(read_frame(&mut rpc.stream).is_none());
    }
    assert!(TcpStream::connect(master.rpc).is_err());
    drop((half_open, slow_http));
}
