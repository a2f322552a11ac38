//! Objects that are used again are stored in an object store of their node, besides memory and disks.

use mooncake_meta::Config;
use mooncake_types::Medium::{Disk, Memory, ObjectStore};
use mooncake_types::{ErrorCode, Request};

use crate::tiers::{LEN, ON_DISK, carry_out, media, put_at};
use crate::world::{ALICE, World};

/// Alice lends memory (segment 1) for four objects, and an object store (4) for sixteen.
fn alone(config: Config) -> World {
    let mut world = World::new(Config { offload: true, lease_ttl_ms: 10, ..config });
    world.mount(ALICE, 1, 4 * LEN).expect("it is new");
    world.mount_on(ObjectStore, ALICE, 4, 16 * ON_DISK).expect("it is new");
    world
}

fn on_evict() -> Config {
    Config { offload_on_evict: true, ..Config::default() }
}

#[test]
fn what_is_put_goes_to_the_object_store_once_it_is_used_again() {
    let mut world = alone(Config::default());
    put_at(&mut world, "a", 1);
    put_at(&mut world, "b", 1);
    assert!(carry_out(&mut world, ALICE).is_empty(), "nobody has asked for it");
    assert_eq!(media(&mut world, "a"), [Memory]);
    let orders = carry_out(&mut world, ALICE);
    let [order] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!((&*order.key, order.len), ("a", LEN));
    assert_eq!(media(&mut world, "a"), [Memory, ObjectStore]);
    assert!(carry_out(&mut world, ALICE).is_empty(), "it lies there");
    assert_eq!(world.meta.stats().disk_objects, 1);
}

#[test]
fn what_was_used_is_read_there_once_memory_has_evicted_it_and_the_rest_is_lost() {
    let mut world = alone(Config::default());
    for n in 0..12 {
        let key = format!("key {n}");
        put_at(&mut world, &key, 1);
        if n % 2 == 0 {
            media(&mut world, &key);
        }
        carry_out(&mut world, ALICE);
        world.advance(20);
    }
    for n in 0..8 {
        let expected = if n % 2 == 0 { &[ObjectStore][..] } else { &[] };
        assert_eq!(media(&mut world, &format!("key {n}")), expected, "key {n}");
    }
}

#[test]
fn what_its_disk_evicted_and_memory_still_has_is_not_written_to_the_disk_again_by_being_read() {
    for has_store in [false, true] {
        let mut world = World::new(Config { offload: true, lease_ttl_ms: 10, ..Config::default() });
        world.mount(ALICE, 1, 16 * LEN).expect("it is new");
        world.mount_on(Disk, ALICE, 2, 4 * ON_DISK).expect("it is new");
        if has_store {
            world.mount_on(ObjectStore, ALICE, 4, 64 * ON_DISK).expect("it is new");
        }
        let keys: Vec<String> = (0..8).map(|n| n.to_string()).collect();
        for key in &keys {
            put_at(&mut world, key, 1);
            carry_out(&mut world, ALICE);
            world.advance(20);
        }
        let mut evicted = 0;
        for key in &keys {
            let before = media(&mut world, key);
            let orders = carry_out(&mut world, ALICE);
            assert_eq!(orders.len(), usize::from(has_store), "{key}: {orders:?}");
            assert!(carry_out(&mut world, ALICE).is_empty(), "{key}: a copy brings no other");
            let stored = if has_store { &[ObjectStore][..] } else { &[] };
            assert_eq!(media(&mut world, key), [&before, stored].concat(), "{key}");
            evicted += u32::from(before == [Memory]);
        }
        assert!(evicted > 0, "the disk holds four");
    }
}

#[test]
fn what_comes_back_after_it_was_evicted_counts_as_used_again() {
    let mut world = alone(Config::default());
    for n in 0..5 {
        put_at(&mut world, &n.to_string(), 1);
        world.advance(20);
    }
    let lost = (0..5).find(|n| media(&mut world, &n.to_string()).is_empty());
    carry_out(&mut world, ALICE);
    let key = lost.expect("memory holds four").to_string();
    world.advance(20);
    put_at(&mut world, &key, 1);
    let orders = carry_out(&mut world, ALICE);
    assert!(orders.iter().any(|order| *order.key == *key), "{orders:?}");
}

#[test]
fn with_offload_on_evict_a_victim_sinks_to_the_object_store_only_if_it_was_used_again() {
    let mut world = alone(on_evict());
    for n in 0..4 {
        put_at(&mut world, &n.to_string(), 1);
    }
    assert_eq!(media(&mut world, "0"), [Memory]);
    assert_eq!(media(&mut world, "1"), [Memory]);
    assert!(carry_out(&mut world, ALICE).is_empty(), "memory has room");
    for n in 4..12 {
        world.advance(20);
        while world.put(&n.to_string(), LEN).is_err() {
            assert!(!carry_out(&mut world, ALICE).is_empty(), "{n}: nothing makes room");
            world.advance(20);
        }
        carry_out(&mut world, ALICE);
    }
    for (key, expected) in
        [("0", &[ObjectStore][..]), ("1", &[ObjectStore]), ("2", &[]), ("3", &[])]
    {
        assert_eq!(media(&mut world, key), expected, "{key}");
    }
}

#[test]
fn a_victim_sinks_to_a_disk_first_and_to_the_object_store_when_it_has_come_back() {
    let mut world = alone(on_evict());
    world.mount_on(Disk, ALICE, 2, 64 * ON_DISK).expect("it is new");
    put_at(&mut world, "a", 1);
    assert_eq!(media(&mut world, "a"), [Memory]);
    let fill = |world: &mut World, round: u32| {
        for n in 0..4 {
            world.advance(20);
            let key = format!("{round} {n}");
            while let Err(code) = world.put(&key, LEN) {
                assert_eq!(code, ErrorCode::UnavailableInCurrentStatus);
                assert!(!carry_out(world, ALICE).is_empty(), "{key}: nothing makes room");
                world.advance(20);
            }
            carry_out(world, ALICE);
        }
    };
    fill(&mut world, 1);
    assert_eq!(media(&mut world, "a"), [Disk]);
    let prefetched = world.meta.stats().counters.promotions.made;
    assert_eq!(prefetched, 0);
    world.advance(20);
    world.ask(ALICE, &Request::Prefetch { keys: vec!["a"] });
    // Objects in memory sink first, to make room for "a".
    (0..4).for_each(|_| {
        carry_out(&mut world, ALICE);
        world.advance(1_100);
    });
    assert_eq!(media(&mut world, "a"), [Memory, Disk]);
    fill(&mut world, 2);
    fill(&mut world, 3);
    assert_eq!(media(&mut world, "a"), [Disk, ObjectStore]);
}
