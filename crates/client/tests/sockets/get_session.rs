use mooncake_client::{Buffer, ErrorCode, Fragment, Store, StoreConfig};
use mooncake_meta::Meta;
use mooncake_types::Epoch;

use crate::master::{self, Master};
use crate::rig::{config, content, eventually, fragment, get, open, put, ranged, upsert};

/// A master whose leases last ten minutes, longer than any test.
fn long_leases() -> Master {
    let config = mooncake_meta::Config { lease_ttl_ms: 600_000, ..master::config() };
    Master::start_at("127.0.0.1:0", Meta::new(config, Epoch(7)))
}

#[test]
fn what_was_looked_up_once_is_read_layer_by_layer_without_the_master() {
    let mut master = long_leases();
    let _node = open(&master, 16 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&client, "a", 40_000, 1), Ok(()));
    assert_eq!(put(&client, "b", 8_000, 1), Ok(()));
    let started = client.get_session_start(&["a", "none", "b", ""]);
    let miss = Err(ErrorCode::ObjectNotFound);
    assert_eq!(started, vec![Ok(40_000), miss, Ok(8_000), Err(ErrorCode::InvalidKey)]);
    master.stop();
    let rooms = [Buffer::zeroed(40_000), Buffer::zeroed(8_000)];
    fn of(room: &Buffer, layer: usize) -> [Fragment<'_>; 2] {
        let len = room.len() / 4;
        [fragment(room, layer * len, len / 2), fragment(room, layer * len + len / 2, len / 2)]
    }
    for layer in 0..4 {
        let (a, b) = (of(&rooms[0], layer), of(&rooms[1], layer));
        let items = [ranged("a", &a), ranged("b", &b), ranged("none", &[])];
        let read = client.get_session_read(&items);
        assert_eq!(read, vec![Ok(10_000), Ok(2_000), Err(ErrorCode::InvalidParams)]);
    }
    assert!(rooms[0].as_slice() == content("a", 40_000));
    assert!(rooms[1].as_slice() == content("b", 8_000));
    let past_the_end = [fragment(&rooms[0], 0, 10), fragment(&rooms[0], 8_000, 1)];
    let refused = vec![Err(ErrorCode::InvalidParams)];
    assert_eq!(client.get_session_read(&[ranged("b", &past_the_end)]), refused);
    client.get_session_end(&["a", "none"]);
    let again = [ranged("a", &[fragment(&rooms[0], 0, 1)]), ranged("b", &[])];
    assert_eq!(client.get_session_read(&again), vec![Err(ErrorCode::InvalidParams), Ok(0)]);
    client.close();
    let closed = vec![Err(ErrorCode::UnavailableInCurrentStatus)];
    assert_eq!(client.get_session_read(&again[1..]), closed);
    assert_eq!(client.get_session_start(&["b"]), closed);
    client.get_session_end(&["b"]);
}

#[test]
fn a_session_ends_with_its_lease_and_starting_again_renews_it() {
    let master = Master::start();
    let _node = open(&master, 4 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&client, "a", 100, 1), Ok(()));
    let room = Buffer::zeroed(100);
    let read = || client.get_session_read(&[ranged("a", &[fragment(&room, 0, 100)])]).remove(0);
    assert_eq!(client.get_session_start(&["a"]), vec![Ok(100)]);
    let mut last = Ok(100);
    eventually("the lease ends", || {
        last = read();
        last != Ok(100)
    });
    assert_eq!(last, Err(ErrorCode::LeaseExpired));
    assert_eq!(read(), Err(ErrorCode::InvalidParams), "the session is over");
    assert_eq!(client.get_session_start(&["a"]), vec![Ok(100)]);
    assert_eq!(client.get_session_start(&["a"]), vec![Ok(100)]);
    assert_eq!(read(), Ok(100));
    assert_eq!(room.as_slice(), content("a", 100));
}

#[test]
fn a_session_ends_with_its_version_and_a_new_start_shows_the_new_one() {
    let master = long_leases();
    let node = open(&master, 4 << 20);
    let client = open(&master, 0);
    assert_eq!(upsert(&client, "a", b"old old old", 1), Ok(()));
    assert_eq!(client.get_session_start(&["a"]), vec![Ok(11)]);
    let room = Buffer::zeroed(11);
    let part = |from, len| ranged("a", &[fragment(&room, from, len)]);
    assert_eq!(client.get_session_read(&[part(0, 4)]), vec![Ok(4)]);
    assert_eq!(upsert(&node, "a", b"new", 1), Ok(()));
    assert_eq!(get(&client, "a"), Ok(b"new".to_vec()));
    assert_eq!(client.get_session_read(&[part(4, 7)]), vec![Err(ErrorCode::ObjectNotFound)]);
    assert_eq!(client.get_session_start(&["a"]), vec![Ok(3)]);
    assert_eq!(client.get_session_read(&[part(0, 3)]), vec![Ok(3)]);
    assert_eq!(&room.as_slice()[..3], b"new");
    // A forced removal also removes an object that has a lease.
    assert_eq!(node.remove(&["a"], true), vec![Ok(())]);
    assert_eq!(client.get_session_start(&["a"]), vec![Err(ErrorCode::ObjectNotFound)]);
    assert_eq!(client.get_session_read(&[part(0, 3)]), vec![Err(ErrorCode::InvalidParams)]);
}

#[test]
fn a_session_reads_on_from_the_other_replica_when_a_node_vanishes() {
    let master = long_leases();
    let config = StoreConfig { ..config(&master, 0) };
    let nodes = [open(&master, 4 << 20), open(&master, 4 << 20)];
    let client = Store::open(config).expect("the store opens");
    assert_eq!(put(&client, "a", 20_000, 2), Ok(()));
    assert_eq!(client.get_session_start(&["a"]), vec![Ok(20_000)]);
    let room = Buffer::zeroed(20_000);
    let half = |from| ranged("a", &[fragment(&room, from, 10_000)]);
    assert_eq!(client.get_session_read(&[half(0)]), vec![Ok(10_000)]);
    nodes[0].close();
    for _ in 0..10 {
        assert_eq!(client.get_session_read(&[half(10_000)]), vec![Ok(10_000)]);
    }
    assert!(room.as_slice() == content("a", 20_000));
    nodes[1].close();
    let failed = client.get_session_read(&[half(0)]);
    assert_eq!(failed, vec![Err(ErrorCode::TransferFail)]);
}
