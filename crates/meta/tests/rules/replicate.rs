//! Objects that are read often get more replicas.

use mooncake_meta::{Config, Notice, Replication, ReplicationMode};
use mooncake_types::{ClientId, ReplicateConfig, Reply, Request};

use crate::KIB;
use crate::world::{ALICE, BOB, World};

const CAROL: ClientId = ClientId(3);
const HOSTS: [ClientId; 3] = [ALICE, BOB, CAROL];

fn node(number: u128) -> String {
    format!("node-{number}:12345")
}

fn config(mode: ReplicationMode) -> Config {
    Config { replication: Replication { mode, ..Replication::default() }, ..Config::default() }
}

/// One segment for each host, and `k` of 16 KiB on the first.
fn world(config: Config) -> World {
    let mut world = World::new(config);
    for (id, host) in (1..).zip(HOSTS) {
        world.mount(host, id, 64 * KIB).expect("the segment is a new one");
    }
    put_on(&mut world, "k", 16 * KIB, 1);
    world
}

fn hot_world() -> World {
    let mut world = world(config(ReplicationMode::Enforce));
    read(&mut world, "k", 8);
    assert_eq!(carry_out(&mut world), 1);
    world
}

fn put_on(world: &mut World, key: &str, len: u64, number: u128) {
    let name = node(number);
    let config = ReplicateConfig { preferred_segments: vec![&name], ..ReplicateConfig::default() };
    world.put_with(ALICE, key, len, config).expect("there is room");
}

fn read(world: &mut World, key: &str, times: u32) {
    for _ in 0..times {
        world.get(key).expect("it is there");
    }
    world.check();
}

fn live(world: &mut World, ms: u64) {
    for _ in 0..ms.div_ceil(1_000) {
        world.advance(1_000);
        for host in HOSTS {
            world.ping(host, &[]);
        }
        world.check();
    }
}

/// Ends all tasks with success. Returns how many copies were made.
fn carry_out(world: &mut World) -> usize {
    let mut made = 0;
    for host in HOSTS {
        for order in world.fetch_tasks(host).orders {
            assert_eq!(world.end_task(host, order.id, Ok(())), Ok(()));
            made += 1;
            world.check();
        }
    }
    made
}

#[test]
fn an_object_that_is_read_often_gets_one_more_replica() {
    let mut world = world(config(ReplicationMode::Enforce));
    read(&mut world, "k", 7);
    assert_eq!(carry_out(&mut world), 0, "not often enough");
    world.advance(10_000);
    read(&mut world, "k", 7);
    assert_eq!(carry_out(&mut world), 0, "another window");
    read(&mut world, "k", 1);
    assert_eq!(world.meta.stats().replications_under_way, 1);
    assert_eq!(carry_out(&mut world), 1);
    let holders = world.holders("k");
    assert_eq!((holders.len(), &holders[0]), (2, &node(1)));
    let [Notice::Hot { key, replicas: 1, target: Some(target) }] = &world.work_notices()[..] else {
        panic!("one notice")
    };
    assert_eq!((&**key, &**target), ("k", &*holders[1]));
    live(&mut world, 60_000);
    read(&mut world, "k", 100);
    assert_eq!(carry_out(&mut world), 0, "two are enough");
    let stats = world.meta.stats();
    assert_eq!((stats.extra_replica_objects, stats.replications_under_way), (1, 0));
    let counters = stats.counters;
    assert_eq!((counters.replications.made, counters.replications.bytes), (1, 16 * KIB));
}

