use std::time::Duration;

use mooncake_client::{Buffer, ErrorCode, ReplicateConfig, Store, StoreConfig};
use mooncake_meta::Meta;
use mooncake_types::{Epoch, PutItem};

use crate::master::{self, Master};
use crate::rig::{config, content, eventually, fragment, get, open, places, put, ranged, upsert};

const NO_SESSION: Result<u64, ErrorCode> = Err(ErrorCode::InvalidParams);

fn start(store: &Store, key: &str, len: usize, replicas: u32) -> Result<(), ErrorCode> {
    let config = ReplicateConfig { replica_num: replicas, ..ReplicateConfig::default() };
    store.put_session_start(&[PutItem::new(key, len as u64)], &config).remove(0)
}

/// Writes part of an object, from a buffer that holds the whole object.
fn write(
    store: &Store,
    key: &str,
    all: &Buffer,
    from: usize,
    len: usize,
) -> Result<u64, ErrorCode> {
    store.put_session_write(&[ranged(key, &[fragment(all, from, len)])]).remove(0)
}

fn end(store: &Store, key: &str) -> Result<(), ErrorCode> {
    store.put_session_end(&[key]).remove(0)
}

fn bytes_of(key: &str, len: usize) -> Buffer {
    Buffer::from_vec(content(key, len))
}

#[test]
fn objects_are_written_layer_by_layer_and_then_published() {
    let master = Master::start();
    let nodes = [open(&master, 16 << 20), open(&master, 16 << 20)];
    let client = open(&master, 0);
    let layers = 4;
    for (number, store) in nodes.iter().chain([&client]).enumerate() {
        let keys = ["x", "y", "z"].map(|name| format!("{name} {number}"));
        let lens = [4096 * layers, 40 * layers, 100_000 * layers];
        let items: Vec<PutItem<'_>> =
            keys.iter().zip(lens).map(|(key, len)| PutItem::new(key, len as u64)).collect();
        let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
        assert_eq!(store.put_session_start(&items, &config), vec![Ok(()); 3]);
        let all: Vec<Buffer> = keys.iter().zip(lens).map(|(key, len)| bytes_of(key, len)).collect();
        // Session writes do not need the master.
        master.set_mute(true);
        for layer in (0..layers).rev() {
            let items: Vec<_> = keys
                .iter()
                .zip(&all)
                .map(|(key, bytes)| {
                    let len = bytes.len() / layers;
                    let (from, half) = (layer * len, len / 2);
                    let halves =
                        [fragment(bytes, from + half, len - half), fragment(bytes, from, half)];
                    ranged(key, &halves)
                })
                .collect();
            let written = store.put_session_write(&items);
            assert_eq!(written, lens.map(|len| Ok((len / layers) as u64)).to_vec());
        }
        master.set_mute(false);
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        assert_eq!(get(store, names[0]), Err(ErrorCode::ReplicaIsNotReady));
        assert_eq!(store.put_session_end(&names), vec![Ok(()); 3]);
        for (key, len) in names.iter().zip(lens) {
            for reader in [&nodes[0], &client] {
                assert!(get(reader, key) == Ok(content(key, len)), "{key}");
            }
            assert_eq!(places(&client, key).len(), 2);
        }
        assert_eq!(end(store, names[0]), Err(ErrorCode::InvalidParams), "the session is over");
    }
    master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}

#[test]
fn parts_cross_the_stripes_of_an_object() {
    let config = mooncake_meta::Config { stripe_threshold_bytes: 64 << 10, ..master::config() };
    let master = Master::start_at("127.0.0.1:0", Meta::new(config, Epoch(1)));
    let _nodes = [open(&master, 4 << 20), open(&master, 4 << 20), open(&master, 4 << 20)];
    let client = open(&master, 0);
    let len = 1_000_003;
    let all = bytes_of("striped", len);
    assert_eq!(start(&client, "striped", len, 1), Ok(()));
    for from in (0..len).step_by(30_000).collect::<Vec<_>>().into_iter().rev() {
        let count = 30_000.min(len - from);
        assert_eq!(write(&client, "striped", &all, from, count), Ok(count as u64));
    }
    assert_eq!(end(&client, "striped"), Ok(()));
    assert!(
        client.locate(&["striped"])[0].as_ref().is_ok_and(|it| it.replicas[0].stripes.len() > 1)
    );
    assert!(get(&client, "striped") == Ok(content("striped", len)));
}

#[test]
fn an_object_with_bytes_missing_is_never_published() {
    let master = Master::start();
    let _node = open(&master, 4 << 20);
    let client = open(&master, 0);
    let all = bytes_of("a", 1000);
    assert_eq!(start(&client, "a", 1000, 1), Ok(()));
    assert_eq!(write(&client, "a", &all, 0, 400), Ok(400));
    assert_eq!(write(&client, "a", &all, 401, 599), Ok(599));
    assert_eq!(end(&client, "a"), Err(ErrorCode::InvalidWrite));
    assert_eq!(client.exist(&["a"]), vec![Ok(false)]);
    // The key and its room are free again.
    assert_eq!(put(&client, "a", 1000, 1), Ok(()));
    assert_eq!(write(&client, "a", &all, 0, 400), NO_SESSION);
}

