//! Objects that lie only on disks get replicas in memory.

use std::collections::BTreeSet;

use mooncake_meta::Config;
use mooncake_types::{ErrorCode, ExistOptions, Medium, Prefetch, PrefetchLimits, Reply, Request};

use crate::tiers::{LEN, ON_DISK, alone, carry_out, media, put_at};
use crate::world::{ALICE, BOB, World};

fn prefetch(world: &mut World, keys: &[&str]) -> Vec<Result<Prefetch, ErrorCode>> {
    match world.ask(crate::world::BOB, &Request::Prefetch { keys: keys.to_vec() }) {
        Reply::Prefetched(results) => results,
        other => panic!("{other:?}"),
    }
}

/// Alice's memory holds four of eight objects. The first four lie only on her disk.
fn half_on_disk(config: Config) -> World {
    let mut world = alone(Config { lease_ttl_ms: 10, ..config });
    for n in 0..8 {
        put_at(&mut world, &n.to_string(), 1);
        carry_out(&mut world, ALICE);
        world.advance(20);
    }
    world
}

#[test]
fn a_prefetched_object_is_copied_to_memory() {
    let mut world = half_on_disk(Config::default());
    assert_eq!(media(&mut world, "0"), [Medium::Disk]);
    let under_way = [Ok(Prefetch::UnderWay)];
    assert_eq!(prefetch(&mut world, &["0"]), under_way);
    assert_eq!(prefetch(&mut world, &["0"]), under_way, "it is asked for once more");
    let orders = carry_out(&mut world, ALICE);
    let [order] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!((&*order.key, order.len), ("0", LEN));
    assert_eq!(media(&mut world, "0"), [Medium::Memory, Medium::Disk]);
    assert_eq!(prefetch(&mut world, &["0"]), [Ok(Prefetch::InMemory)]);
    let counters = world.meta.stats().counters;
    assert_eq!((counters.promotions.made, counters.promotions.bytes), (1, LEN));
}

/// Asks whether objects exist, to read them soon.
fn look_up(world: &mut World, keys: &[&str], limits: PrefetchLimits) {
    let options = ExistOptions { prefetch: Some(limits), ..ExistOptions::default() };
    let reply = world.ask(BOB, &Request::ExistKey { keys: keys.to_vec(), options });
    let Reply::Exist(_) = reply else { panic!("{reply:?}") };
    world.check();
}

#[test]
fn an_object_that_is_found_is_copied_to_memory_if_the_question_says_so() {
    let mut world = half_on_disk(Config::default());
    world.exist("0");
    assert!(world.fetch_tasks(ALICE).orders.is_empty(), "not every question says so");
    look_up(&mut world, &["0", "7", "missing", "0"], PrefetchLimits::default());
    let orders = carry_out(&mut world, ALICE);
    assert_eq!(orders.iter().map(|order| &*order.key).collect::<Vec<_>>(), ["0"]);
    assert_eq!(media(&mut world, "0"), [Medium::Memory, Medium::Disk]);
}

#[test]
fn an_object_is_not_copied_to_memory_again_before_its_rest_is_over() {
    for (rest_ms, again) in [(0, 1), (30_000, 0)] {
        let mut world = half_on_disk(Config::default());
        let limits = PrefetchLimits { rest_ms, ..PrefetchLimits::default() };
        look_up(&mut world, &["0"], limits);
        carry_out(&mut world, ALICE);
        world.advance(20);
        for n in 8..12 {
            put_at(&mut world, &n.to_string(), 1);
            carry_out(&mut world, ALICE);
            world.advance(20);
        }
        assert_eq!(media(&mut world, "0"), [Medium::Disk], "it was evicted again");
        look_up(&mut world, &["0"], limits);
        assert_eq!(carry_out(&mut world, ALICE).len(), again, "{rest_ms}");
        world.advance(30_000);
        look_up(&mut world, &["0"], limits);
        assert_eq!(carry_out(&mut world, ALICE).len(), 1 - again, "{rest_ms}");
    }
}

