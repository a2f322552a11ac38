//! The hit ratio of a pool: clients count their reads, and the master adds the counts up.

use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, GetTarget, HttpAddress, PutSource, ReplicateConfig, SliceList, Store,
    StoreConfig,
};
use mooncake_dummy::{DummyConfig, DummyStore};
use mooncake_testing::{Master, PATIENCE, Program, free_port, http_get};
use mooncake_transfer::Way;

use crate::start::{CLIENT, MASTER};

const KEYS: usize = 100;
const BYTES: usize = 1000;

fn open(master: &Master, segment_bytes: u64) -> Store {
    Store::open(StoreConfig {
        local_hostname: "127.0.0.1".to_owned(),
        master: master.rpc.clone(),
        segment_bytes,
        ..StoreConfig::default()
    })
    .expect("the store opens")
}

/// Puts the objects that [`names`] names.
fn fill(store: &Store) {
    let bytes = Buffer::from_vec(vec![7; BYTES]);
    let names = names("there");
    let put = |key| PutSource::new(key, SliceList::from(bytes.raw()));
    let sources: Vec<_> = names.iter().map(|key| put(key.as_str())).collect();
    assert_eq!(store.put(&sources, &ReplicateConfig::default()), vec![Ok(()); KEYS]);
}

fn names(prefix: &str) -> Vec<String> {
    (0..KEYS).map(|number| format!("{prefix} {number}")).collect()
}