#[test]
fn what_was_revoked_was_never_there() {
    let master = Master::start();
    let _node = open(&master, 4 << 20);
    let client = open(&master, 0);
    let all = bytes_of("a", 1000);
    assert_eq!(start(&client, "a", 1000, 1), Ok(()));
    assert_eq!(write(&client, "a", &all, 0, 1000), Ok(1000));
    assert_eq!(
        client.put_session_revoke(&["a", "none", "a"]),
        [Ok(()), Err(ErrorCode::InvalidParams), Err(ErrorCode::InvalidParams),]
    );
    assert_eq!(get(&client, "a"), Err(ErrorCode::ObjectNotFound));
    assert_eq!(start(&client, "a", 1000, 1), Ok(()));
}

#[test]
fn calls_that_make_no_sense_have_their_codes_and_change_nothing() {
    let master = Master::start();
    let _node = open(&master, 4 << 20);
    let client = open(&master, 0);
    let all = bytes_of("a", 1000);
    assert_eq!(put(&client, "taken", 10, 1), Ok(()));
    let items = [
        PutItem::new("a", 1000),
        PutItem::new("taken", 10),
        PutItem::new("", 10),
        PutItem::new("empty", 0),
        PutItem::new("a", 1000),
        PutItem::new("huge", 64 << 20),
    ];
    let started = client.put_session_start(&items, &ReplicateConfig::default());
    let codes = [
        ErrorCode::ObjectAlreadyExists,
        ErrorCode::InvalidKey,
        ErrorCode::InvalidParams,
        ErrorCode::ObjectAlreadyExists,
        ErrorCode::NoAvailableHandle,
    ];
    let refused = codes.map(Err);
    assert_eq!(started, [&[Ok(())], refused.as_slice()].concat());
    assert_eq!(start(&client, "a", 1000, 1), Err(ErrorCode::InvalidParams), "it has a session");
    assert_eq!(put(&client, "a", 1000, 1), Err(ErrorCode::ObjectAlreadyExists));
    let past_the_end =
        mooncake_client::Fragment { object_offset: 999, slice: all.raw().sub(0, 2).into() };
    let items = [
        ranged("a", &[fragment(&all, 0, 10), past_the_end]),
        ranged("none", &[fragment(&all, 0, 10)]),
        ranged("taken", &[fragment(&all, 0, 10)]),
        ranged("a", &[fragment(&all, 0, 1000)]),
    ];
    let written = client.put_session_write(&items);
    assert_eq!(written, vec![NO_SESSION, NO_SESSION, NO_SESSION, Ok(1000)]);
    assert_eq!(write(&client, "a", &all, 5, 5), Err(ErrorCode::InvalidWrite));
    assert_eq!(
        client.put_session_end(&["none", "a", "a"]),
        [Err(ErrorCode::InvalidParams), Ok(()), Err(ErrorCode::InvalidParams),]
    );
    assert_eq!(get(&client, "a"), Ok(content("a", 1000)));
}

#[test]
fn many_threads_write_their_parts_of_one_object() {
    let master = Master::start();
    let _nodes = [open(&master, 16 << 20), open(&master, 16 << 20)];
    let client = open(&master, 0);
    for round in 0..5 {
        let key = format!("round {round}");
        let all = bytes_of(&key, 800_000);
        assert_eq!(start(&client, &key, 800_000, 2), Ok(()));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (client, key, all) = (&client, &key, &all);
                scope.spawn(move || {
                    for part in 0..10 {
                        let from = (part * 8 + thread) * 10_000;
                        assert_eq!(write(client, key, all, from, 10_000), Ok(10_000));
                    }
                });
            }
        });
        assert_eq!(end(&client, &key), Ok(()));
        assert!(get(&client, &key) == Ok(content(&key, 800_000)), "{key}");
        assert_eq!(places(&client, &key).len(), 2);
    }
}

#[test]
fn a_replica_whose_node_vanished_is_not_published() {
    let master = Master::start();
    let nodes = [open(&master, 4 << 20), open(&master, 4 << 20)];
    let client = open(&master, 0);
    let all = bytes_of("a", 1000);
    assert_eq!(start(&client, "a", 1000, 2), Ok(()));
    assert_eq!(write(&client, "a", &all, 0, 500), Ok(500));
    nodes[0].close();
    assert_eq!(write(&client, "a", &all, 500, 500), Ok(500));
    assert_eq!(end(&client, "a"), Ok(()));
    assert_eq!(places(&client, "a"), [nodes[1].hostname()]);
    assert_eq!(get(&client, "a"), Ok(content("a", 1000)));
    assert_eq!(start(&client, "b", 1000, 1), Ok(()));
    nodes[1].close();
    assert_eq!(write(&client, "b", &all, 0, 1000), Err(ErrorCode::TransferFail));
    assert_eq!(write(&client, "b", &all, 0, 1000), Err(ErrorCode::TransferFail));
    assert_eq!(end(&client, "b"), Err(ErrorCode::InvalidWrite));
}

