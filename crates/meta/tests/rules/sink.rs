//! With `offload_on_evict`, an object is copied to a disk only when eviction selects it. Its memory is freed after the
//! copy.

use mooncake_meta::{Config, Notice};
use mooncake_types::{ErrorCode, Medium, ReplicateConfig};

use crate::tiers::{LEN, alone, carry_out, media, put_at};
use crate::world::{ALICE, BOB, World};

const MAKING_ROOM: ErrorCode = ErrorCode::UnavailableInCurrentStatus;

/// Memory for four objects, and a disk, with `offload_on_evict`.
fn sinking(config: Config) -> World {
    alone(Config { offload_on_evict: true, lease_ttl_ms: 10, ..config })
}

/// As [`sinking`], with the memory full.
fn full(config: Config) -> World {
    let mut world = sinking(config);
    for n in 0..4 {
        put_at(&mut world, &n.to_string(), 1);
    }
    world
}

/// Repeats a put until there is room, while the client ends its tasks.
fn put_patiently(world: &mut World, key: &str) {
    loop {
        match world.start(ALICE, key, LEN) {
            Ok(placed) => return world.end(ALICE, key, &placed.what, 0).expect("it is written"),
            Err(code) => assert_eq!(code, MAKING_ROOM, "{key}"),
        }
        assert!(!carry_out(world, ALICE).is_empty(), "{key}: nothing makes room");
    }
}

#[test]
fn nothing_goes_to_a_disk_while_there_is_room() {
    let mut world = full(Config::default());
    assert!(carry_out(&mut world, ALICE).is_empty());
    assert_eq!(world.meta.stats().counters.offloads.made, 0);
}

#[test]
fn a_put_that_finds_no_room_waits_until_victims_lie_on_the_disk() {
    let mut world = full(Config::default());
    assert_eq!(world.start(ALICE, "4", LEN).map(|_| ()), Err(MAKING_ROOM));
    assert_eq!(media(&mut world, "0"), [Medium::Memory], "it can be read meanwhile");
    world.check();
    world.advance(20);
    assert!(!carry_out(&mut world, ALICE).is_empty());
    assert_eq!(media(&mut world, "0"), [Medium::Disk]);
    world.put("4", LEN).expect("there is room");
    let counters = world.meta.stats().counters;
    assert_eq!((counters.puts_delayed, counters.evicted_keys), (1, 0));
}

#[test]
fn a_hundred_objects_pass_through_memory_for_four_and_none_is_lost() {
    let mut world = alone(Config { offload_on_evict: true, lease_ttl_ms: 1, ..Config::default() });
    world.mount_on(Medium::Disk, ALICE, 3, 64 * LEN).expect("it is new");
    let key = |n: u32| format!("key {n}");
    for n in 0..60 {
        put_patiently(&mut world, &key(n));
        world.check();
    }
    for n in 0..60 {
        assert_ne!(media(&mut world, &key(n)), [], "{n}");
    }
    let counters = world.meta.stats().counters;
    assert_eq!((counters.evicted_keys, counters.allocation_failures), (0, 0));
    assert!(counters.offloads.made >= 56, "{counters:?}");
}

#[test]
fn an_object_that_was_leased_meanwhile_stays_and_goes_at_once_the_next_time() {
    let mut world = full(Config::default());
    assert_eq!(world.start(ALICE, "4", LEN).map(|_| ()), Err(MAKING_ROOM));
    for n in 0..4 {
        world.get(&n.to_string()).expect("it is there");
    }
    carry_out(&mut world, ALICE);
    assert_eq!(media(&mut world, "0"), [Medium::Memory, Medium::Disk], "it is in use");
    world.advance(20);
    world.put("4", LEN).expect("those that lie on the disk go at once");
    world.check();
    assert_eq!(world.meta.stats().counters.evicted_keys, 0);
}

#[test]
fn an_object_whose_copy_failed_is_evicted() {
    let mut world = full(Config::default());
    assert_eq!(world.start(ALICE, "4", LEN).map(|_| ()), Err(MAKING_ROOM));
    let orders = world.fetch_tasks(ALICE).orders;
    for order in &orders {
        let failed = Err(ErrorCode::FileWriteFail);
        assert_eq!(world.end_task(ALICE, order.id, failed), Ok(()));
        world.check();
        assert_eq!(media(&mut world, &order.key), []);
    }
    world.put("4", LEN).expect("there is room");
    let counters = world.meta.stats().counters;
    assert_eq!(counters.offloads.failed, orders.len() as u64);
    world.advance(1_000);
    let failed = orders.len() as u64;
    let told = Notice::Sinking { deferred: failed, forced: 0, failed };
    assert!(world.meta.take_notices().contains(&told));
}