/// Waits until the master's counters equal these values.
fn expect(master: &Master, expected: &[(&str, u64)]) {
    let deadline = Instant::now() + PATIENCE;
    let counts = || expected.iter().map(|(name, _)| master.metric(name)).collect::<Vec<_>>();
    let wanted: Vec<u64> = expected.iter().map(|&(_, count)| count).collect();
    while counts() != wanted {
        assert!(Instant::now() < deadline, "{:?} and not {expected:?}", counts());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Gets each existing object ten times, and asks for as many absent ones, half of them by existence checks.
fn hit_and_miss(store: &Store) {
    let (there, absent) = (names("there"), names("absent"));
    let there: Vec<&str> = there.iter().map(String::as_str).collect();
    let absent: Vec<&str> = absent.iter().map(String::as_str).collect();
    for _ in 0..10 {
        assert!(store.get(&there).iter().all(Result::is_ok));
    }
    for _ in 0..5 {
        let misses = store.get(&absent).into_iter().map(|result| result.map(|_| ()));
        assert!(misses.into_iter().all(|miss| miss == Err(ErrorCode::ObjectNotFound)));
        assert_eq!(store.exist(&absent), vec![Ok(false); KEYS]);
        assert_eq!(store.exist(&there), vec![Ok(true); KEYS]);
    }
}

#[test]
fn as_many_hits_as_misses_are_a_ratio_of_one_half() {
    let master = Master::start(MASTER, &[]);
    let (node, client) = (open(&master, 16 << 20), open(&master, 0));
    fill(&node);
    hit_and_miss(&client);
    expect(
        &master,
        &[
            ("mem_cache_hit_nums_", 1000),
            ("total_get_nums_", 1500),
            ("master_exist_hits_total", 500),
            ("master_exist_misses_total", 500),
            ("mem_cache_hit_bytes_total", 1000 * BYTES as u64),
        ],
    );
    let says = |line: &str| master.says("/metrics").lines().any(|found| found == line);
    assert!(says("master_hit_ratio 0.5"), "{}", master.says("/metrics"));
    assert!(master.says("/metrics/summary").contains("| Hits: 1000/2000 (50.0%) |"));

    // A client that closes sends the counts since its last ping, and the master stops counting it as active.
    let reads = client.get(&["there 1"]);
    assert!(reads[0].is_ok());
    client.close();
    expect(&master, &[("mem_cache_hit_nums_", 1001), ("master_active_clients", 1)]);

    // The sources of the bytes: the node reads from its own memory.
    assert!(node.get(&["there 2"])[0].is_ok());
    expect(&master, &[("mem_cache_hit_nums_", 1002)]);
    assert!(says("master_read_objects_total{source=\"own_process\"} 1"));
    assert!(says("master_read_objects_total{source=\"same_host\"} 1001"));
    assert!(says(&format!("master_read_bytes_total{{source=\"own_process\"}} {BYTES}")));
    assert!(says("master_read_bytes_total{source=\"tcp\"} 0"));
}

#[test]
fn a_node_says_what_it_served_and_a_client_where_it_read() {
    let master = Master::start(MASTER, &[]);
    let port = free_port();
    let http = Some(HttpAddress { host: "127.0.0.1".to_owned(), port });
    let config = |segment_bytes| StoreConfig {
        local_hostname: "127.0.0.1".to_owned(),
        master: master.rpc.clone(),
        segment_bytes,
        ..StoreConfig::default()
    };
    let node = Store::open(StoreConfig { http, ..config(16 << 20) }).expect("the store opens");
    fill(&node);
    let transports = Way::Tcp.into();
    let client = Store::open(StoreConfig { transports, ..config(0) }).expect("the store opens");
    assert!(client.get(&["there 1"])[0].is_ok());
    assert!(client.get(&["absent"])[0].is_err());
    // A node counts a range after sending it, so the reader may be ahead of the count.
    let (ranges, deadline) =
        ("mooncake_node_served_ranges{way=\"tcp\"} 1", Instant::now() + PATIENCE);
    let mut text = http_get(&format!("127.0.0.1:{port}"), "/metrics");
    while !text.lines().any(|found| found == ranges) {
        assert!(Instant::now() < deadline, "{text}");
        text = http_get(&format!("127.0.0.1:{port}"), "/metrics");
    }
    let says = |line: &str| text.lines().any(|found| found == line);
    assert!(says(&format!("mooncake_node_served_bytes{{way=\"tcp\"}} {BYTES}")), "{text}");
    assert!(says("mooncake_client_get_hits 0"), "it read nothing itself: {text}");
    expect(&master, &[("mem_cache_hit_nums_", 1), ("total_get_nums_", 2)]);
    let tcp = format!("master_read_bytes_total{{source=\"tcp\"}} {BYTES}");
    assert!(master.says("/metrics").lines().any(|line| line == tcp));
}

#[test]
fn what_an_operator_looks_at_is_neither_counted_nor_leased() {
    let master = Master::start(MASTER, &["--default_kv_lease_ttl=60s"]);
    let store = open(&master, 16 << 20);
    fill(&store);
    for path in ["/query_key?key=there%201", "/batch_query_keys?keys=there%201", "/get_all_keys"] {
        assert!(
            master.says(path).contains("there 1") || master.says(path).contains("\"size_\":1000")
        );
    }
    assert_eq!(store.remove(&["there 1"], false), [Ok(())], "it is not leased");
    store.close();
    expect(&master, &[("master_active_clients", 0), ("total_get_nums_", 0)]);
}

#[test]
fn calls_of_a_dummy_count_in_the_process_that_serves_it() {
    let master = Master::start(MASTER, &[]);
    let port = 39_000 + (std::process::id() % 900) as u16;
    let flags = [
        "--host=127.0.0.1".to_owned(),
        "--global_segment_size=32MB".to_owned(),
        format!("--master_server_address={}", master.rpc),
        format!("--port={port}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let node = Program::start(CLIENT, &flags);
    node.line("the storage node is ready");
    let server_address = format!("127.0.0.1:{port}");
    let config = DummyConfig { server_address, ..DummyConfig::default() };
    let dummy = DummyStore::open(config).expect("it is served");
    let bytes = Buffer::from_vec(vec![7; BYTES]);
    let source = PutSource::new("key", SliceList::from(bytes.raw()));
    assert_eq!(dummy.put(&[source], &ReplicateConfig::default()), [Ok(())]);
    assert!(dummy.get(&["key"])[0].is_ok());
    assert_eq!(dummy.get(&["absent"])[0].as_ref().err(), Some(&ErrorCode::ObjectNotFound));
    for len in [BYTES, 100 * BYTES] {
        let room = Buffer::from_vec(vec![0; len]);
        let target = GetTarget { key: "absent", dst: SliceList::from(room.raw()) };
        assert_eq!(dummy.get_into(&[target]), [Err(ErrorCode::ObjectNotFound)]);
    }
    assert_eq!(dummy.exist(&["key", "absent"]), [Ok(true), Ok(false)]);
    expect(
        &master,
        &[
            ("mem_cache_hit_nums_", 1),
            ("total_get_nums_", 4),
            ("master_exist_hits_total", 1),
            ("master_exist_misses_total", 1),
        ],
    );
}
