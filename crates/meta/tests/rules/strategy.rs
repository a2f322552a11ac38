//! The segments that each placement strategy selects.

use std::collections::BTreeMap;

use mooncake_meta::{Config, Strategy};
use mooncake_types::{
    ClientId, Epoch, Medium, MountOutcome, MountSegment, PutItem, PutMode, PutStart,
    ReplicateConfig, Reply, Request, SegmentId,
};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool_with};

fn with(strategy: Strategy) -> Config {
    Config { strategy, client_ttl_ms: u64::MAX / 2, ..Config::default() }
}

/// The standard deviation of the segments' fill ratios, in thousandths.
fn imbalance(world: &World) -> f64 {
    let segments = world.meta.segments();
    let fill: Vec<f64> = segments.iter().map(|it| it.used as f64 / it.capacity as f64).collect();
    let mean = fill.iter().sum::<f64>() / fill.len() as f64;
    let squares = fill.iter().map(|share| (share - mean) * (share - mean)).sum::<f64>();
    (squares / fill.len() as f64).sqrt() * 1_000.0
}

#[test]
fn free_ratio_first_fills_16_unequal_nodes_to_the_same_share() {
    let unequal: [fn(u64) -> u64; 3] = [
        |node| node,
        |node| if node <= 8 { 1 } else { 16 },
        |node| if node == 16 { 16 } else { 1 },
    ];
    for lens in unequal {
        let sum: u64 = (1..=16).map(lens).sum();
        let mut world = World::new(with(Strategy::FreeRatioFirst));
        for node in 1..=16 {
            // The puts fill nine tenths of the pool.
            let len = 100_000 * 4 * KIB * lens(node) * 10 / 9 / sum;
            world.mount(ALICE, node.into(), len).unwrap();
        }
        for number in 1..=100_000 {
            world.put(&format!("{number}"), 4 * KIB).unwrap();
            if number % 10_000 == 0 {
                let imbalance = imbalance(&world);
                assert!(imbalance <= 30.0, "{imbalance} thousandths after {number} puts");
            }
        }
        let imbalance = imbalance(&world);
        assert!(imbalance <= 3.0, "{imbalance} thousandths in the end");
        world.check();
    }
}

#[test]
fn local_first_takes_the_host_of_the_writer_and_then_the_next_by_name() {
    let mut world = World::new(with(Strategy::LocalFirst));
    let clients: Vec<ClientId> = (1..=4).map(|id| ClientId(100 + id)).collect();
    for (&client, id) in clients.iter().zip(1..) {
        world.mount(client, id, 64 * KIB).unwrap();
    }
    let put = |world: &mut World, from, key: &str| {
        world.put_with(from, key, 16 * KIB, ReplicateConfig::default()).unwrap();
        world.holders(key).remove(0)
    };
    let expected = ["3", "3", "3", "3", "4", "4", "4", "4", "1", "1", "1", "1", "2", "2", "2", "2"];
    for (number, host) in expected.iter().enumerate() {
        let name = put(&mut world, clients[2], &format!("{number}"));
        assert_eq!(name, format!("node-{host}:12345"), "put {number}");
    }
    world.advance(10_000);
    assert_eq!(put(&mut world, clients[2], "evicts"), "node-3:12345");
    assert_eq!(put(&mut world, clients[1], "evicts too"), "node-2:12345");
    // A client that lends no memory has no host of its own.
    let hosts: Vec<String> =
        (0..40).map(|number| put(&mut world, BOB, &format!("by nobody {number}"))).collect();
    assert!(hosts.iter().any(|host| *host != hosts[0]));
    world.check();
}

#[test]
fn local_first_places_only_the_first_replica_on_the_host_of_the_writer() {
    let mut world = World::new(with(Strategy::LocalFirst));
    for id in 1..=8 {
        world.mount(ClientId(100 + id), id, 1 << 20).unwrap();
    }
    let mut others = BTreeMap::new();
    for number in 0..60 {
        let key = format!("{number}");
        let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
        world.put_with(ClientId(105), &key, KIB, config).unwrap();
        let mut holders = world.holders(&key);
        let own = holders.iter().position(|name| name == "node-5:12345").expect("one is near");
        holders.remove(own);
        *others.entry(holders.remove(0)).or_insert(0) += 1;
    }
    assert_eq!(others.len(), 7, "{others:?}");
}

