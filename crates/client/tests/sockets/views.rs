//! Gets without a copy, and how long their views last.

use std::time::Duration;

use mooncake_client::{ErrorCode, ObjectBytes, Store, StoreConfig};

use crate::master::Master;
use crate::rig::{config, content, eventually, get, open, put, upsert};

const LEN: usize = 1 << 20;

fn got(store: &Store, key: &str) -> Result<ObjectBytes, ErrorCode> {
    store.get_bytes(&[key]).remove(0)
}

/// Gets an object as a view, and checks its bytes.
fn seen(store: &Store, key: &str) -> ObjectBytes {
    let bytes = got(store, key).expect("it is there");
    assert!(is(&bytes, key) && bytes.is_seen(), "{key}: {bytes:?}");
    bytes
}

fn is(bytes: &ObjectBytes, key: &str) -> bool {
    bytes.raw().to_vec() == content(key, bytes.len())
}

#[test]
fn large_objects_on_this_host_are_seen_where_they_lie() {
    let master = Master::start();
    let (node, client) = (open(&master, 64 << 20), open(&master, 0));
    for (key, len) in [("one", 256 << 10), ("odd", 300_001), ("large", 5 << 20)] {
        assert_eq!(put(&node, key, len, 1), Ok(()));
        for store in [&node, &client] {
            assert_eq!(seen(store, key).len(), len);
        }
    }
    assert_eq!(put(&node, "small", 1000, 1), Ok(()));
    let keys = ["one", "none", "small", "large", "one"];
    for store in [&node, &client] {
        let found = store.get_bytes(&keys);
        for (key, found) in keys.iter().zip(found) {
            match found {
                Err(code) => assert_eq!((*key, code), ("none", ErrorCode::ObjectNotFound)),
                Ok(bytes) => {
                    assert_eq!((is(&bytes, key), bytes.is_seen()), (true, *key != "small"));
                }
            }
        }
    }
    let transports = "tcp".parse().expect("a name of a transport");
    let far = StoreConfig { transports, ..config(&master, 0) };
    let far = Store::open(far).expect("it opens");
    let copy = got(&far, "large").expect("it is there");
    assert!(is(&copy, "large") && !copy.is_seen());
}

#[test]
fn what_is_removed_or_replaced_is_seen_on() {
    let master = Master::start();
    let (node, client) = (open(&master, 64 << 20), open(&master, 0));
    assert_eq!([put(&node, "gone", LEN, 1), put(&node, "new", LEN, 1)], [Ok(()), Ok(())]);
    let views = [&node, &client].map(|store| (seen(store, "gone"), seen(store, "new")));
    assert_eq!(client.remove(&["gone"], true), [Ok(())]);
    assert_eq!(upsert(&client, "new", &content("newer", LEN), 1), Ok(()));
    for store in [&node, &client] {
        assert_eq!(got(store, "gone").err(), Some(ErrorCode::ObjectNotFound));
        assert_eq!(get(store, "new"), Ok(content("newer", LEN)));
    }
    // Other objects reuse their ranges.
    for number in 0..200 {
        let key = format!("other {number}");
        eventually("there is room", || put(&node, &key, LEN, 1) == Ok(()));
    }
    for (gone, new) in &views {
        assert!(is(gone, "gone") && is(new, "new"));
    }
}

/// Old views neither block puts nor show the bytes of newer objects.
#[test]
fn a_full_pool_goes_on_while_views_are_kept() {
    let master = Master::start();
    let (node, client) = (open(&master, 16 << 20), open(&master, 0));
    let mut kept = Vec::new();
    for number in 0..150 {
        let key = format!("key {number}");
        eventually("there is room", || put(&client, &key, LEN, 1) == Ok(()));
        for store in [&node, &client] {
            let bytes = got(store, &key).expect("it is there");
            assert!(is(&bytes, &key));
            kept.push((key.clone(), bytes));
        }
        if number % 10 == 0 {
            assert!(kept.iter().all(|(key, bytes)| is(bytes, key)));
        }
    }
    assert!(kept.iter().all(|(key, bytes)| is(bytes, key)));
    let seen = kept.iter().filter(|(_, bytes)| bytes.is_seen()).count();
    assert!(seen <= 16, "{seen} are seen in a pool that has room for 16");
}

#[test]
fn views_outlive_their_stores_and_segments() {
    let master = Master::start();
    let node = open(&master, 64 << 20);
    let lent = node.allocate_and_mount_segment(16 << 20, "").expect("memory");
    let (client, other) = (open(&master, 0), open(&master, 32 << 20));
    let keys: Vec<String> = (0..12).map(|number| format!("key {number}")).collect();
    for key in &keys {
        assert_eq!(put(&client, key, LEN, 2), Ok(()));
    }
    let stores = [&node, &client, &other];
    let of = |store, key| (key, got(store, key).expect("it is there"));
    let views: Vec<(&str, ObjectBytes)> =
        keys.iter().flat_map(|key| stores.map(|store| of(store, key.as_str()))).collect();
    let all_are = || views.iter().all(|(key, bytes)| is(bytes, key));
    assert!(all_are() && views.iter().filter(|(_, bytes)| bytes.is_seen()).count() > 12);
    client.close();
    assert!(all_are());
    assert_eq!(node.unmount_and_free_segment(&[lent.id], Duration::ZERO), Ok(()));
    assert!(all_are());
    node.close();
    assert!(all_are());
    drop((node, other));
    eventually("they are copied", || views.iter().all(|(_, bytes)| !bytes.is_seen()));
    assert!(all_are());
}

#[test]
fn what_is_written_to_the_bytes_changes_nothing_else() {
    let master = Master::start();
    let node = open(&master, 16 << 20);
    assert_eq!(put(&node, "key", LEN, 1), Ok(()));
    let mine = seen(&node, "key");
    mine.raw().write_from(&vec![0; LEN]);
    assert_eq!(get(&node, "key"), Ok(content("key", LEN)));
    assert!(is(&seen(&node, "key"), "key") && mine.raw().to_vec() == vec![0; LEN]);
}