#[test]
fn other_replicas_of_a_victim_go_at_once() {
    for seed in 0..24 {
        let mut world = sinking(Config { seed, ..Config::default() });
        world.mount(BOB, 3, 4 * LEN).expect("it is new");
        let twice = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
        for n in 0..4 {
            world.put_with(ALICE, &n.to_string(), LEN, twice.clone()).expect("there is room");
        }
        // A put that first evicts on Bob's segment, and then has a victim sink from Alice's, has to wait.
        let first = world.start(ALICE, "4", LEN).map(|placed| placed.what);
        let grant = match first {
            Err(MAKING_ROOM) => world.start(ALICE, "4", LEN).map(|placed| placed.what),
            first => first,
        };
        let grant = grant.expect("Bob's replica of a victim went, before anything was carried out");
        assert_eq!(world.end(ALICE, "4", &grant, 0), Ok(()));
        world.check();
        assert!(world.meta.stats().counters.evictions_deferred > 0);
        carry_out(&mut world, ALICE);
        for n in 0..5 {
            assert_ne!(media(&mut world, &n.to_string()), [], "{n}");
        }
        assert_eq!(world.meta.stats().short_objects, 0, "they were given up on purpose");
    }
}

#[test]
fn an_object_of_a_node_without_a_disk_is_evicted_as_ever() {
    let mut world =
        World::new(Config { offload: true, offload_on_evict: true, ..Config::default() });
    world.mount(BOB, 3, 4 * LEN).expect("it is new");
    for n in 0..5 {
        world.put(&n.to_string(), LEN).expect("something can be evicted");
    }
    assert_eq!(world.meta.stats().counters.evicted_keys, 1);
}

#[test]
fn no_more_sink_than_may_and_puts_wait_or_take_the_rest() {
    for forced in [false, true] {
        let mut world = full(Config {
            offloading_queue_limit: 2,
            offload_force_evict: forced,
            ..Config::default()
        });
        let started = world.start(ALICE, "4", LEN).map(|_| ());
        world.check();
        match forced {
            // The second victim is evicted without a copy.
            true => assert_eq!(started, Ok(())),
            false => assert_eq!(started, Err(MAKING_ROOM)),
        }
        let counters = world.meta.stats().counters;
        assert_eq!(counters.evictions_deferred, 1);
        assert_eq!(counters.evictions_forced, u64::from(forced));
        assert_eq!(world.fetch_tasks(ALICE).orders.len(), 1);
    }
}

#[test]
fn force_alone_counts_for_nothing() {
    let mut world = alone(Config { offload_force_evict: true, ..Config::default() });
    put_at(&mut world, "0", 1);
    assert_eq!(carry_out(&mut world, ALICE).len(), 1, "it is offloaded at once");
}

#[test]
fn the_watermark_counts_what_sinks_as_free() {
    let config = Config { eviction_high_watermark_ratio: 0.8, ..Config::default() };
    let mut world = sinking(Config { eviction_ratio: 0.3, ..config });
    for n in 0..4 {
        put_at(&mut world, &n.to_string(), 1);
        world.timeouts();
        world.check();
    }
    let counters = world.meta.stats().counters;
    assert_eq!(counters.evictions_deferred, 2, "down to half of it, and no more");
    assert_eq!(carry_out(&mut world, ALICE).len(), 2);
    assert_eq!(world.meta.segments()[0].used, 2 * LEN);
}

#[test]
fn each_member_of_a_group_sinks() {
    let mut world = sinking(Config::default());
    for n in 0..4 {
        world.put_member(&n.to_string(), LEN, "prompt").expect("there is room");
    }
    assert_eq!(world.start(ALICE, "4", LEN).map(|_| ()), Err(MAKING_ROOM));
    world.check();
    assert_eq!(carry_out(&mut world, ALICE).len(), 4);
    for n in 0..4 {
        assert_eq!(media(&mut world, &n.to_string()), [Medium::Disk], "{n}");
    }
}

