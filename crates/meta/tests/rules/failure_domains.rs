//! Replicas of an object lie in different failure domains, as far as there are enough.

use std::collections::BTreeSet;

use mooncake_meta::{Config, Meta, RecordedMembers, Strategy};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, Medium, MountOutcome, MountSegment, ReplicateConfig, Reply,
    Request, SegmentId, Tick, limits,
};

use crate::KIB;
use crate::drain::drain;
use crate::world::{ALICE, BOB, World};

const STRATEGIES: [Strategy; 3] =
    [Strategy::Random, Strategy::LocalFirst, Strategy::FreeRatioFirst];

fn with(strategy: Strategy) -> Config {
    Config { strategy, client_ttl_ms: u64::MAX / 2, ..Config::default() }
}

/// Mounts a segment with its own client, as `node-ID:12345`, in these domains.
fn mount(world: &mut World, id: u128, len: u64, domains: &[&str]) {
    let client = ClientId(100 + id);
    world.mount_in(Medium::Memory, client, id, len, domains).expect("the segment is a new one");
}

fn put(world: &mut World, key: &str, len: u64, replica_num: u32) {
    let config = ReplicateConfig { replica_num, ..ReplicateConfig::default() };
    world.put_with(ALICE, key, len, config).expect("there is room");
}

/// Puts an object with a replica on each of these segments.
fn put_on(world: &mut World, key: &str, len: u64, segments: &[&str]) {
    let (replica_num, preferred_segments) = (segments.len() as u32, segments.to_vec());
    let config = ReplicateConfig { replica_num, preferred_segments, ..ReplicateConfig::default() };
    world.put_with(ALICE, key, len, config).expect("there is room");
}

/// For each replica, its failure domain of this kind.
fn domains_of(world: &World, key: &str, name: &str) -> Vec<String> {
    let segments = world.meta.segments();
    let domain = |holder: &String| {
        let segment = segments.iter().find(|it| *it.name == **holder).expect("it is mounted");
        segment.domains.iter().find(|it| it.starts_with(name)).map(ToString::to_string)
    };
    let mut found: Vec<String> = world.holders(key).iter().filter_map(domain).collect();
    found.sort_unstable();
    found
}

/// Racks with this many segments each, mounted rack by rack.
fn racks(config: Config, count: u128, segments: u128, len: u64) -> World {
    let mut world = World::new(config);
    for id in 0..count * segments {
        mount(&mut world, id + 1, len, &[&format!("rack={}", id / segments)]);
    }
    world
}

#[test]
fn replicas_lie_in_several_racks_as_long_as_there_are_some_even_if_that_evicts() {
    for strategy in STRATEGIES {
        let mut world = World::new(with(strategy));
        for id in 1..=4 {
            mount(&mut world, id, 256 * KIB, &["rack=a"]);
        }
        mount(&mut world, 5, 256 * KIB, &["rack=b"]);
        for number in 0..40 {
            let key = format!("{number}");
            put(&mut world, &key, 16 * KIB, 2);
            assert_eq!(domains_of(&world, &key, "rack"), ["rack=a", "rack=b"], "{strategy:?}");
        }
        assert!(world.meta.stats().counters.evicted_bytes > 0, "one rack has room for 16 of them");
        // There are only two racks, but three hosts.
        put(&mut world, "three", 16 * KIB, 3);
        assert_eq!(domains_of(&world, "three", "rack"), ["rack=a", "rack=a", "rack=b"]);
        assert_eq!(world.holders("three").iter().collect::<BTreeSet<_>>().len(), 3);
        world.check();
    }
}

#[test]
fn the_widest_domain_is_shared_first_and_a_host_last() {
    let places = [
        ("1", ["rack=1", "zone=east"]),
        ("2", ["rack=1", "zone=east"]),
        ("3", ["rack=2", "zone=east"]),
        ("4", ["rack=3", "zone=west"]),
    ];
    let mut world = World::new(with(Strategy::Random));
    for (id, domains) in places {
        mount(&mut world, id.parse().expect("a number"), 1 << 20, &domains);
    }
    for number in 0..20 {
        let key = |replicas: u32| format!("{number} {replicas}");
        for replicas in 2..=4 {
            put(&mut world, &key(replicas), KIB, replicas);
        }
        assert_eq!(domains_of(&world, &key(2), "zone"), ["zone=east", "zone=west"]);
        assert_eq!(domains_of(&world, &key(3), "rack"), ["rack=1", "rack=2", "rack=3"]);
        assert_eq!(world.holders(&key(4)).len(), 4);
    }
    world.check();
}