#[test]
fn an_extra_replica_stays_while_it_stands_in_for_one_that_was_just_lost() {
    let mut world = World::new(config(ReplicationMode::Enforce));
    for (id, host) in (1..).zip(HOSTS) {
        world.mount(host, id, 64 * KIB).expect("the segment is a new one");
    }
    let name = node(1);
    let hard_pin = true;
    let on_first =
        ReplicateConfig { preferred_segments: vec![&name], hard_pin, ..Default::default() };
    world.put_with(ALICE, "k", 16 * KIB, on_first).expect("there is room");
    read(&mut world, "k", 8);
    assert_eq!(carry_out(&mut world), 1);
    live(&mut world, 10_000);
    let number = if world.holders("k")[1] == node(2) { 2 } else { 3 };
    world.unmount(ALICE, 1, 0).expect("it is Alice's");
    // The master has not yet gone through the ranges of that segment.
    put_on(&mut world, "large", 56 * KIB, number);
    assert_eq!(world.holders("k"), [node(number)], "it is pinned");
    world.timeouts();
    world.check();
    assert_eq!(world.holders("k"), [node(number)]);
}

#[test]
fn reads_by_routes_that_a_client_has_count_as_often_as_it_says() {
    let mut world = world(config(ReplicationMode::Enforce));
    put_on(&mut world, "l", KIB, 2);
    for (uses, made) in [(vec![3, 0], 0), (vec![4, 7], 0), (vec![1, 0], 1), (vec![0, 1], 1)] {
        let renew = Request::RenewRoutes { keys: vec!["k", "l"], uses };
        let Reply::Located { results, .. } = world.ask(BOB, &renew) else { panic!("no routes") };
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(carry_out(&mut world), made);
    }
    assert_eq!((world.holders("k").len(), world.holders("l").len()), (2, 2));
}

#[test]
fn who_only_observes_makes_none_and_who_is_off_does_not_count() {
    let mut world = world(config(ReplicationMode::Observe));
    read(&mut world, "k", 100);
    let notices = world.work_notices();
    assert_eq!(notices, [Notice::Hot { key: "k".into(), replicas: 1, target: None }]);
    assert_eq!((carry_out(&mut world), world.meta.stats().counters.hot_objects), (0, 1));
    live(&mut world, 29_000);
    read(&mut world, "k", 8);
    assert_eq!(world.work_notices(), [], "too soon");
    live(&mut world, 1_000);
    read(&mut world, "k", 8);
    assert_eq!(world.work_notices().len(), 1);
    let mut world = self::world(config(ReplicationMode::Off));
    read(&mut world, "k", 100);
    assert_eq!(world.work_notices(), []);
    assert_eq!((carry_out(&mut world), world.meta.stats().counters.hot_objects), (0, 0));
}

#[test]
fn no_more_replicas_are_made_than_allowed() {
    let mut enforcing = config(ReplicationMode::Enforce);
    enforcing.replication.max_replicas = 3;
    let mut world = world(enforcing);
    for (replicas, made) in [(2, 1), (3, 1), (3, 0), (3, 0)] {
        read(&mut world, "k", 8);
        assert_eq!(carry_out(&mut world), made);
        assert_eq!(world.holders("k").len(), replicas);
        read(&mut world, "k", 8);
        assert_eq!(carry_out(&mut world), 0, "one at a time");
        live(&mut world, 30_000);
    }
}

#[test]
fn what_nobody_asked_for_is_evicted_first() {
    let mut world = hot_world();
    let extra = world.holders("k")[1].clone();
    let number = if extra == node(2) { 2 } else { 3 };
    world.advance(1_000);
    // This object is older than the last read of the extra replica, but a client has put it.
    put_on(&mut world, "asked", 40 * KIB, number);
    world.advance(9_000);
    for full in (1..=3).filter(|&full| full != number) {
        let len = if full == 1 { 48 } else { 64 };
        put_on(&mut world, &format!("full {full}"), len * KIB, full);
    }
    put_on(&mut world, "new", 16 * KIB, number);
    world.check();
    assert_eq!(world.holders("k"), [node(1)]);
    let counters = world.meta.stats().counters;
    assert_eq!((counters.extra_replicas_evicted, counters.evicted_keys), (1, 0));
    assert_eq!(world.meta.stats().extra_replica_objects, 0);
    // The master makes no new copy of the key for a while, although there is room again.
    world.remove("new", true).unwrap();
    world.remove("asked", true).unwrap();
    live(&mut world, 10_000);
    let early = world.now.after_ms(40_000);
    while world.now < early {
        live(&mut world, 4_000);
        read(&mut world, "k", 20);
        assert_eq!(carry_out(&mut world), 0);
    }
    live(&mut world, 10_000);
    read(&mut world, "k", 20);
    assert_eq!(carry_out(&mut world), 1);
}

