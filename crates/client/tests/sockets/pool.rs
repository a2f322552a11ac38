use std::sync::atomic::{AtomicUsize, Ordering};

use mooncake_client::{
    Buffer, ErrorCode, GetTarget, Health, PutSource, ReplicateConfig, SliceList,
};
use mooncake_types::{Chance, Epoch};

use mooncake_meta::Meta;

use crate::master::{self, Master};
use crate::rig::{content, eventually, get, get_into, open, put};

const MIB: usize = 1 << 20;

#[test]
fn objects_are_put_read_found_and_removed() {
    let master = Master::start();
    let node = open(&master, 64 << 20);
    let client = open(&master, 0);
    assert_eq!((node.health(), client.health()), (Health::Ok, Health::Ok));
    for (store, len) in [(&node, 1), (&client, 1), (&client, 4096), (&client, 300_000)] {
        let key = format!("{len} bytes from {}", store.hostname());
        assert_eq!(put(store, &key, len, 1), Ok(()));
        assert_eq!(put(store, &key, len, 1), Err(ErrorCode::ObjectAlreadyExists));
        for reader in [&node, &client] {
            assert_eq!(get(reader, &key), Ok(content(&key, len)));
            assert_eq!(reader.size(&key), Ok(len as u64));
        }
        assert_eq!(client.exist(&[&key, "none"]), vec![Ok(true), Ok(false)]);
        assert_eq!(client.prefix_len(&[&key, &key, "none", &key], 0), Ok(2));
        let expected = vec![Err(ErrorCode::ObjectHasLease), Err(ErrorCode::ObjectNotFound)];
        assert_eq!(client.remove(&[&key, "none"], false), expected);
        assert_eq!(client.remove(&[&key], true), vec![Ok(())]);
        assert_eq!(get(&client, &key), Err(ErrorCode::ObjectNotFound));
    }
    master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}

#[test]
fn objects_are_removed_and_listed_by_pattern() {
    let master = Master::start();
    let node = open(&master, 1 << 20);
    for key in ["a1", "a2", "b1"] {
        assert_eq!(put(&node, key, 100, 1), Ok(()));
    }
    let mut listed: Vec<String> =
        node.list_by_regex("^a").expect("it parses").into_iter().map(|(key, _)| key).collect();
    listed.sort();
    assert_eq!(listed, ["a1", "a2"]);
    assert_eq!(node.remove_by_regex("1$", false), Ok(2));
    assert_eq!(node.remove_by_regex("(", false), Err(ErrorCode::InvalidParams));
    assert_eq!(node.remove_all(true), Ok(1));
    assert_eq!(node.exist(&["a1", "a2", "b1"]), vec![Ok(false); 3]);
}

#[test]
fn a_large_object_travels_in_pieces_of_the_callers_memory() {
    let master = Master::start();
    let _node = open(&master, 64 << 20);
    let client = open(&master, 0);
    let key = "large";
    let bytes = Buffer::from_vec(content(key, 17 * MIB + 3));
    let cuts = [0, 1, 5000, 5000, 3 * MIB, 16 * MIB, bytes.len()];
    fn pieces<'m>(buffer: &'m Buffer, cuts: &[usize]) -> SliceList<'m> {
        cuts.windows(2).map(|cut| buffer.raw().sub(cut[0], cut[1] - cut[0])).collect()
    }
    let put =
        client.put(&[PutSource::new(key, pieces(&bytes, &cuts))], &ReplicateConfig::default());
    assert_eq!(put, vec![Ok(())]);
    let room = Buffer::zeroed(bytes.len());
    let got = client.get_into(&[GetTarget { key, dst: pieces(&room, &cuts) }]);
    assert_eq!(got, vec![Ok(bytes.len() as u64)]);
    assert!(room.as_slice() == bytes.as_slice());
}

#[test]
fn room_may_be_longer_than_the_object_and_not_shorter() {
    let master = Master::start();
    let node = open(&master, 1 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&node, "a", 1000, 1), Ok(()));
    for store in [&node, &client] {
        let room = Buffer::from_vec(vec![7; 1100]);
        assert_eq!(get_into(store, "a", &room), Ok(1000));
        assert_eq!(room.as_slice()[..1000], content("a", 1000));
        assert_eq!(room.as_slice()[1000..], [7; 100]);
        assert_eq!(get_into(store, "a", &Buffer::zeroed(999)), Err(ErrorCode::InvalidParams));
    }
}

#[test]
fn every_item_of_a_batch_has_its_own_bytes_and_result() {
    let master = Master::start();
    let _node = open(&master, 64 << 20);
    let client = open(&master, 0);
    let names: Vec<String> = (0..3000).map(|number| format!("key {number}")).collect();
    let len = |number: usize| 1 + number % 300;
    let values: Vec<Buffer> = names
        .iter()
        .enumerate()
        .map(|(number, name)| Buffer::from_vec(content(name, len(number))))
        .collect();
    let mut items: Vec<PutSource<'_>> = names
        .iter()
        .zip(&values)
        .map(|(key, value)| PutSource::new(key, SliceList::from(value.raw())))
        .collect();
    items.push(PutSource::new(&names[0], SliceList::from(values[1].raw())));
    items.push(PutSource::new("", SliceList::from(values[1].raw())));
    items.push(PutSource::new("empty", SliceList::default()));
    let results = client.put(&items, &ReplicateConfig::default());
    assert!(results[..3000].iter().all(Result::is_ok));
    let refused = [ErrorCode::ObjectAlreadyExists, ErrorCode::InvalidKey, ErrorCode::InvalidParams];
    assert_eq!(results[3000..], refused.map(Err));

    let mut keys: Vec<&str> = names.iter().map(String::as_str).collect();
    keys.extend(["none", &names[5], &names[5]]);
    let got = client.get(&keys);
    for (position, key) in keys.iter().enumerate() {
        let expected = match position {
            3000 => Err(ErrorCode::ObjectNotFound),
            3001.. => Ok(content(key, len(5))),
            _ => Ok(content(key, len(position))),
        };
        let found = got[position].as_ref().map(|buffer| buffer.as_slice().to_vec());
        assert_eq!(found.map_err(|code| *code), expected, "{key}");
    }
}