#[test]
fn a_session_that_takes_too_long_is_over() {
    let master = Master::start();
    let _node = open(&master, 4 << 20);
    let timeout = Duration::from_millis(300);
    let client = Store::open(StoreConfig { put_session_timeout: timeout, ..config(&master, 0) })
        .expect("the store opens");
    let all = bytes_of("a", 10_000);
    assert_eq!(start(&client, "a", 10_000, 1), Ok(()));
    let mut last = Ok(1);
    let mut from = 0;
    eventually("the session ends", || {
        last = write(&client, "a", &all, from, 1);
        from += 2;
        last != Ok(1)
    });
    assert_eq!(last, Err(ErrorCode::LeaseExpired));
    // The next session can start, since the first gave its grant back.
    assert_eq!(start(&client, "a", 10_000, 1), Ok(()));
    assert_eq!(write(&client, "a", &all, 0, 10_000), Ok(10_000));
    assert_eq!(end(&client, "a"), Ok(()));
    assert_eq!(get(&client, "a"), Ok(content("a", 10_000)));
}

#[test]
fn a_put_that_the_master_has_given_up_is_not_there() {
    let config = mooncake_meta::Config { put_discard_ms: 100, ..master::config() };
    let master = Master::start_at("127.0.0.1:0", Meta::new(config, Epoch(1)));
    let _node = open(&master, 4 << 20);
    let client = open(&master, 0);
    let all = bytes_of("a", 1000);
    assert_eq!(start(&client, "a", 1000, 1), Ok(()));
    assert_eq!(write(&client, "a", &all, 0, 1000), Ok(1000));
    eventually("the master gives it up", || {
        client.exist(&["a"]) == [Ok(false)] && upsert(&client, "a", b"b", 1) == Ok(())
    });
    eventually("the end is refused or the key is another's", || end(&client, "a") != Ok(()));
    assert_eq!(get(&client, "a"), Ok(b"b".to_vec()));
}

#[test]
fn an_end_that_the_master_did_not_answer_may_be_asked_for_again() {
    let master = Master::start();
    let _node = open(&master, 4 << 20);
    let timeout = Duration::from_millis(200);
    let client = Store::open(StoreConfig { rpc_timeout: timeout, ..config(&master, 0) })
        .expect("the store opens");
    let all = bytes_of("a", 1000);
    for key in ["a", "b"] {
        assert_eq!(start(&client, key, 1000, 1), Ok(()));
        assert_eq!(write(&client, key, &all, 0, 1000), Ok(1000));
    }
    master.set_mute(true);
    assert_eq!(end(&client, "a"), Err(ErrorCode::RpcTimeout));
    assert_eq!(client.put_session_revoke(&["b"]), [Err(ErrorCode::RpcTimeout)]);
    master.set_mute(false);
    assert_eq!(write(&client, "a", &all, 0, 10), NO_SESSION, "it is sealed");
    assert_eq!(end(&client, "a"), Ok(()));
    assert_eq!(client.put_session_revoke(&["b"]), [Ok(())]);
    assert_eq!(get(&client, "a"), Ok(content("a", 1000)));
    assert_eq!(get(&client, "b"), Err(ErrorCode::ObjectNotFound));
}

#[test]
fn closing_a_store_gives_up_what_it_was_putting() {
    let master = Master::start();
    let node = open(&master, 4 << 20);
    let client = open(&master, 0);
    let all = bytes_of("a", 1000);
    assert_eq!(start(&client, "a", 1000, 1), Ok(()));
    assert_eq!(write(&client, "a", &all, 0, 1000), Ok(1000));
    client.close();
    let closed = ErrorCode::UnavailableInCurrentStatus;
    assert_eq!(write(&client, "a", &all, 0, 1000), Err(closed));
    assert_eq!(end(&client, "a"), Err(closed));
    assert_eq!(client.put_session_revoke(&["a"]), [Err(closed)]);
    assert_eq!(start(&client, "a", 1000, 1), Err(closed));
    assert_eq!(put(&node, "a", 10, 1), Ok(()), "the key is free at once");
}

#[test]
fn of_items_of_one_key_the_first_that_can_be_gets_the_session() {
    let master = Master::start();
    let client = open(&master, 4 << 20);
    let keys = [("a", 10), ("a", 20), ("b", 0), ("b", 30), ("a", 40), ("b", 50)];
    let items = keys.map(|(key, len)| PutItem::new(key, len));
    let taken = Err(ErrorCode::ObjectAlreadyExists);
    assert_eq!(
        client.put_session_start(&items, &ReplicateConfig::default()),
        [Ok(()), taken, Err(ErrorCode::InvalidParams), Ok(()), taken, taken]
    );
    for (key, len) in [("a", 10), ("b", 30)] {
        assert_eq!(write(&client, key, &bytes_of(key, len), 0, len), Ok(len as u64));
        assert_eq!(end(&client, key), Ok(()));
        assert_eq!(get(&client, key), Ok(content(key, len)));
    }
    master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}
