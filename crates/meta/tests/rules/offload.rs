//! Objects are copied to a disk of the node that holds them in memory, and read there once memory has evicted them.

use mooncake_meta::Config;
use mooncake_types::{ErrorCode, Medium, ReplicateConfig, limits};

use crate::tiers::{LEN, alone, carry_out, media, put_at};
use crate::world::{ALICE, BOB, World};

/// As [`alone`], and Bob lends memory too (segment 3).
fn world(config: Config) -> World {
    let mut world = alone(config);
    world.mount(BOB, 3, 4 * LEN).expect("it is new");
    world
}

#[test]
fn an_object_is_copied_to_a_disk_of_its_node_once_it_is_put() {
    let mut world = world(Config::default());
    put_at(&mut world, "a", 1);
    assert!(world.fetch_tasks(BOB).orders.is_empty(), "it lies with Alice");
    let orders = carry_out(&mut world, ALICE);
    let [order] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!((&*order.key, order.len), ("a", LEN));
    assert_eq!(media(&mut world, "a"), [Medium::Memory, Medium::Disk]);
    assert_eq!(world.meta.stats().counters.offloads.bytes, LEN);
}

#[test]
fn an_object_of_a_node_without_a_disk_stays_in_memory() {
    let mut world = world(Config::default());
    put_at(&mut world, "b", 3);
    assert!(carry_out(&mut world, ALICE).is_empty());
    assert!(carry_out(&mut world, BOB).is_empty());
    assert_eq!(media(&mut world, "b"), [Medium::Memory]);
}

#[test]
fn nothing_is_offloaded_unless_the_master_is_told_to() {
    let mut world = world(Config::default());
    world.meta = mooncake_meta::Meta::new(Config::default(), mooncake_types::Epoch(7));
    world.mount(ALICE, 1, 4 * LEN).expect("it is new");
    world.mount_on(Medium::Disk, ALICE, 2, 64 * LEN).expect("it is new");
    world.put("a", LEN).expect("there is room");
    assert!(carry_out(&mut world, ALICE).is_empty());
}

#[test]
fn nothing_is_put_on_a_disk() {
    let mut world = World::new(Config { offload: true, ..Config::default() });
    world.mount_on(Medium::Disk, ALICE, 2, 64 * LEN).expect("it is new");
    assert_eq!(world.put("a", LEN).map(|_| ()), Err(ErrorCode::NoAvailableHandle));
}

#[test]
fn what_memory_evicted_is_read_from_the_disk() {
    let mut world = alone(Config { lease_ttl_ms: 10, ..Config::default() });
    for n in 0..20 {
        put_at(&mut world, &format!("key {n}"), 1);
        carry_out(&mut world, ALICE);
        world.advance(20);
    }
    for n in 0..16 {
        assert_eq!(media(&mut world, &format!("key {n}")), [Medium::Disk], "key {n}");
    }
    for n in 16..20 {
        let both = [Medium::Memory, Medium::Disk];
        assert_eq!(media(&mut world, &format!("key {n}")), both, "key {n}");
    }
    let counters = world.meta.stats().counters;
    assert_eq!((counters.evicted_keys, counters.evicted_bytes), (0, 16 * LEN));
}

#[test]
fn a_full_disk_evicts_what_was_used_longest_ago() {
    let mut world = alone(Config { lease_ttl_ms: 10, ..Config::default() });
    for n in 0..80 {
        put_at(&mut world, &format!("key {n}"), 1);
        carry_out(&mut world, ALICE);
        world.advance(20);
    }
    let left = (0..80).filter(|n| !media(&mut world, &format!("key {n}")).is_empty());
    assert_eq!(left.collect::<Vec<_>>(), (16..80).collect::<Vec<_>>());
}

#[test]
fn a_removed_object_is_dropped_from_memory_and_disk() {
    let mut world = world(Config::default());
    put_at(&mut world, "a", 1);
    carry_out(&mut world, ALICE);
    world.remove("a", true).expect("it is there");
    let dropped = world.fetch_drops(ALICE);
    let mut segments: Vec<u128> = dropped.iter().map(|range| range.segment.0).collect();
    segments.sort_unstable();
    assert_eq!(segments, [1, 2]);
    world.check();
}

#[test]
fn an_object_that_goes_while_it_is_offloaded_leaves_nothing() {
    let mut world = world(Config::default());
    put_at(&mut world, "a", 1);
    let order = world.fetch_tasks(ALICE).orders.remove(0);
    world.remove("a", true).expect("it is there");
    world.check();
    assert_eq!(world.end_task(ALICE, order.id, Ok(())), Ok(()), "it has failed already");
    assert_eq!(media(&mut world, "a"), []);
    world.check();
    put_at(&mut world, "b", 1);
    assert_eq!(carry_out(&mut world, ALICE).len(), 1, "the next one is offloaded");
}

#[test]
fn no_more_are_on_their_way_than_may_be() {
    let mut world = world(Config { offloading_queue_limit: 2, ..Config::default() });
    for key in ["a", "b", "c"] {
        put_at(&mut world, key, 1);
    }
    assert_eq!(carry_out(&mut world, ALICE).len(), 2);
    put_at(&mut world, "d", 1);
    assert_eq!(carry_out(&mut world, ALICE).len(), 1);
}

#[test]
fn a_disk_that_leaves_takes_only_its_copies_with_it() {
    let mut world = world(Config::default());
    put_at(&mut world, "a", 1);
    carry_out(&mut world, ALICE);
    world.unmount(ALICE, 2, 0).expect("it is mounted");
    world.timeouts();
    world.check();
    assert_eq!(media(&mut world, "a"), [Medium::Memory]);
}

#[test]
fn an_object_with_as_many_replicas_as_may_be_is_not_copied_to_a_disk() {
    let mut world = World::new(Config { offload: true, ..Config::default() });
    for id in 1..=limits::MAX_REPLICAS {
        world.mount(ALICE, id.into(), 4 * LEN).expect("it is new");
    }
    world.mount_on(Medium::Disk, ALICE, 100, 64 * LEN).expect("it is new");
    let everywhere =
        ReplicateConfig { replica_num: limits::MAX_REPLICAS, ..ReplicateConfig::default() };
    world.put_with(ALICE, "a", LEN, everywhere).expect("there is room");
    assert!(world.fetch_tasks(ALICE).orders.is_empty(), "no number is left for a replica");
    world.check();
    assert_eq!(world.meta.stats().disk_used_bytes, 0, "nothing is reserved for it");
}

#[test]
fn a_group_goes_as_a_whole_once_the_last_of_it_lies_on_the_disk() {
    let mut world = alone(Config { lease_ttl_ms: 10, ..Config::default() });
    for n in 0..4 {
        world.put_member(&n.to_string(), LEN, "prompt").expect("there is room");
    }
    let mut orders = world.fetch_tasks(ALICE).orders;
    let last = orders.pop().expect("each is offloaded");
    for order in orders {
        assert_eq!(world.end_task(ALICE, order.id, Ok(())), Ok(()));
    }
    let refused = world.start(ALICE, "4", LEN).map(|_| ());
    assert_eq!(refused, Err(ErrorCode::UnavailableInCurrentStatus), "the last is being read");
    assert_eq!(world.meta.stats().counters.evicted_bytes, 0, "the others stay with it");
    world.check();
    assert_eq!(world.end_task(ALICE, last.id, Ok(())), Ok(()));
    world.advance(1);
    world.put("4", LEN).expect("there is room");
    for n in 0..4 {
        assert_eq!(media(&mut world, &n.to_string()), [Medium::Disk], "{n}");
    }
    world.check();
}