#[test]
fn objects_of_one_request_lie_together_where_that_is_asked_for() {
    let mut world = pool_with(8, 256 * KIB, with(Strategy::Random));
    let keys: Vec<String> = (0..24).map(|number| format!("{number}")).collect();
    let puts = keys.iter().map(|key| PutItem::new(key, 16 * KIB)).collect();
    let config = ReplicateConfig { same_node: true, ..ReplicateConfig::default() };
    let start = PutStart { puts, config, mode: PutMode::Insert };
    let reply = world.ask(ALICE, &Request::PutStart(start));
    let Reply::Granted { results, .. } = reply else { panic!("{reply:?}") };
    let segments: Vec<u32> =
        results.into_iter().map(|grant| grant.unwrap().placements[0].segment).collect();
    // One segment has room for 16 objects.
    assert_eq!(segments, [[0; 16].as_slice(), &[1; 8]].concat());
    world.check();
}

/// Puts keys with these numbers, and counts those that go to the newest segment.
fn puts_to(world: &mut World, newest: &str, numbers: std::ops::Range<u32>) -> u32 {
    let mut count = 0;
    for number in numbers {
        let key = format!("{number}");
        world.put(&key, 16 * KIB).unwrap();
        count += u32::from(world.holders(&key) == [newest]);
    }
    count
}

#[test]
fn a_new_segment_of_a_full_pool_ramps_up_instead_of_taking_all_puts() {
    for strategy in [Strategy::Random, Strategy::FreeRatioFirst] {
        let mut world = pool_with(31, 1_024 * KIB, with(strategy));
        puts_to(&mut world, "", 0..31 * 64);
        world.advance(60_000);
        world.mount(ALICE, 32, 64 << 20).unwrap();
        let newest = "node-32:12345";
        let mut shares = Vec::new();
        for step in 0..5_u32 {
            let first = 10_000 + 1_000 * step;
            shares.push(puts_to(&mut world, newest, first..first + 640));
            world.advance(10_000);
        }
        // At first four times its share of 20, then twice as many each time.
        let expected = [80, 160, 320, 640, 640];
        for (share, expected) in shares.iter().zip(expected) {
            assert!(share.abs_diff(expected) <= expected / 3, "{strategy:?}: {shares:?}");
        }
        assert_eq!(shares[4], 640, "{strategy:?}");
        world.check();
    }
}

#[test]
fn a_new_segment_takes_what_nothing_can_be_evicted_for() {
    let mut world = pool_with(15, 64 * KIB, with(Strategy::Random));
    for number in 0..15 * 4 {
        let config = ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
        world.put_with(ALICE, &format!("{number}"), 16 * KIB, config).unwrap();
    }
    world.mount(ALICE, 16, 1 << 20).unwrap();
    assert_eq!(puts_to(&mut world, "node-16:12345", 100..140), 40);
    world.check();
}

#[test]
fn segments_of_a_new_pool_are_not_held_back() {
    let mut world = pool_with(1, 64 * KIB, with(Strategy::Random));
    for id in 2..=20 {
        world.mount(ALICE, id, 1 << 20).unwrap();
    }
    for number in 0..19 * 64 {
        world.put(&format!("{number}"), 16 * KIB).unwrap();
    }
    assert_eq!(world.meta.stats().counters.evicted_keys, 0);
}

/// Mounts a segment at this endpoint.
fn mount_at(world: &mut World, id: u128, endpoint: &str) {
    let mount = MountSegment {
        id: SegmentId(id),
        name: endpoint,
        endpoint,
        len: 256 * KIB,
        seen_epoch: Epoch(0),
        is_empty: true,
        run: 1,
        medium: Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    let reply = world.ask(ClientId(100 + id), &Request::MountSegment(mount));
    assert_eq!(reply, Reply::Mounted(MountOutcome::Ready));
}

#[test]
fn replicas_lie_on_several_hosts_as_long_as_there_are_some_even_if_that_evicts() {
    let mut world = World::new(with(Strategy::Random));
    for (id, endpoint) in (1..).zip(["a:1", "a:2", "a:3", "a:4", "b:1"]) {
        mount_at(&mut world, id, endpoint);
    }
    let config = |replica_num| ReplicateConfig { replica_num, ..ReplicateConfig::default() };
    let hosts = |world: &World, key: &str| -> String {
        world.holders(key).iter().map(|name| &name[..1]).collect()
    };
    for number in 0..40 {
        let key = format!("{number}");
        world.put_with(ALICE, &key, 16 * KIB, config(2)).unwrap();
        assert_eq!(hosts(&world, &key), "ab", "{key}");
    }
    assert!(world.meta.stats().counters.evicted_bytes > 0, "one host has room for 16 of them");
    // There are only two hosts.
    world.put_with(ALICE, "three", 16 * KIB, config(3)).unwrap();
    assert_eq!(hosts(&world, "three"), "aab");
    // The preferred segments of a caller take precedence.
    let named = ReplicateConfig { preferred_segments: vec!["a:1", "a:2"], ..config(2) };
    world.put_with(ALICE, "named", 16 * KIB, named).unwrap();
    assert_eq!(hosts(&world, "named"), "aa");
    world.check();
}