#[test]
fn of_many_threads_that_put_one_key_one_wins() {
    let master = Master::start();
    let stores = [open(&master, 8 << 20), open(&master, 8 << 20), open(&master, 0)];
    for round in 0..20 {
        let key = format!("round {round}");
        let won = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (store, key, won) = (&stores[thread % 3], &key, &won);
                scope.spawn(move || match put(store, key, 50_000, 2) {
                    Ok(()) => drop(won.fetch_add(1, Ordering::Relaxed)),
                    Err(code) => assert_eq!(code, ErrorCode::ObjectAlreadyExists),
                });
            }
        });
        assert_eq!(won.load(Ordering::Relaxed), 1);
        assert!(stores.iter().all(|store| get(store, &key) == Ok(content(&key, 50_000))));
    }
}

#[test]
fn many_threads_of_one_store_get_right_bytes_or_misses() {
    let master = Master::start();
    // The pool has room for about a third of the objects, so it evicts.
    let _nodes = [open(&master, 2 << 20), open(&master, 2 << 20)];
    let client = open(&master, 0);
    let (right, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (client, right, missed) = (&client, &right, &missed);
            scope.spawn(move || {
                let mut chance = Chance::new(thread);
                for _ in 0..150 {
                    let number = chance.below(60) as usize;
                    let (key, len) = (format!("key {number}"), 1 + number * 3000);
                    match get(client, &key) {
                        Ok(bytes) => {
                            assert!(bytes == content(&key, len), "wrong bytes of {key}");
                            right.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(code) => {
                            let misses = [ErrorCode::ObjectNotFound, ErrorCode::ReplicaIsNotReady];
                            assert!(misses.contains(&code), "{code}");
                            missed.fetch_add(1, Ordering::Relaxed);
                            put_or_full(client, &key, len);
                        }
                    }
                }
            });
        }
    });
    let (right, missed) = (right.into_inner(), missed.into_inner());
    assert!(right > 100 && missed > 50, "{right} right, {missed} missed");
    master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}

fn put_or_full(store: &mooncake_client::Store, key: &str, len: usize) {
    let refused = [ErrorCode::ObjectAlreadyExists, ErrorCode::NoAvailableHandle];
    if let Err(code) = put(store, key, len, 1) {
        assert!(refused.contains(&code), "{code}");
    }
}

#[test]
fn a_full_pool_says_so_and_keeps_what_it_has() {
    let master = Master::start();
    let node = open(&master, 1 << 20);
    let pinned = ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    let bytes = Buffer::from_vec(content("pinned", 700_000));
    let source = [PutSource::new("pinned", SliceList::from(bytes.raw()))];
    assert_eq!(node.put(&source, &pinned), vec![Ok(())]);
    assert_eq!(put(&node, "more", 700_000, 1), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(get(&node, "pinned"), Ok(content("pinned", 700_000)));
}

#[test]
fn a_closed_node_takes_its_objects_along_and_replicas_stay() {
    let master = Master::start();
    let one = open(&master, 16 << 20);
    let two = open(&master, 16 << 20);
    let client = open(&master, 0);
    for number in 0..20 {
        assert_eq!(put(&client, &format!("both {number}"), 10_000, 2), Ok(()));
    }
    let named =
        ReplicateConfig { preferred_segments: vec![one.hostname()], ..ReplicateConfig::default() };
    assert_eq!(one.put_bytes("only on one", b"value", &named), Ok(()));
    let location = client.locate(&["only on one"]).remove(0).expect("it is there");
    assert_eq!(location.segment_names().map(|name| &**name).collect::<Vec<_>>(), [one.hostname()]);
    one.close();
    for store in [&two, &client] {
        for number in 0..20 {
            let key = format!("both {number}");
            assert_eq!(get(store, &key), Ok(content(&key, 10_000)));
        }
        assert_eq!(get(store, "only on one"), Err(ErrorCode::ObjectNotFound));
    }
    let again = open(&master, 16 << 20);
    eventually("objects are placed on the new node too", || {
        master.with_meta(|meta| meta.segments().len() == 2)
    });
    assert_eq!(get(&again, "both 3"), Ok(content("both 3", 10_000)));
}

#[test]
fn a_striped_object_comes_back_whole() {
    let config = mooncake_meta::Config { stripe_threshold_bytes: 64 << 10, ..master::config() };
    let master = Master::start_at("127.0.0.1:0", Meta::new(config, Epoch(1)));
    let nodes = [open(&master, 4 << 20), open(&master, 4 << 20), open(&master, 4 << 20)];
    let client = open(&master, 0);
    for (number, store) in nodes.iter().chain([&client]).enumerate() {
        let (key, len) = (format!("striped {number}"), MIB + number);
        assert_eq!(put(store, &key, len, 1), Ok(()));
        let location = client.locate(&[&key]).remove(0).expect("it is there");
        assert!(location.replicas[0].stripes.len() > 1, "{location:?}");
        for reader in [&nodes[0], &client] {
            assert!(get(reader, &key) == Ok(content(&key, len)), "{key}");
        }
    }
}
