//! Nodes and clients when the master fails, and under its successor, which has only the membership record.

use std::collections::BTreeMap;
use std::time::Duration;

use mooncake_client::{ErrorCode, Store, StoreConfig};
use mooncake_types::{SegmentId, Version};

use crate::master::Master;
use crate::rig::{config, content, eventually, get, open, put, upsert};

const SAME: fn(&mut BTreeMap<SegmentId, Option<Version>>) = |_| {};

fn serves(master: &Master) -> bool {
    master.with_meta(|meta| meta.serves())
}

#[test]
fn what_was_put_is_there_and_what_was_removed_is_not() {
    let master = Master::start_recorded();
    let nodes = [open(&master, 16 << 20), open(&master, 16 << 20)];
    let client = open(&master, 0);
    let keys: Vec<String> = (0..60).map(|number| format!("key {number}")).collect();
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(put(&client, key, 1000 + number * 100, 1 + number as u32 % 2), Ok(()));
    }
    for key in &keys[..10] {
        assert_eq!(client.remove(&[key], true), [Ok(())]);
    }
    for key in &keys[10..20] {
        assert_eq!(upsert(&client, key, &content(key, 77), 1), Ok(()));
    }
    let expected = |number: usize, key: &str| match number {
        0..10 => Err(ErrorCode::ObjectNotFound),
        10..20 => Ok(content(key, 77)),
        _ => Ok(content(key, 1000 + number * 100)),
    };
    let mut master = master;
    for _ in 0..3 {
        master = master.fail(SAME);
        eventually("the new leader serves", || serves(&master));
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(get(&client, key), expected(number, key), "{key}");
        }
    }
    assert_eq!(put(&client, "another", 500, 2), Ok(()));
    assert_eq!(get(&nodes[0], "another"), Ok(content("another", 500)));
}

/// The inventory takes several pages.
#[test]
fn a_node_with_thousands_of_objects_tells_of_all_of_them() {
    let master = Master::start_recorded();
    let _node = open(&master, 64 << 20);
    let client = open(&master, 0);
    let keys: Vec<String> = (0..9_000).map(|number| format!("key {number}")).collect();
    for key in &keys {
        assert_eq!(put(&client, key, 100, 1), Ok(()));
    }
    let mut master = master;
    for _ in 0..2 {
        master = master.fail(SAME);
        eventually("the new leader serves", || serves(&master));
        assert_eq!(master.with_meta(|meta| meta.stats().keys), keys.len());
        for key in keys.iter().step_by(97) {
            assert_eq!(get(&client, key), Ok(content(key, 100)), "{key}");
        }
    }
}

/// A new leader changes nothing before it has the inventories. Callers wait for that moment and see no error.
#[test]
fn calls_wait_for_a_leader_that_is_only_beginning() {
    let master = Master::start_recorded();
    let node = open(&master, 16 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&client, "old", 500, 1), Ok(()));
    let master = master.fail(SAME);
    assert_eq!(put(&client, "new", 500, 1), Ok(()));
    assert_eq!(client.remove(&["old"], true), [Ok(())]);
    assert_eq!(get(&node, "old"), Err(ErrorCode::ObjectNotFound));
    assert!(serves(&master));
}

#[test]
fn a_node_that_is_no_member_any_more_starts_empty_and_goes_on() {
    type Members = BTreeMap<SegmentId, Option<Version>>;
    let untold = |members: &mut Members| {
        members.values_mut().for_each(|behind| *behind = Some(Version::default()));
    };
    let changes: [fn(&mut Members); 2] = [BTreeMap::clear, untold];
    for change in changes {
        let master = Master::start_recorded();
        let node = open(&master, 16 << 20);
        let client = open(&master, 0);
        let more = node.allocate_and_mount_segment(4 << 20, "").expect("there is memory");
        for number in 0..40 {
            assert_eq!(put(&client, &format!("key {number}"), 100_000, 2), Ok(()));
            assert!(get(&client, &format!("key {number}")).is_ok());
        }
        let master = master.fail(change);
        eventually("both segments are mounted again", || {
            master.with_meta(|meta| meta.segments().len() == 2)
        });
        for number in 0..40 {
            let key = format!("key {number}");
            assert_eq!(get(&client, &key), Err(ErrorCode::ObjectNotFound), "{key}");
        }
        for number in 0..40 {
            let key = format!("key {number}");
            assert_eq!(put(&client, &key, 50_000, 2), Ok(()), "{key}");
            assert_eq!(get(&client, &key), Ok(content(&key, 50_000)), "{key}");
        }
        // The caller unmounts the segment by the id that it was given, although the segment was mounted again under
        // another id.
        let unmounted = node.unmount_and_free_segment(&[more.id], Duration::ZERO);
        assert_eq!(unmounted, Ok(()));
        assert_eq!(master.with_meta(|meta| meta.segments().len()), 1);
        for number in 0..40 {
            let key = format!("key {number}");
            assert_eq!(get(&client, &key), Ok(content(&key, 50_000)), "{key}");
        }
    }
}

/// The objects had no lease, so no client confirms the drops: the node does, with its heartbeat.
#[test]
fn what_was_removed_is_confirmed_by_its_node_in_the_end() {
    let master = Master::start_recorded();
    let _node = open(&master, 16 << 20);
    let client = open(&master, 0);
    let keys: Vec<String> = (0..60).map(|number| format!("key {number}")).collect();
    for key in &keys {
        assert_eq!(put(&client, key, 10_000, 1), Ok(()), "{key}");
    }
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!(client.remove(&names, true), vec![Ok(()); 60]);
    eventually("nothing is left to be dropped", || {
        master.with_meta(|meta| meta.stats().tombstones == 0)
    });
}

/// The master fails between a writer's transfer and its `PutEnd`, or at any other point of the put.
#[test]
fn a_put_that_meets_the_death_of_its_master_ends_well_or_badly_and_never_half() {
    let mut master = Master::start_recorded();
    let _node = open(&master, 64 << 20);
    let quick = StoreConfig { rpc_timeout: Duration::from_secs(5), ..config(&master, 0) };
    let client = Store::open(quick).expect("the store opens");
    for round in 0..4 {
        let (mut ended, mut failed) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 0..40 {
                    let key = format!("round {round} key {number}");
                    match put(&client, &key, 20_000, 1) {
                        Ok(()) => ended.push(key),
                        Err(_) => failed.push(key),
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(5 + round * 3));
            master = std::mem::replace(&mut master, Master::start()).fail(SAME);
            writer.join().expect("it does not panic");
        });
        eventually("the new leader serves", || serves(&master));
        for key in &ended {
            assert_eq!(get(&client, key), Ok(content(key, 20_000)), "{key}");
        }
        for key in &failed {
            let got = get(&client, key);
            let fine = got == Ok(content(key, 20_000)) || got == Err(ErrorCode::ObjectNotFound);
            assert!(fine, "{key}");
        }
        assert!(!ended.is_empty());
    }
}