#[test]
fn a_full_rack_is_no_reason_to_refuse_a_replica() {
    let mut world = racks(with(Strategy::Random), 2, 2, 64 * KIB);
    for segment in ["node-3:12345", "node-4:12345"] {
        let preferred_segments = vec![segment];
        let pinned =
            ReplicateConfig { hard_pin: true, preferred_segments, ..ReplicateConfig::default() };
        world.put_with(ALICE, segment, 64 * KIB, pinned).expect("it is empty");
    }
    put(&mut world, "k", 16 * KIB, 2);
    assert_eq!(world.holders("k"), ["node-1:12345", "node-2:12345"]);
}

/// How often each segment receives a replica that is not the object's first.
fn second_replicas(world: &mut World, puts: u32) -> Vec<u32> {
    let mut counts = vec![0; world.meta.segments().len()];
    for number in 0..puts {
        let key = format!("{number}");
        put(world, &key, KIB, 2);
        assert_eq!(domains_of(world, &key, "rack").iter().collect::<BTreeSet<_>>().len(), 2);
        let found = world.get(&key).expect("it is there");
        let second = found.what.placements[1].segment as usize;
        counts[found.segments[second].id.0 as usize - 1] += 1;
    }
    counts
}

#[test]
fn the_segment_behind_a_rack_gets_no_more_replicas_than_the_others() {
    for strategy in [Strategy::Random, Strategy::FreeRatioFirst] {
        let mut world = racks(with(strategy), 2, 100, 4 << 20);
        let counts = second_replicas(&mut world, 4_000);
        // The expected count is 20 each.
        assert!(counts.iter().all(|count| (4..=45).contains(count)), "{strategy:?}: {counts:?}");
        world.check();
    }
}

#[test]
fn replicas_lie_in_as_many_racks_and_on_as_many_hosts_as_there_are() {
    let mut random = 1_u64;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % bound
    };
    for seed in 0..60 {
        let mut world = World::new(Config { seed, ..with(STRATEGIES[seed as usize % 3]) });
        let (segments, racks) = (1 + below(40), 1 + below(8));
        let (mut hosts_used, mut racks_used) = (BTreeSet::new(), BTreeSet::new());
        for id in 1..=segments {
            let (host, rack) = (below(segments), below(racks));
            // All segments of a host lie in its rack.
            let (host, domains) = (format!("h{rack}-{host}:{id}"), [format!("rack={rack}")]);
            let mount = MountSegment {
                id: SegmentId(id.into()),
                name: &host,
                endpoint: &host,
                len: 1 << 20,
                seen_epoch: Epoch(0),
                is_empty: true,
                run: 1,
                medium: Medium::Memory,
                domains: &domains,
                seal_key: None,
            };
            let reply = world.ask(ClientId(u128::from(id) + 100), &Request::MountSegment(mount));
            assert_eq!(reply, Reply::Mounted(MountOutcome::Ready));
            racks_used.insert(rack);
            hosts_used.insert(host.split(':').next().expect("a host").to_owned());
        }
        for number in 0..30 {
            let (key, replicas) = (format!("{number}"), 1 + below(5) as u32);
            put(&mut world, &key, KIB, replicas);
            let holders = world.holders(&key);
            let hosts: BTreeSet<&str> =
                holders.iter().map(|name| name.split(':').next().expect("a host")).collect();
            let racks: BTreeSet<String> = domains_of(&world, &key, "rack").into_iter().collect();
            let most = |there: usize| there.min(replicas as usize);
            assert_eq!(racks.len(), most(racks_used.len()), "seed {seed}: {holders:?}");
            assert_eq!(hosts.len(), most(hosts_used.len()), "seed {seed}: {holders:?}");
        }
        world.check();
    }
}

