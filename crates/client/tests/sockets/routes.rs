use std::time::{Duration, Instant};

use mooncake_client::{ErrorCode, Store, StoreConfig};
use mooncake_meta::{Config, Meta};
use mooncake_types::{Epoch, Tick};

use crate::master::Master;
use crate::rig::{config, content, eventually, get, open, put, upsert};

/// Longer than the steps of a test that must happen within one lease.
const LEASE_MS: u64 = 3_000;

fn master() -> Master {
    let config = Config { lease_ttl_ms: LEASE_MS, ..Config::default() };
    Master::start_at("127.0.0.1:0", Meta::new(config, Epoch(7)))
}

fn lookups(master: &Master) -> u64 {
    master.with_meta(|meta| meta.stats().counters.lookups)
}

#[test]
fn a_known_route_is_used_without_asking_the_master() {
    let master = master();
    let node = open(&master, 16 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&node, "key", 4096, 1), Ok(()));
    for _ in 0..10 {
        assert_eq!(get(&client, "key"), Ok(content("key", 4096)));
    }
    assert_eq!(lookups(&master), 1);
}

#[test]
fn a_store_that_is_told_so_asks_each_time() {
    let master = master();
    let node = open(&master, 16 << 20);
    let client =
        Store::open(StoreConfig { route_cache: false, ..config(&master, 0) }).expect("it opens");
    assert_eq!(put(&node, "key", 4096, 1), Ok(()));
    for _ in 0..10 {
        assert_eq!(get(&client, "key"), Ok(content("key", 4096)));
    }
    assert_eq!(lookups(&master), 10);
}

#[test]
fn what_others_removed_or_replaced_is_not_read_by_a_known_route() {
    let master = master();
    let node = open(&master, 16 << 20);
    let (reader, writer) = (open(&master, 0), open(&master, 0));
    for round in 0..20 {
        let bytes = content(&format!("round {round}"), 1000 + round);
        assert_eq!(upsert(&writer, "key", &bytes, 1), Ok(()));
        for store in [&reader, &node, &reader] {
            assert_eq!(get(store, "key"), Ok(bytes.clone()), "round {round}");
        }
    }
    assert_eq!(writer.remove(&["key"], false), [Err(ErrorCode::ObjectHasLease)]);
    assert_eq!(writer.remove(&["key"], true), [Ok(())]);
    assert_eq!(get(&reader, "key"), Err(ErrorCode::ObjectNotFound));
    assert_eq!(put(&writer, "key", 500, 1), Ok(()));
    assert_eq!(get(&reader, "key"), Ok(content("key", 500)));
    assert_eq!(writer.remove_all(true), Ok(1));
    assert_eq!(get(&reader, "key"), Err(ErrorCode::ObjectNotFound));
    master.with_meta(|meta| {
        assert_eq!(meta.check(), Ok(()));
        assert_eq!((meta.stats().used_bytes, meta.stats().leased_tombstones), (0, 0));
    });
}

#[test]
fn reads_go_on_within_the_lease_when_a_master_that_was_elected_has_stopped() {
    let mut master = master();
    master.with_meta(|meta| meta.set_lease_end(Some(Tick(1 << 40))));
    let node = open(&master, 16 << 20);
    let quick = StoreConfig { rpc_timeout: Duration::from_millis(500), ..config(&master, 0) };
    let client = Store::open(quick).expect("the store opens");
    assert_eq!(put(&node, "key", 4096, 1), Ok(()));
    assert_eq!(put(&node, "other", 4096, 1), Ok(()));
    let looked_up = Instant::now();
    assert_eq!(get(&client, "key"), Ok(content("key", 4096)));
    master.stop();
    assert!(get(&client, "other").is_err(), "nobody says where it lies");
    let mut reads = 0;
    while looked_up.elapsed() < Duration::from_millis(LEASE_MS * 9 / 10) {
        let read = get(&client, "key");
        if looked_up.elapsed() < Duration::from_millis(LEASE_MS * 9 / 10) {
            assert_eq!(read, Ok(content("key", 4096)), "{:?} after", looked_up.elapsed());
        }
        reads += 1;
    }
    assert!(reads > 1, "{reads} reads");
    eventually("the lease is over", || get(&client, "key").is_err());
    assert!(looked_up.elapsed() >= Duration::from_millis(LEASE_MS * 9 / 10));
}

/// Without a standby, a new master may start at any moment and waits no longer than this second for old routes.
#[test]
fn reads_by_known_routes_end_a_second_after_a_master_that_was_alone() {
    let mut master = master();
    let node = open(&master, 16 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&node, "key", 4096, 1), Ok(()));
    assert_eq!(get(&client, "key"), Ok(content("key", 4096)));
    master.stop();
    let stopped = Instant::now();
    let mut last = Duration::ZERO;
    while get(&client, "key").is_ok() {
        last = stopped.elapsed();
    }
    assert!(last < Duration::from_millis(LEASE_MS / 2), "{last:?} after");
}

#[test]
fn a_lease_that_is_used_is_renewed_in_the_background() {
    let master = master();
    let node = open(&master, 16 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&node, "key", 4096, 1), Ok(()));
    assert_eq!(get(&client, "key"), Ok(content("key", 4096)));
    eventually("the master was asked again", || {
        assert_eq!(get(&client, "key"), Ok(content("key", 4096)));
        lookups(&master) > 1
    });
}

#[test]
fn a_node_that_was_killed_holds_a_removal_up_no_longer_than_its_lease() {
    let master = master();
    let client = open(&master, 0);
    let node = open(&master, 16 << 20);
    assert_eq!(put(&node, "key", 4096, 1), Ok(()));
    assert_eq!(get(&client, "key"), Ok(content("key", 4096)));
    // The mute master does not read that the node leaves.
    master.set_mute(true);
    node.close();
    master.set_mute(false);
    let begun = Instant::now();
    let removed = client.remove(&["key"], true);
    assert!(matches!(removed[..], [Ok(()) | Err(ErrorCode::ObjectNotFound)]), "{removed:?}");
    assert!(begun.elapsed() < Duration::from_millis(LEASE_MS + 2_000), "{:?}", begun.elapsed());
}