#[test]
fn questions_copy_nothing_for_a_while_after_a_copy_was_refused() {
    for (cooldown_ms, begun) in [(0, 1), (5_000, 0)] {
        let mut world = half_on_disk(Config { promotion_queue_limit: 1, ..Config::default() });
        let limits = PrefetchLimits { cooldown_ms, ..PrefetchLimits::default() };
        look_up(&mut world, &["0", "1"], limits);
        assert_eq!(world.meta.stats().counters.promotions_refused, 1);
        carry_out(&mut world, ALICE);
        world.advance(100);
        look_up(&mut world, &["2"], limits);
        assert_eq!(carry_out(&mut world, ALICE).len(), begun, "{cooldown_ms}");
        world.advance(5_000);
        look_up(&mut world, &["3"], limits);
        assert_eq!(carry_out(&mut world, ALICE).len(), 1, "{cooldown_ms}");
    }
}

#[test]
fn what_cannot_be_prefetched_says_why() {
    let mut world = half_on_disk(Config { promotion_queue_limit: 1, ..Config::default() });
    world.start(ALICE, "unfinished", LEN).expect("something can be evicted");
    let keys = ["0", "1", "7", "missing", "unfinished", ""];
    let expected = [
        Ok(Prefetch::UnderWay),
        Err(ErrorCode::TaskPendingLimitExceeded),
        Ok(Prefetch::InMemory),
        Err(ErrorCode::ObjectNotFound),
        Err(ErrorCode::ReplicaIsNotReady),
        Err(ErrorCode::InvalidKey),
    ];
    assert_eq!(prefetch(&mut world, &keys), expected);
    carry_out(&mut world, ALICE);
    assert_eq!(prefetch(&mut world, &["1"]), [Ok(Prefetch::UnderWay)], "the first has ended");
}

#[test]
fn an_object_that_goes_while_it_is_promoted_leaves_nothing() {
    let mut world = half_on_disk(Config::default());
    prefetch(&mut world, &["0"]);
    let order = world.fetch_tasks(ALICE).orders.remove(0);
    world.remove("0", true).expect("it is there");
    world.check();
    assert_eq!(world.end_task(ALICE, order.id, Ok(())), Ok(()), "it has failed already");
    assert_eq!(media(&mut world, "0"), []);
    world.check();
    assert_eq!(world.meta.stats().counters.promotions.failed, 1);
}

#[test]
fn the_client_of_a_new_task_is_named_once() {
    let mut world = half_on_disk(Config::default());
    world.meta.take_clients_with_new_tasks();
    prefetch(&mut world, &["0", "1"]);
    assert_eq!(world.meta.take_clients_with_new_tasks(), BTreeSet::from([ALICE]));
    assert!(world.meta.take_clients_with_new_tasks().is_empty());
}

#[test]
fn an_object_is_promoted_when_it_is_read_from_the_disk_often_enough() {
    for (threshold, reads) in [(1, 1), (2, 2), (3, 3)] {
        let mut world = half_on_disk(Config {
            promotion_on_hit: true,
            promotion_admission_threshold: threshold,
            ..Config::default()
        });
        for read in 1..=reads {
            assert!(world.fetch_tasks(ALICE).orders.is_empty(), "{threshold}: {read}");
            assert_eq!(media(&mut world, "0"), [Medium::Disk]);
        }
        assert_eq!(carry_out(&mut world, ALICE).len(), 1, "{threshold}");
        assert_eq!(media(&mut world, "0"), [Medium::Memory, Medium::Disk]);
    }
}

/// A replica that is partly out of sight is not readable, but keeps its ranges in sight.
#[test]
fn a_promoted_replica_lies_on_no_segment_that_holds_a_part_of_another() {
    let config = Config {
        offload: true,
        stripe_threshold_bytes: 4 * LEN,
        lease_ttl_ms: 10,
        ..Config::default()
    };
    let mut world = World::new(config);
    for (client, segment) in [(ALICE, 1), (BOB, 2)] {
        world.mount(client, segment, 16 * LEN).expect("it is new");
    }
    world.mount_on(Medium::Disk, ALICE, 3, 64 * ON_DISK).expect("it is new");
    world.put("a", 8 * LEN).expect("there is room");
    assert_eq!(world.holders("a"), ["node-1:12345", "node-2:12345"]);
    carry_out(&mut world, ALICE);
    world.disconnect(BOB);
    assert_eq!(media(&mut world, "a"), [Medium::Disk]);

    // Alice's disk holds the object. Her memory, the only one in sight, holds a part of the other replica.
    prefetch(&mut world, &["a"]);
    carry_out(&mut world, ALICE);
    assert_eq!(media(&mut world, "a"), [Medium::Disk], "there is no room for it");

    world.mount(ALICE, 4, 16 * LEN).expect("it is new");
    world.advance(1_000);
    carry_out(&mut world, ALICE);
    assert_eq!(media(&mut world, "a"), [Medium::Memory, Medium::Disk]);
    assert!(world.holders("a").contains(&"node-4:12345".to_owned()));
}