#[test]
fn a_repair_looks_for_another_rack_all_over_the_pool() {
    // More segments than the master examines for one copy.
    let mut world = racks(Config::default(), 2, 100, 1 << 20);
    let members: Vec<u128> = (1..=200).collect();
    let live = |world: &mut World, ms: u64| {
        for _ in 0..ms / 500 {
            world.advance(500);
            for &id in &members {
                world.ping(ClientId(100 + id), &[]);
            }
        }
    };
    // Before this, a node may still report what an older leader has granted.
    live(&mut world, 20_000);
    for number in 0..8 {
        put_on(&mut world, &format!("{number}"), KIB, &["node-1:12345", "node-101:12345"]);
    }
    world.unmount(ClientId(101), 1, 0).expect("it is mounted");
    live(&mut world, 2_000);
    for &id in &members {
        let client = ClientId(100 + id);
        for order in world.fetch_tasks(client).orders {
            assert_eq!(world.end_task(client, order.id, Ok(())), Ok(()));
        }
    }
    for number in 0..8 {
        let racks = domains_of(&world, &format!("{number}"), "rack");
        assert_eq!(racks, ["rack=0", "rack=1"], "{:?}", world.holders(&format!("{number}")));
    }
    world.check();
}

#[test]
fn a_drain_moves_a_replica_to_a_rack_that_has_none() {
    let mut world = World::new(with(Strategy::Random));
    for (id, rack) in [(1, "rack=a"), (2, "rack=b"), (3, "rack=b"), (4, "rack=c")] {
        mount(&mut world, id, 1 << 20, &[rack]);
    }
    // The emptiest segment by far lies in the rack of the other replica.
    put_on(&mut world, "fuller", 500 * KIB, &["node-4:12345"]);
    put_on(&mut world, "k", KIB, &["node-1:12345", "node-2:12345"]);
    drain(&mut world, &["node-1:12345"], &[]);
    for _ in 0..4 {
        world.timeouts();
        for id in 1..=4 {
            let client = ClientId(100 + id);
            for task in world.fetch_tasks(client).orders {
                assert_eq!(world.end_task(client, task.id, Ok(())), Ok(()));
            }
        }
    }
    assert_eq!(domains_of(&world, "k", "rack"), ["rack=b", "rack=c"]);
}

/// A mount of the same segment with this run number.
fn mount_of(run: u64, domains: &[String]) -> MountSegment<'_> {
    MountSegment {
        id: SegmentId(1),
        name: "a:1",
        endpoint: "a:1",
        len: 1 << 20,
        seen_epoch: Epoch(9),
        is_empty: false,
        run,
        medium: Medium::Memory,
        domains,
        seal_key: None,
    }
}

#[test]
fn a_new_leader_learns_the_domains_from_the_mounts() {
    let record = RecordedMembers { fresh: true, members: vec![], ..RecordedMembers::default() };
    let now = Tick(1_000);
    let mut world = World { meta: Meta::recover(Config::default(), Epoch(9), now, &record), now };
    let domains = ["rack=a".to_owned(), "zone=east".to_owned()];
    let known = |world: &World| -> Vec<String> {
        world.meta.segments()[0].domains.iter().map(ToString::to_string).collect()
    };
    let mut take = |mount: &MountSegment<'_>| {
        for effect in world.meta.effects_before(mount) {
            world.meta.handle_recorded(world.now, effect);
        }
        let reply = world.ask(BOB, &Request::MountSegment(*mount));
        assert!(matches!(reply, Reply::Mounted(_)), "{reply:?}");
        world.check();
        known(&world)
    };
    assert_eq!(take(&mount_of(1, &domains)), domains);
    assert_eq!(take(&mount_of(1, &domains)), domains);
    // The next process may name other domains.
    assert_eq!(take(&mount_of(2, &domains[1..])), ["zone=east"]);
    assert_eq!(take(&mount_of(2, &[])), [""; 0]);
}

#[test]
fn domains_that_make_no_sense_are_refused() {
    let long = format!("rack={}", "7".repeat(limits::MAX_DOMAIN_BYTES));
    let many: Vec<String> = (0..=limits::MAX_DOMAINS).map(|n| format!("level-{n}=1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut world = World::new(Config::default());
    for domains in [&["rack"][..], &["=7"], &["rack="], &[""], &[&long], &many] {
        let refused = world.mount_in(Medium::Memory, ALICE, 1, 1 << 20, domains);
        assert_eq!(refused, Err(ErrorCode::InvalidParams), "{domains:?}");
    }
    assert_eq!(world.mount_in(Medium::Memory, ALICE, 1, 1 << 20, &many[1..]), Ok(()));
}
