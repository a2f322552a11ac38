use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use mooncake_client::{
    HttpAddress, ListenError, OpenError, PROTOCOL_VERSION, SOFTWARE_VERSION, Store, StoreConfig,
};

use crate::master::Master;
use crate::rig::{config, eventually, get, put};

const PATIENCE: Duration = Duration::from_secs(10);

fn with_http(master: &Master, port: u16) -> StoreConfig {
    let http = Some(HttpAddress { host: "127.0.0.1".to_owned(), port });
    StoreConfig { http, ..config(master, 1 << 20) }
}

fn open(master: &Master) -> (Store, SocketAddr) {
    let store = Store::open(with_http(master, 0)).expect("the store opens");
    let address = store.http_address().expect("it was asked for");
    (store, address)
}

/// The answer to a request without a body: status, head in lower case, body.
fn ask(address: SocketAddr, method: &str, path: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).expect("the port is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers and closes");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn body(address: SocketAddr, path: &str) -> String {
    let (status, _, body) = ask(address, "GET", path);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// The answer to `/health` that begins with these fields. It tells the versions, as a master's does.
fn health(fields: &str) -> String {
    format!(r#"{{{fields},"version":"{SOFTWARE_VERSION}","protocol_version":{PROTOCOL_VERSION}}}"#)
}

#[test]
fn a_store_says_how_it_is() {
    let mut master = Master::start();
    let (_store, address) = open(&master);
    let (status, head, body) = ask(address, "GET", "/health");
    assert_eq!((status, body), (200, health(r#""status":"healthy","code":0"#)));
    assert!(head.contains("content-type: application/json"), "{head}");
    master.stop();
    let lost = (503, health(r#""status":"master_unreachable","code":2"#));
    eventually("the store says that the master is lost", || {
        let (status, _, body) = ask(address, "GET", "/health");
        (status, body) == lost
    });
}

#[test]
fn a_store_that_still_opens_is_not_initialized() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        free.local_addr().expect("bound").port()
    };
    let opening = StoreConfig {
        master: silent.local_addr().expect("bound").to_string(),
        rpc_connect_timeout: Duration::from_secs(1),
        http: Some(HttpAddress { host: "127.0.0.1".to_owned(), port }),
        ..StoreConfig::default()
    };
    let thread = std::thread::spawn(move || Store::open(opening).err());
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    eventually("the server listens", || TcpStream::connect(address).is_ok());
    let (status, _, body) = ask(address, "GET", "/health");
    assert_eq!((status, body), (503, health(r#""status":"not_initialized","code":1"#)));
    let error = thread.join().expect("opening does not panic");
    assert!(matches!(error, Some(OpenError::MasterUnreachable { .. })), "{error:?}");
    eventually("nobody listens any more", || TcpStream::connect(address).is_err());
}

#[test]
fn what_a_store_does_is_counted() {
    let master = Master::start();
    let (store, address) = open(&master);
    assert_eq!(put(&store, "k", 4096, 1), Ok(()));
    assert_eq!(get(&store, "k").map(|value| value.len()), Ok(4096));
    assert_eq!(get(&store, "k").map(|value| value.len()), Ok(4096));
    assert_eq!(store.exist(&["k", "l"]), vec![Ok(true), Ok(false)]);
    let (_, head, text) = ask(address, "GET", "/metrics");
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "# TYPE mooncake_transfer_read_bytes counter",
        "mooncake_transfer_read_bytes 8192",
        "mooncake_transfer_write_bytes 4096",
        "# TYPE mooncake_transfer_get_latency histogram",
        "mooncake_transfer_get_latency_count 2",
        "mooncake_transfer_get_latency_bucket{le=\"+Inf\"} 2",
        "mooncake_transfer_put_latency_count 1",
        "mooncake_transfer_batch_get_latency_count 0",
        "mooncake_transfer_batch_put_latency_count 0",
        "# TYPE mooncake_client_rpc_count counter",
        "mooncake_client_rpc_count{rpc_name=\"PutStart\"} 1",
        "mooncake_client_rpc_count{rpc_name=\"PutEnd\"} 1",
        "mooncake_client_rpc_count{rpc_name=\"GetReplicaList\"} 1",
        "mooncake_client_route_cache_hits 1",
        "mooncake_client_route_cache_misses 1",
        "mooncake_client_route_cache_stale 0",
        "mooncake_client_rpc_count{rpc_name=\"BatchExistKey\"} 1",
        "# TYPE mooncake_client_rpc_latency histogram",
        "mooncake_client_rpc_latency_count{rpc_name=\"GetReplicaList\"} 1",
    ];
    for line in expected {
        assert!(lines.contains(&line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("rpc_name=\"Remove\""), "it was never called");
    let summary = body(address, "/metrics/summary");
    assert!(summary.contains("Total Read: 8.00 KB\nTotal Write: 4.00 KB\n"), "{summary}");
    assert!(summary.contains("\nGetReplicaList: count=1, p95<"), "{summary}");
}

#[test]
fn batches_and_single_objects_are_told_apart() {
    let master = Master::start();
    let (store, address) = open(&master);
    for key in ["a", "b"] {
        assert_eq!(put(&store, key, 64, 1), Ok(()));
    }
    assert!(store.get(&["a", "b"]).iter().all(Result::is_ok));
    let text = body(address, "/metrics");
    for line in
        ["mooncake_transfer_get_latency_count 0", "mooncake_transfer_batch_get_latency_count 1"]
    {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let master = Master::start();
    let (_store, address) = open(&master);
    for (method, path, status) in [
        ("POST", "/health", 405),
        ("PUT", "/metrics", 405),
        ("DELETE", "/metrics/summary", 405),
        ("GET", "/", 404),
        ("GET", "/metadata?key=a", 404),
    ] {
        assert_eq!(ask(address, method, path).0, status, "{method} {path}");
    }
    assert_eq!(ask(address, "GET", "/health").0, 200);
}

#[test]
fn there_is_no_server_unless_it_is_asked_for() {
    let master = Master::start();
    let store = Store::open(config(&master, 1 << 20)).expect("the store opens");
    assert_eq!(store.http_address(), None);
}

#[test]
fn a_taken_port_and_an_unknown_host_are_named() {
    let master = Master::start();
    let (_store, address) = open(&master);
    let port = address.port();
    let error = Store::open(with_http(&master, port)).expect_err("the port is taken");
    let taken = ListenError::Taken { host: "127.0.0.1".to_owned(), port };
    assert_eq!(error, OpenError::Http(taken));
    assert_eq!(
        error.to_string(),
        format!(
            "the HTTP server of this client cannot be started: port {port} on 127.0.0.1 is taken by another process"
        )
    );
    let http = Some(HttpAddress { host: "no.such.host.invalid".to_owned(), port: 0 });
    let unknown = StoreConfig { http, ..config(&master, 0) };
    let error = Store::open(unknown).expect_err("the name means nothing").to_string();
    assert!(error.contains("cannot resolve no.such.host.invalid: "), "{error}");
    master.with_meta(|meta| assert_eq!(meta.segments().len(), 1));
}

#[test]
fn a_store_that_does_not_open_frees_the_port() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = {
        let probe = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        probe.local_addr().expect("bound").port()
    };
    let http = Some(HttpAddress { host: "127.0.0.1".to_owned(), port });
    let master = nobody.local_addr().expect("bound").to_string();
    let rpc_connect_timeout = Duration::from_millis(10);
    drop(nobody);
    for attempt in 0..20 {
        let config = StoreConfig {
            http: http.clone(),
            master: master.clone(),
            rpc_connect_timeout,
            ..StoreConfig::default()
        };
        let error = Store::open(config).expect_err("there is no master");
        assert!(matches!(error, OpenError::MasterUnreachable { .. }), "{attempt}: {error}");
    }
}

#[test]
fn closing_a_store_frees_the_port() {
    let master = Master::start();
    let (store, address) = open(&master);
    let mut idle = TcpStream::connect(address).expect("the port is open");
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").expect("the server reads");
    store.close();
    assert_eq!(store.http_address(), None);
    let again = Store::open(with_http(&master, address.port())).expect("the port is free");
    assert_eq!(again.http_address(), Some(address));
}