#[test]
fn reads_by_routes_that_clients_have_count_too() {
    let mut world = half_on_disk(Config { promotion_on_hit: true, ..Config::default() });
    let renew = Request::RenewRoutes { keys: vec!["0", "1"], uses: vec![2, 1] };
    world.ask(crate::world::BOB, &renew);
    let orders = carry_out(&mut world, ALICE);
    assert_eq!(orders.iter().map(|order| &*order.key).collect::<Vec<_>>(), ["0"]);
}

#[test]
fn reads_from_memory_promote_nothing() {
    let mut world = half_on_disk(Config { promotion_on_hit: true, ..Config::default() });
    for _ in 0..5 {
        world.get("7").expect("it is there");
    }
    assert!(carry_out(&mut world, ALICE).is_empty());
}

#[test]
fn promotions_that_find_no_room_keep_no_offload_waiting() {
    let config =
        Config { offload: true, offload_on_evict: true, lease_ttl_ms: 10, ..Config::default() };
    let mut world = World::new(config);
    world.mount(ALICE, 1, 4 * LEN).expect("it is new");
    world.mount_on(Medium::Disk, ALICE, 2, 256 * LEN).expect("it is new");
    let keys: Vec<String> = (0..90).map(|n| n.to_string()).collect();
    for key in &keys {
        // A put without room is repeated once an object has sunk.
        while world.put(key, LEN).is_err() {
            carry_out(&mut world, ALICE);
        }
        world.advance(20);
    }
    // More promotions than one fetch of tasks examines. The objects that they would replace must sink first.
    for key in &keys[..80] {
        assert_eq!(prefetch(&mut world, &[key]), [Ok(Prefetch::UnderWay)]);
    }
    for _ in 0..8 {
        carry_out(&mut world, ALICE);
        world.advance(500);
    }
    let promoted = world.meta.stats().counters.promotions.made;
    assert!(promoted >= 4, "{promoted} were promoted to a memory for four");
}

#[test]
fn a_promotion_that_finds_no_room_is_tried_again_when_some_was_made() {
    let mut world = alone(Config { lease_ttl_ms: 10, offload_on_evict: true, ..Config::default() });
    for n in 0..8 {
        if n == 4 {
            world.start(ALICE, "4", LEN).map(|_| ()).expect_err("victims sink");
            carry_out(&mut world, ALICE);
        }
        put_at(&mut world, &n.to_string(), 1);
    }
    assert_eq!(media(&mut world, "0"), [Medium::Disk]);
    // The objects in memory have to sink first.
    assert_eq!(prefetch(&mut world, &["0"]), [Ok(Prefetch::UnderWay)]);
    world.meta.take_clients_with_new_tasks();
    let sinking = carry_out(&mut world, ALICE);
    assert!(sinking.iter().all(|order| order.key != "0"), "there is no room yet: {sinking:?}");
    world.meta.take_clients_with_new_tasks();
    world.advance(10);
    assert_eq!(world.meta.take_clients_with_new_tasks(), BTreeSet::from([ALICE]));
    for _ in 0..3 {
        carry_out(&mut world, ALICE);
        world.advance(10);
    }
    assert_eq!(media(&mut world, "0"), [Medium::Memory, Medium::Disk]);
}

#[test]
fn a_promotion_makes_no_room() {
    let mut world = half_on_disk(Config { lease_ttl_ms: 60_000, ..Config::default() });
    prefetch(&mut world, &["0"]);
    for n in 4..8 {
        world.get(&n.to_string()).expect("it is there");
    }
    assert_eq!(
        world.start(ALICE, "new", LEN).map(|_| ()),
        Err(ErrorCode::NoAvailableHandle),
        "all is leased, and nothing is on its way to a disk"
    );
}