#[test]
fn of_a_group_that_is_read_nothing_goes_whose_copy_failed() {
    let mut world = sinking(Config::default());
    for n in 0..4 {
        world.put_member(&n.to_string(), LEN, "prompt").expect("there is room");
    }
    assert_eq!(world.start(ALICE, "4", LEN).map(|_| ()), Err(MAKING_ROOM));
    let orders = world.fetch_tasks(ALICE).orders;
    world.get("1").expect("it can be read meanwhile");
    // The object that was read gives its full lease to the group. The other members' own leases are shorter.
    world.advance(7);
    let failing = orders.iter().find(|order| &*order.key == "0").expect("it sinks");
    assert_eq!(world.end_task(ALICE, failing.id, Err(ErrorCode::FileWriteFail)), Ok(()));
    world.check();
    assert!(world.holds("0"));
}

#[test]
fn an_object_that_sinks_can_be_removed_and_replaced() {
    let mut world = full(Config::default());
    assert_eq!(world.start(ALICE, "4", LEN).map(|_| ()), Err(MAKING_ROOM));
    world.remove("0", true).expect("it is there");
    world.check();
    world.put("4", LEN).expect("its memory is free");
    world.check();
}

#[test]
fn what_sinks_with_a_client_that_dies_is_gone_with_it() {
    let mut world = full(Config { client_ttl_ms: 100, ..Config::default() });
    assert_eq!(world.start(ALICE, "4", LEN).map(|_| ()), Err(MAKING_ROOM));
    assert!(world.meta.stats().offloads_under_way > 0);
    world.mount(BOB, 3, 4 * LEN).expect("it is new");
    world.check();
    for _ in 0..10 {
        world.ping(BOB, &[mooncake_types::SegmentId(3)]);
        world.advance(50);
        world.check();
    }
    assert_eq!((world.meta.stats().offloads_under_way, world.meta.stats().keys), (0, 0));
}

#[test]
fn what_is_to_be_copied_by_a_caller_gives_up_sinking() {
    let mut world = full(Config::default());
    world.mount(BOB, 3, 4 * LEN).expect("it is new");
    let near =
        ReplicateConfig { preferred_segments: vec!["node-1:12345"], ..ReplicateConfig::default() };
    for n in 4..8 {
        put_at(&mut world, &n.to_string(), 3);
    }
    let _ = world.start_with(ALICE, "8", LEN, near);
    let copy = |target| mooncake_types::CreateTask {
        key: "0",
        kind: mooncake_types::TaskKind::Copy,
        source: "",
        targets: vec![target],
    };
    assert_eq!(world.create_task(copy("node-2:12345")), Err(ErrorCode::NotSupported));
    world.create_task(copy("node-3:12345")).expect("it gives way");
    world.check();
    assert_ne!(media(&mut world, "0"), []);
}

const MIB: u64 = 1 << 20;

/// A node that copies 1 MiB per millisecond to its disk, and ends the task of each object when it is copied.
#[derive(Default)]
struct SlowDisk {
    orders: std::collections::VecDeque<mooncake_types::TaskOrder>,
}

impl SlowDisk {
    fn pass_millisecond(&mut self, world: &mut World) {
        self.orders.extend(world.fetch_tasks(ALICE).orders);
        world.advance(1);
        if let Some(order) = self.orders.pop_front() {
            assert_eq!(world.end_task(ALICE, order.id, Ok(())), Ok(()));
        }
    }
}

/// Puts objects of 1 MiB one after the other into memory of 50 MiB. Each put waits with the pauses of a client.
#[test]
fn objects_pass_through_full_memory_at_the_pace_of_the_disk() {
    let mut world = World::new(Config {
        offload: true,
        offload_on_evict: true,
        lease_ttl_ms: 5_000,
        ..Config::default()
    });
    world.mount(ALICE, 1, 50 * MIB).expect("it is new");
    world.mount_on(Medium::Disk, ALICE, 2, 4096 * MIB).expect("it is new");
    let (mut disk, begun) = (SlowDisk::default(), world.now);
    for n in 0..400 {
        let (key, mut pause) = (n.to_string(), 1);
        let placed = loop {
            match world.start(ALICE, &key, MIB) {
                Ok(placed) => break placed,
                Err(code) => assert_eq!(code, MAKING_ROOM),
            }
            (0..pause).for_each(|_| disk.pass_millisecond(&mut world));
            pause = (2 * pause).min(16);
        };
        world.end(ALICE, &key, &placed.what, 0).expect("it is written");
    }
    world.check();
    let took_ms = world.now.since_ms(begun);
    assert!((350..600).contains(&took_ms), "350 MiB took {took_ms} ms");
    for n in 0..400 {
        assert_ne!(media(&mut world, &n.to_string()), [], "{n}");
    }
    let counters = world.meta.stats().counters;
    assert_eq!((counters.evicted_keys, counters.allocation_failures), (0, 0));
}
