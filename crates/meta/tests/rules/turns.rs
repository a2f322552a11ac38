//! What one turn of the master's thread does at most.

use mooncake_meta::Config;
use mooncake_types::{ClientId, DrainStatus, ReplicateConfig};

use crate::KIB;
use crate::drain::{A, B, HOSTS, carry, drain, order, put_on, report, world, world_with};
use crate::world::{ALICE, BOB, World};

/// More than one turn tries.
const UNITS: u64 = 1_000;

#[test]
fn units_without_room_are_tried_a_few_hundred_a_turn_and_none_when_tasks_are_fetched() {
    let mut world = World::new(Config { eviction_high_watermark_ratio: 1.0, ..Config::default() });
    world.mount(ALICE, 1, UNITS * KIB).expect("the segment is a new one");
    world.mount(BOB, 2, 64 * KIB).expect("the segment is a new one");
    put_on(&mut world, "b", 64 * KIB, &[B]);
    for number in 0..UNITS {
        put_on(&mut world, &format!("k{number}"), KIB, &[A]);
    }
    world.meta.start_drain(world.now, &order(&[A], &[], 4)).expect("the order makes sense");
    let failures = |world: &World| world.meta.stats().counters.drain_failures;
    let mut turns = 0;
    while failures(&world) < UNITS {
        let before = failures(&world);
        assert_eq!(world.meta.poll_timeout(), Some(world.now), "there is more to do");
        world.meta.handle_timeout(world.now);
        assert!(failures(&world) - before <= 256, "{} in one turn", failures(&world) - before);
        let before = failures(&world);
        assert!(world.fetch_tasks(ALICE).orders.is_empty());
        assert_eq!(failures(&world), before);
        turns += 1;
    }
    assert!((4..20).contains(&turns), "{turns}");
    world.check();
}

#[test]
fn a_drain_looks_only_at_the_ranges_of_its_own_segments() {
    let mut world = World::new(Config { eviction_high_watermark_ratio: 1.0, ..Config::default() });
    world.mount(BOB, 2, 40_000 * KIB).expect("the segment is a new one");
    for number in 0..20_000 {
        world.put(&format!("b{number}"), KIB).expect("there is room");
    }
    world.mount(ALICE, 1, 64 * KIB).expect("the segment is a new one");
    put_on(&mut world, "a", KIB, &[A]);
    world.meta.start_drain(world.now, &order(&[A], &[], 4)).expect("the order makes sense");
    world.meta.handle_timeout(world.now);
    assert_eq!(world.fetch_tasks(ALICE).orders.len(), 1, "the first turn has come to it");
}

/// Segments of 64 KiB that are full, except for the last.
fn nearly_full(segments: u128, last: ClientId) -> World {
    let mut world = world_with(Config {
        eviction_high_watermark_ratio: 1.0,
        client_ttl_ms: 60_000,
        ..Config::default()
    });
    for id in 4..=segments {
        let client = if id == segments { last } else { ClientId(id) };
        world.mount(client, id, 64 * KIB).expect("the segment is a new one");
    }
    for id in 2..segments {
        let name = format!("node-{id}:12345");
        let on = ReplicateConfig { preferred_segments: vec![&name], ..ReplicateConfig::default() };
        world.put_with(ALICE, &format!("full-{id}"), 64 * KIB, on).expect("there is room");
    }
    world
}

#[test]
fn the_one_segment_with_room_is_found_among_hundreds_that_are_full() {
    let mut world = nearly_full(400, BOB);
    put_on(&mut world, "k", 16 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(report(&world, id).status, DrainStatus::Succeeded);
    assert_eq!(world.holders("k"), ["node-400:12345"]);
}

#[test]
fn a_lost_replica_finds_the_one_segment_with_room_among_hundreds_that_are_full() {
    let mut world = nearly_full(400, BOB);
    let names = [A, "node-400:12345"];
    let config = ReplicateConfig {
        replica_num: 2,
        preferred_segments: names.to_vec(),
        ..ReplicateConfig::default()
    };
    world.put_with(ALICE, "k", 16 * KIB, config).expect("there is room");
    world.remove("full-250", false).expect("nobody reads it");
    world.fetch_drops(ClientId(250));
    for _ in 0..4 {
        world.advance(20_000);
        for client in 1..400 {
            world.ping(ClientId(client), &[]);
        }
    }
    world.unmount(ALICE, 1, 0).expect("it is Alice's");
    world.timeouts();
    for order in world.fetch_tasks(BOB).orders {
        assert_eq!(world.end_task(BOB, order.id, Ok(())), Ok(()));
    }
    assert_eq!(world.holders("k"), ["node-250:12345", "node-400:12345"]);
    world.check();
}

#[test]
fn due_work_of_one_kind_does_not_keep_back_that_of_another() {
    let mut world = world();
    let put_discard_ms = Config::default().put_discard_ms;
    for number in 0..3_000 {
        let host = HOSTS[number % 3];
        world.start(host, &format!("k{number}"), 8).expect("there is room");
    }
    world.now = world.now.after_ms(put_discard_ms);
    world.meta.start_drain(world.now, &order(&[A], &[], 4)).expect("the order makes sense");
    let running = |world: &World| world.meta.stats().running_puts;
    for _ in 0..9 {
        world.meta.handle_timeout(world.now);
    }
    assert!((1..2_800).contains(&running(&world)), "{} are left", running(&world));
    assert!(world.meta.running_drains().iter().any(|job| job.status == DrainStatus::Running));
    world.timeouts();
    assert_eq!(running(&world), 0);
    world.check();
}
