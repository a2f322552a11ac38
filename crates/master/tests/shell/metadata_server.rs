//! The metadata server of a running master.

use std::net::SocketAddr;

use mooncake_master::{Config, Master, MetadataServer};
use mooncake_meta::Config as PoolConfig;
use mooncake_types::{Request, Secret};

use crate::support::{
    Running, config, eventually, get, http, http_with, http_with_header, start, start_with,
};

const MIB: usize = 1 << 20;

fn server() -> MetadataServer {
    MetadataServer {
        host: "127.0.0.1".to_owned(),
        port: 0,
        auth_token: Secret::default(),
        cleanup_prefix: None,
    }
}

fn with_metadata() -> (Running, SocketAddr) {
    let master = start_with(Config { metadata_server: Some(server()), ..config() });
    let address = master.metadata.expect("it was asked for");
    (master, address)
}

#[test]
fn there_is_none_unless_it_is_asked_for() {
    assert_eq!(start().metadata, None);
}

#[test]
fn a_server_with_a_token_tells_values_only_to_those_who_name_it() {
    let server = MetadataServer { auth_token: "a secret".into(), ..server() };
    let master = start_with(Config { metadata_server: Some(server), ..config() });
    let address = master.metadata.expect("it was asked for");
    let ask = |method: &str, header: &str| {
        http_with_header(address, method, "/metadata?key=k", header, b"v").status
    };
    for header in ["", "Authorization: Bearer a secre\r\n", "Authorization: Basic a secret\r\n"] {
        assert_eq!(["PUT", "GET", "DELETE"].map(|method| ask(method, header)), [401; 3]);
    }
    let right = "Authorization: Bearer a secret\r\n";
    assert_eq!(["PUT", "GET", "DELETE"].map(|method| ask(method, right)), [200; 3]);
    assert_eq!(get(address, "/health").status, 200);
}

#[test]
fn values_are_published_looked_up_and_forgotten() {
    let (_master, address) = with_metadata();
    let value = r#"{"name": "a"}"#;
    let cases = [
        ("GET", "/health", "", 200, "OK"),
        ("GET", "/metadata?key=mooncake/ram/a", "", 404, "metadata not found"),
        ("DELETE", "/metadata?key=mooncake/ram/a", "", 404, "metadata not found"),
        ("PUT", "/metadata?key=mooncake/ram/a", "older", 200, "metadata updated"),
        ("PUT", "/metadata?key=mooncake/ram/a", value, 200, "metadata updated"),
        ("GET", "/metadata?key=mooncake/ram/a", "", 200, value),
        ("GET", "/metadata?key=mooncake%2Fram%2Fa", "", 200, value),
        ("PUT", "/metadata?key=mooncake/rpc_meta/a", "one", 200, "metadata updated"),
        ("PUT", "/metadata?key=mooncake/rpc_meta/a", "one", 200, "metadata unchanged"),
        (
            "PUT",
            "/metadata?key=mooncake/rpc_meta/a",
            "two",
            400,
            "Duplicate rpc_meta key not allowed",
        ),
        ("GET", "/metadata?key=mooncake/rpc_meta/a", "", 200, "one"),
        ("DELETE", "/metadata?key=mooncake/rpc_meta/a", "", 200, "metadata deleted"),
        ("PUT", "/metadata?key=mooncake/rpc_meta/a", "two", 200, "metadata updated"),
        ("DELETE", "/metadata?key=mooncake/ram/a", "", 200, "metadata deleted"),
        ("GET", "/metadata?key=mooncake/ram/a", "", 404, "metadata not found"),
    ];
    for (method, path, body, status, expected) in cases {
        let answer = http_with(address, method, path, body.as_bytes());
        assert_eq!((answer.status, answer.body.as_str()), (status, expected), "{method} {path}");
    }
    let json = get(address, "/metadata?key=mooncake/rpc_meta/a");
    assert!(json.head.contains("content-type: application/json"), "{}", json.head);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (master, address) = with_metadata();
    let long = format!("/metadata?key={}", "k".repeat(4097));
    let large = vec![b'x'; MIB + 1];
    let cases: [(&str, &str, &[u8], u16, &str); 10] = [
        ("GET", "/metadata", b"", 400, "Missing key parameter"),
        ("PUT", "/metadata", b"value", 400, "Missing key parameter"),
        ("DELETE", "/metadata?key=", b"", 400, "Missing key parameter"),
        ("GET", "/metadata?kay=a", b"", 400, "Missing key parameter"),
        ("GET", "/metadata?key=a&key=b", b"", 400, "Missing key parameter"),
        ("POST", "/metadata?key=a", b"", 405, ""),
        ("PUT", "/health", b"", 405, ""),
        ("GET", "/nowhere", b"", 404, ""),
        ("PUT", &long, b"value", 400, "a key of 4097 bytes is longer than 4096"),
        ("PUT", "/metadata?key=a", &large, 413, "the body is longer than 1048576 bytes"),
    ];
    for (method, path, body, status, expected) in cases {
        let answer = http_with(address, method, path, body);
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (status, expected),
            "{method} {path:.40}"
        );
    }
    assert_eq!(get(address, "/metadata?key=a").status, 404, "nothing of it was kept");
    master.assert_serves();
}

#[test]
fn the_longest_key_and_value_are_kept() {
    let (_master, address) = with_metadata();
    let path = format!("/metadata?key={}", "k".repeat(4096));
    let value = "x".repeat(MIB);
    assert_eq!(http_with(address, "PUT", &path, value.as_bytes()).status, 200);
    assert_eq!(get(address, &path).body, value);
}

#[test]
fn a_taken_port_is_named_with_its_flag() {
    let (_master, address) = with_metadata();
    let port = address.port();
    let taken = MetadataServer { port, ..server() };
    let error = Master::bind(Config { metadata_server: Some(taken), ..config() });
    assert_eq!(
        error.expect_err("the port is taken").to_string(),
        format!(
            "port {port} on 127.0.0.1 is taken by another process; choose another with --http_metadata_server_port"
        )
    );
}

#[test]
fn a_dead_client_takes_its_metadata_with_it() {
    let pool = PoolConfig { client_ttl_ms: 200, lease_ttl_ms: 100, ..PoolConfig::default() };
    let cleanup_prefix = Some("mooncake/".to_owned());
    let metadata_server = Some(MetadataServer { cleanup_prefix, ..server() });
    let master = start_with(Config { pool, metadata_server, ..config() });
    let address = master.metadata.expect("it was asked for");
    for key in ["mooncake/ram/dead:1", "mooncake/rpc_meta/dead:1", "mooncake/ram/alive:1"] {
        http_with(address, "PUT", &format!("/metadata?key={key}"), b"value");
    }
    master.connect(1).mount(1, "dead:1", 1 << 20);
    let mut alive = master.connect(2);
    alive.mount(2, "alive:1", 1 << 20);
    let status = |key: &str| get(address, &format!("/metadata?key={key}")).status;
    eventually("the metadata of the dead client are forgotten", || {
        alive.ask(&Request::Ping { segments: vec![], unreachable: vec![], reads: None });
        status("mooncake/ram/dead:1") == 404 && status("mooncake/rpc_meta/dead:1") == 404
    });
    assert_eq!(status("mooncake/ram/alive:1"), 200);
}

#[test]
fn a_master_that_stops_frees_the_port() {
    let (mut master, address) = with_metadata();
    assert_eq!(http(address, "GET", "/health").status, 200);
    master.stop();
    let again = MetadataServer { port: address.port(), ..server() };
    Master::bind(Config { metadata_server: Some(again), ..config() }).expect("the port is free");
}