#[test]
fn what_is_being_read_is_not_evicted_and_the_last_replica_is_not_extra() {
    let mut world = hot_world();
    assert_eq!(world.meta.stats().extra_replica_objects, 1);
    world.unmount(ALICE, 1, 0).unwrap();
    world.timeouts();
    world.check();
    assert_eq!(world.meta.stats().extra_replica_objects, 0, "it is all that there is");
    assert_eq!((world.holders("k").len(), world.meta.stats().short_objects), (1, 0));
    // The remaining replica has a lease, so the put evicts `a` or `b`.
    let refused = ReplicateConfig::default();
    put_on(&mut world, "a", 40 * KIB, 2);
    put_on(&mut world, "b", 40 * KIB, 3);
    assert!(world.put_with(ALICE, "c", 50 * KIB, refused).is_ok(), "a or b gave way");
    assert!(world.version("k").is_some());
}

#[test]
fn copies_leave_room() {
    let mut world = world(config(ReplicationMode::Enforce));
    put_on(&mut world, "x", 48 * KIB, 2);
    // 39 and 16 of 64 KiB exceed 85 %.
    put_on(&mut world, "y", 39 * KIB, 3);
    read(&mut world, "k", 100);
    assert_eq!(carry_out(&mut world), 0);
    world.remove("y", true).unwrap();
    live(&mut world, 6_000);
    put_on(&mut world, "y", 38 * KIB, 3);
    read(&mut world, "k", 100);
    assert_eq!((carry_out(&mut world), world.holders("k")), (1, vec![node(1), node(3)]));
}

#[test]
fn nobody_is_refused_for_the_sake_of_a_copy() {
    for force in [false, true] {
        let mut world = world(config(ReplicationMode::Enforce));
        read(&mut world, "k", 8);
        let orders = world.fetch_tasks(ALICE).orders;
        live(&mut world, 6_000);
        assert_eq!(world.remove("k", force), Ok(()));
        world.check();
        assert_eq!(world.end_task(ALICE, orders[0].id, Ok(())), Ok(()));
        world.check();
        let stats = world.meta.stats();
        assert_eq!((stats.replications_under_way, stats.counters.replications.failed), (0, 1));
        assert_eq!(world.version("k"), None);
    }
}

#[test]
fn a_lost_replica_is_replaced_by_the_extra_one() {
    let mut enforcing = config(ReplicationMode::Enforce);
    enforcing.replication.max_replicas = 3;
    let mut world = World::new(enforcing);
    for id in 1..=4 {
        world.mount(HOSTS[id as usize % 3], id, 64 * KIB).unwrap();
    }
    let two = ReplicateConfig {
        replica_num: 2,
        preferred_segments: vec!["node-1:12345", "node-2:12345"],
        ..ReplicateConfig::default()
    };
    world.put_with(ALICE, "k", KIB, two).unwrap();
    read(&mut world, "k", 8);
    assert_eq!((carry_out(&mut world), world.holders("k").len()), (1, 3));
    assert_eq!(world.meta.stats().extra_replica_objects, 1);
    world.unmount(HOSTS[1], 1, 0).unwrap();
    world.timeouts();
    world.check();
    let stats = world.meta.stats();
    assert_eq!((stats.extra_replica_objects, stats.short_objects), (0, 0));
    assert_eq!(world.holders("k").len(), 2);
}
