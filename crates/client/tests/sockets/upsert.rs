use std::sync::atomic::{AtomicBool, Ordering};

use mooncake_client::{Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList};

use crate::master::Master;
use crate::rig::{content, get, open, put, upsert};

#[test]
fn an_upsert_makes_and_replaces_objects_of_any_length() {
    let master = Master::start();
    let node = open(&master, 16 << 20);
    let client = open(&master, 0);
    for (number, len) in [1000, 1000, 40, 300_000, 1].into_iter().enumerate() {
        let bytes = content(&format!("round {number}"), len);
        assert_eq!(upsert(&client, "key", &bytes, 1), Ok(()));
        for store in [&node, &client] {
            assert_eq!(get(store, "key"), Ok(bytes.clone()), "round {number}");
            assert_eq!(store.size("key"), Ok(len as u64));
        }
        assert_eq!(put(&client, "key", 5, 1), Err(ErrorCode::ObjectAlreadyExists));
    }
    assert_eq!(upsert(&client, "", b"x", 1), Err(ErrorCode::InvalidKey));
    assert_eq!(upsert(&client, "key", b"", 1), Err(ErrorCode::InvalidParams));
    assert_eq!(get(&client, "key"), Ok(content("round 4", 1)));
    client.close();
    let closed = Err(ErrorCode::UnavailableInCurrentStatus);
    assert_eq!(upsert(&client, "key", b"x", 1), closed);
    master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}

#[test]
fn of_one_key_in_one_call_the_last_item_is_stored() {
    let master = Master::start();
    let _node = open(&master, 16 << 20);
    let client = open(&master, 0);
    let values = ["first", "second", "third"].map(|text| Buffer::from_vec(text.into()));
    let items = [("a", 0), ("b", 1), ("a", 2)]
        .map(|(key, at)| PutSource::new(key, SliceList::from(values[at].raw())));
    let results = client.upsert(&items, &ReplicateConfig::default());
    assert_eq!(results, vec![Ok(()); 3]);
    assert_eq!(get(&client, "a"), Ok(b"third".to_vec()));
    assert_eq!(get(&client, "b"), Ok(b"second".to_vec()));
}

#[test]
fn an_upsert_that_finds_no_room_leaves_the_old_object() {
    let master = Master::start();
    let _node = open(&master, 1 << 20);
    let client = open(&master, 0);
    assert_eq!(upsert(&client, "key", b"old", 1), Ok(()));
    let long = vec![7; 2 << 20];
    assert_eq!(upsert(&client, "key", &long, 1), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(get(&client, "key"), Ok(b"old".to_vec()));
}

/// Whether all bytes of an object come from one writer: every eight bytes name it.
fn is_of_one_writer(bytes: &[u8]) -> bool {
    bytes.chunks(8).all(|chunk| *chunk == bytes[..chunk.len()])
}

#[test]
fn readers_get_an_old_object_or_a_new_one_and_never_a_mix() {
    let master = Master::start();
    let nodes = [open(&master, 16 << 20), open(&master, 16 << 20)];
    let client = open(&master, 0);
    let bytes_of = |writer: u64, round: u64| {
        let len = 8 * (1000 + (writer * 7 + round * 13) % 3000) as usize;
        (writer << 32 | round).to_le_bytes().into_iter().cycle().take(len).collect::<Vec<u8>>()
    };
    assert_eq!(upsert(&client, "key", &bytes_of(0, 0), 2), Ok(()));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (store, bytes_of) = (&nodes[writer], &bytes_of);
                scope.spawn(move || {
                    for round in 1..60 {
                        let bytes = bytes_of(writer as u64, round);
                        assert_eq!(upsert(store, "key", &bytes, 2), Ok(()));
                    }
                })
            })
            .collect();
        for store in [&nodes[0], &nodes[1], &client] {
            let done = &done;
            scope.spawn(move || {
                let mut right = 0;
                while !done.load(Ordering::Relaxed) {
                    let bytes = get(store, "key").expect("there is always an object");
                    assert!(is_of_one_writer(&bytes), "a mix of {} bytes", bytes.len());
                    right += 1;
                }
                assert!(right > 0);
            });
        }
        let ended = writers.into_iter().all(|writer| writer.join().is_ok());
        done.store(true, Ordering::Relaxed);
        assert!(ended, "a writer failed");
    });
    let last = bytes_of(0, 59);
    let other = bytes_of(1, 59);
    let found = get(&client, "key").expect("there is an object");
    assert!(found == last || found == other);
}
