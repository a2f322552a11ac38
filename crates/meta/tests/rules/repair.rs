//! Replicas that were lost with their nodes are made again.

use mooncake_meta::{Config, Member, Meta, Notice, RecordedMembers};
use mooncake_types::{
    ClientId, CreateTask, Epoch, ErrorCode, InventoryEntry, InventoryPage, MountSegment, PutMode,
    ReplicateConfig, Reply, Request, SegmentId, TaskKind, Tick, Version,
};

use crate::KIB;
use crate::world::{ALICE, BOB, World};

const CAROL: ClientId = ClientId(3);
const DAVE: ClientId = ClientId(4);
const HOSTS: [ClientId; 4] = [ALICE, BOB, CAROL, DAVE];

fn node(number: u128) -> String {
    format!("node-{number}:12345")
}

/// One segment for each host, `node-1:12345` to `node-4:12345`, after the time in which unknown nodes may report.
fn world_with(config: Config) -> World {
    let mut world = World::new(config);
    for (id, host) in (1..).zip(HOSTS) {
        world.mount(host, id, 64 * KIB).expect("the segment is a new one");
    }
    live(&mut world, 20_000, &HOSTS);
    world
}

fn world() -> World {
    world_with(Config::default())
}

/// Advances the time, while these clients ping.
fn live(world: &mut World, ms: u64, hosts: &[ClientId]) {
    for _ in 0..ms.div_ceil(1_000) {
        world.advance(1_000);
        for &host in hosts {
            world.ping(host, &[]);
        }
        world.timeouts();
        world.check();
    }
}

/// Puts an object with a replica on each of these nodes.
fn put_on(world: &mut World, key: &str, len: u64, nodes: &[u128]) {
    let names: Vec<String> = nodes.iter().map(|&number| node(number)).collect();
    let config = ReplicateConfig {
        replica_num: nodes.len() as u32,
        preferred_segments: names.iter().map(String::as_str).collect(),
        ..ReplicateConfig::default()
    };
    world.put_with(ALICE, key, len, config).expect("there is room");
    assert_eq!(world.holders(key), names);
}

fn lose(world: &mut World, number: u128) {
    let host = HOSTS[number as usize - 1];
    world.unmount(host, number, 0).expect("it is mounted");
    world.timeouts();
    world.check();
}

/// Fetches the tasks of all hosts: client, task and key of each.
fn fetch(world: &mut World) -> Vec<(ClientId, mooncake_types::TaskId, String)> {
    let mut all = Vec::new();
    for host in HOSTS {
        let orders = world.fetch_tasks(host).orders;
        all.extend(orders.into_iter().map(|order| (host, order.id, order.key)));
    }
    world.check();
    all
}

/// Ends all tasks with success. Returns how many copies were made.
fn carry_out(world: &mut World) -> usize {
    let mut made = 0;
    loop {
        let tasks = fetch(world);
        if tasks.is_empty() {
            return made;
        }
        for (host, id, _) in tasks {
            assert_eq!(world.end_task(host, id, Ok(())), Ok(()));
            made += 1;
            world.timeouts();
            world.check();
        }
    }
}

#[test]
fn a_lost_replica_is_made_anew_where_there_is_none() {
    let mut world = world();
    put_on(&mut world, "two", 16 * KIB, &[1, 2]);
    put_on(&mut world, "one", 16 * KIB, &[2]);
    lose(&mut world, 1);
    let stats = world.meta.stats();
    assert_eq!((stats.short_objects, stats.repairs_under_way), (1, 1));
    let tasks = world.fetch_tasks(BOB);
    let order = &tasks.orders[0];
    assert_eq!((&*order.key, order.len, order.targets.len()), ("two", 16 * KIB, 1));
    assert_eq!(world.holders("two"), [node(2)], "not before it is there");
    assert_eq!(world.end_task(BOB, order.id, Ok(())), Ok(()));
    let holders = world.holders("two");
    assert!(holders[0] == node(2) && [node(3), node(4)].contains(&holders[1]), "{holders:?}");
    world.check();
    let stats = world.meta.stats();
    assert_eq!((stats.short_objects, stats.repairs_under_way), (0, 0));
    let counters = stats.counters;
    assert_eq!((counters.repairs.made, counters.repairs.bytes), (1, 16 * KIB));
    let [begin, end] = &world.work_notices()[..] else { panic!("two notices") };
    assert_eq!(*begin, Notice::RepairBegins { objects: 1 });
    let expected =
        Notice::RepairEnds { replicas: 1, bytes: 16 * KIB, failures: 0, left: 0, took_ms: 0 };
    assert_eq!(*end, expected);
    live(&mut world, 100_000, &HOSTS[1..]);
    assert_eq!(carry_out(&mut world), 0, "and that is all");
}

#[test]
fn what_was_read_before_its_replica_was_made_anew_can_be_removed_a_lease_after_that_read() {
    let lease_ms = Config::default().lease_ttl_ms;
    let mut world = world();
    put_on(&mut world, "k", 16 * KIB, &[1, 2]);
    put_on(&mut world, "read later", 16 * KIB, &[2, 4]);
    lose(&mut world, 1);
    let tasks = world.fetch_tasks(BOB);
    world.get("k").expect("a replica is left");
    world.advance(lease_ms - 2_000);
    world.get("read later").expect("it is there");
    assert_eq!(world.end_task(BOB, tasks.orders[0].id, Ok(())), Ok(()));
    world.check();
    world.advance(1_999);
    assert_eq!(world.remove("k", false), Err(ErrorCode::ObjectHasLease));
    world.advance(1);
    assert_eq!(world.remove("k", false), Ok(()), "nobody has read it since");
    assert_eq!(world.remove("read later", false), Err(ErrorCode::ObjectHasLease));
    world.check();
}

#[test]
fn of_three_replicas_two_are_made_anew() {
    let mut world = world();
    world.mount(DAVE, 5, 64 * KIB).unwrap();
    put_on(&mut world, "k", KIB, &[1, 2, 3]);
    lose(&mut world, 1);
    lose(&mut world, 2);
    assert_eq!(carry_out(&mut world), 1);
    live(&mut world, 3_000, &HOSTS);
    assert_eq!(carry_out(&mut world), 1);
    assert_eq!(world.holders("k"), [node(3), node(4), node(5)]);
}

#[test]
fn a_node_out_of_sight_is_not_lost() {
    let mut world = world();
    put_on(&mut world, "k", 16 * KIB, &[1, 2]);
    world.disconnect(ALICE);
    live(&mut world, 9_000, &HOSTS[1..]);
    assert_eq!((carry_out(&mut world), world.meta.stats().short_objects), (0, 0));
    assert!(!world.ping(ALICE, &[SegmentId(1)]), "it is back, with what it holds");
    live(&mut world, 60_000, &HOSTS);
    assert_eq!((carry_out(&mut world), world.holders("k")), (0, vec![node(1), node(2)]));
    // This time the node does not return.
    world.disconnect(ALICE);
    live(&mut world, 20_000, &HOSTS[1..]);
    assert_eq!(carry_out(&mut world), 1);
    assert!(world.ping(ALICE, &[SegmentId(1)]), "it comes back too late, and has to start empty");
    assert_eq!(world.holders("k").len(), 2, "so no third replica comes back with it");
}

#[test]
fn what_was_evicted_or_cleared_is_not_made_anew() {
    let mut world = world();
    put_on(&mut world, "evicted", 32 * KIB, &[1, 2]);
    put_on(&mut world, "cleared", 16 * KIB, &[1, 3]);
    world.advance(20_000);
    let first =
        ReplicateConfig { preferred_segments: vec!["node-1:12345"], ..ReplicateConfig::default() };
    // Fills all other segments, so that the next put has to evict on the first.
    for (number, len) in [(2, 32), (3, 48), (4, 64)] {
        put_on(&mut world, &format!("fill {number}"), len * KIB, &[number]);
    }
    assert_eq!(world.clear(ALICE, "cleared", "node-1:12345"), Ok(()));
    let len = 48 * KIB;
    world.put_with(ALICE, "big", len, first).expect("others give way");
    let holders = world.holders("big");
    assert_eq!(holders, ["node-1:12345"]);
    let counters = world.meta.stats().counters;
    assert_eq!(counters.evicted_keys, 0, "only one of two replicas went");
    let memory = counters.evictions_in_memory;
    assert_eq!((memory.successful, memory.keys), (counters.evictions_successful, 0));
    assert_eq!((memory.bytes, counters.disk_replicas_evicted), (counters.evicted_bytes, 0));
    assert_eq!(world.holders("evicted"), [node(2)]);
    world.check();
    live(&mut world, 100_000, &HOSTS);
    assert_eq!((carry_out(&mut world), world.meta.stats().short_objects), (0, 0));
}

#[test]
fn nothing_is_evicted_to_repair_and_it_goes_on_when_there_is_room() {
    let mut world = world();
    for number in [3, 4] {
        put_on(&mut world, &format!("full {number}"), 60 * KIB, &[number]);
    }
    put_on(&mut world, "k", 16 * KIB, &[1, 2]);
    lose(&mut world, 1);
    live(&mut world, 30_000, &HOSTS[1..]);
    assert_eq!((carry_out(&mut world), world.meta.stats().short_objects), (0, 1));
    assert!(world.version("full 3").is_some() && world.version("full 4").is_some());
    // The longer there is no room, the less often the master looks for it.
    let mut looks = 0;
    let end = world.now.after_ms(600_000);
    while let Some(due) = world.meta.poll_timeout().filter(|&due| due < end) {
        world.now = world.now.max(due);
        world.meta.handle_timeout(world.now);
        for host in &HOSTS[1..] {
            world.ping(*host, &[]);
        }
        looks += 1;
        assert!(looks < 600, "too often");
    }
    world.mount(ALICE, 9, 64 * KIB).unwrap();
    world.timeouts();
    assert_eq!((carry_out(&mut world), world.holders("k")), (1, vec![node(2), node(9)]));
}

#[test]
fn room_that_went_between_order_and_copy_is_not_made() {
    let mut world = world();
    put_on(&mut world, "full", 60 * KIB, &[3]);
    put_on(&mut world, "k", 16 * KIB, &[1, 2]);
    lose(&mut world, 1);
    assert_eq!(world.meta.stats().repairs_under_way, 1);
    put_on(&mut world, "late", 60 * KIB, &[4]);
    assert_eq!((carry_out(&mut world), world.meta.stats().repairs_under_way), (0, 0));
    assert!(world.version("late").is_some());
    assert_eq!(world.meta.stats().counters.repairs.failed, 1);
    assert_eq!(world.remove("late", true), Ok(()));
    live(&mut world, 90_000, &HOSTS[1..]);
    assert_eq!(carry_out(&mut world), 1, "it is tried again");
}

#[test]
fn other_hosts_come_first_and_then_the_emptiest() {
    for turn in 0..8 {
        let mut world = world_with(Config { seed: turn, ..Config::default() });
        // A second segment of the node that holds the remaining replica.
        world.mount(BOB, 5, 1024 * KIB).unwrap();
        put_on(&mut world, "fuller", 20 * KIB, &[3]);
        put_on(&mut world, "k", 16 * KIB, &[1, 2]);
        lose(&mut world, 1);
        assert_eq!(carry_out(&mut world), 1);
        assert_eq!(world.holders("k"), [node(2), node(4)]);
    }
}

#[test]
fn what_is_removed_or_replaced_is_not_repaired_and_nobody_is_refused_for_it() {
    for fetched in [false, true] {
        for change in ["remove", "force", "upsert", "clear", "copy"] {
            let mut world = world();
            put_on(&mut world, "k", 16 * KIB, &[1, 2]);
            lose(&mut world, 1);
            world.advance(6_000);
            let tasks = if fetched { fetch(&mut world) } else { vec![] };
            match change {
                "remove" => assert_eq!(world.remove("k", false), Ok(())),
                "force" => assert_eq!(world.remove("k", true), Ok(())),
                "clear" => assert_eq!(world.clear(ALICE, "k", "node-2:12345"), Ok(())),
                "copy" => {
                    let task = CreateTask {
                        key: "k",
                        kind: TaskKind::Copy,
                        source: "",
                        targets: vec!["node-3:12345"],
                    };
                    assert!(world.create_task(task).is_ok());
                }
                _ => {
                    let grant = world.upsert(ALICE, "k", KIB).expect("it is not refused").what;
                    assert_eq!(world.end(ALICE, "k", &grant, 0), Ok(()));
                }
            }
            world.check();
            let stats = world.meta.stats();
            assert_eq!(stats.repairs_under_way, 0, "{change}");
            assert_eq!(stats.counters.repairs.failed, 1, "{change}");
            for (host, id, _) in tasks {
                assert_eq!(world.end_task(host, id, Ok(())), Ok(()), "the report comes too late");
                world.check();
            }
            live(&mut world, 3_000, &HOSTS[1..]);
            let more = carry_out(&mut world);
            assert_eq!(more, usize::from(change == "copy"), "{change}");
            assert_eq!(world.meta.stats().short_objects, 0, "{change}");
        }
    }
}

#[test]
fn no_more_bytes_are_copied_per_second_than_allowed() {
    let config = Config { repair_bytes_per_second: 4 * KIB, ..Config::default() };
    let mut world = world_with(config);
    for number in 0..16 {
        put_on(&mut world, &format!("k{number}"), 2 * KIB, &[1, 2]);
    }
    lose(&mut world, 1);
    let mut made = carry_out(&mut world);
    for second in 1..=8 {
        assert!(made <= 2 * second, "{made} after {second} s");
        live(&mut world, 1_000, &HOSTS[1..]);
        made += carry_out(&mut world);
    }
    assert_eq!((made, world.meta.stats().short_objects), (16, 0));
    let off = Config { repair_bytes_per_second: 0, ..Config::default() };
    let mut world = world_with(off);
    put_on(&mut world, "k", 2 * KIB, &[1, 2]);
    lose(&mut world, 1);
    live(&mut world, 60_000, &HOSTS[1..]);
    assert_eq!((carry_out(&mut world), world.meta.stats().short_objects), (0, 1));
}

#[test]
fn a_bounded_number_of_copies_is_under_way() {
    let mut world = World::new(Config::default());
    for (id, host) in (1..).zip(HOSTS) {
        world.mount(host, id, 4_096 * KIB).unwrap();
    }
    live(&mut world, 20_000, &HOSTS);
    let keys: Vec<String> = (0..300).map(|number| format!("key {number}")).collect();
    for key in &keys {
        put_on(&mut world, key, KIB, &[1, 2]);
    }
    lose(&mut world, 1);
    let stats = world.meta.stats();
    assert_eq!((stats.short_objects, stats.repairs_under_way), (300, 64));
    assert_eq!(carry_out(&mut world), 300);
    assert!(keys.iter().all(|key| world.holders(key).len() == 2));
    let notices = world.work_notices();
    assert_eq!(notices.len(), 2, "one wave: {notices:?}");
}

#[test]
fn a_copy_that_failed_is_tried_again_later() {
    let mut world = world();
    put_on(&mut world, "k", KIB, &[1, 2]);
    lose(&mut world, 1);
    for failures in 1..=3 {
        let (host, id, _) = fetch(&mut world).remove(0);
        assert_eq!(world.end_task(host, id, Err(ErrorCode::TransferFail)), Ok(()));
        assert_eq!(world.meta.stats().counters.repairs.failed, failures);
        live(&mut world, 5_000, &HOSTS[1..]);
    }
    assert_eq!(carry_out(&mut world), 1);
}

#[test]
fn a_put_that_lost_a_replica_under_way_gets_it_later() {
    let mut world = world();
    let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    let grant = world.start_with(ALICE, "k", KIB, config).unwrap().what;
    assert_eq!(world.end(ALICE, "k", &grant, 0b10), Ok(()));
    assert_eq!((world.holders("k").len(), world.meta.stats().short_objects), (1, 1));
    live(&mut world, 1_000, &HOSTS);
    assert_eq!((carry_out(&mut world), world.holders("k").len()), (1, 2));
}

#[test]
fn a_new_leader_knows_how_many_replicas_were_asked_for() {
    let members = [1, 2].map(|id| Member { segment: SegmentId(id), behind: None, is_disk: false });
    let record =
        RecordedMembers { fresh: false, members: members.to_vec(), ..RecordedMembers::default() };
    let now = Tick(1_000);
    let mut before = World::new(Config::default());
    for id in 1..=2 {
        before.mount(HOSTS[id as usize - 1], id, 64 * KIB).unwrap();
    }
    let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    let grant = before.put_with(ALICE, "k", KIB, config).unwrap().what;
    let upsert = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    let item = mooncake_types::PutItem::new("k", KIB);
    let again = before.begin(ALICE, item, upsert, PutMode::Upsert).unwrap().what;
    assert_eq!(again.attributes[2], grant.attributes[2], "an upsert is told too");
    let mut world = World { meta: Meta::recover(Config::default(), Epoch(9), now, &record), now };
    for (host, id) in [(ALICE, 1), (CAROL, 3)] {
        let is_empty = id == 3;
        let name = node(id);
        let mount = MountSegment {
            id: SegmentId(id),
            name: &name,
            endpoint: &name,
            len: 64 * KIB,
            seen_epoch: Epoch(9),
            is_empty,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        };
        for effect in world.meta.effects_before(&mount) {
            world.meta.handle_recorded(world.now, effect);
        }
        assert!(matches!(world.ask(host, &Request::MountSegment(mount)), Reply::Mounted(_)));
    }
    let version = Version { epoch: Epoch(7), counter: 5 };
    let entry = InventoryEntry {
        len: KIB,
        key: "k",
        version,
        grant: version,
        object_len: KIB,
        attributes: &grant.attributes,
        ..InventoryEntry::default()
    };
    let page =
        InventoryPage { segment: SegmentId(1), run: 1, page: 0, last: true, entries: vec![entry] };
    assert_eq!(world.ask(ALICE, &Request::ReportInventory(page)), Reply::Done(Ok(())));
    // Node 2 may still report its replica.
    let record_all = |world: &mut World| {
        for effect in world.meta.take_effects() {
            world.meta.handle_recorded(world.now, effect);
        }
    };
    for _ in 0..14 {
        live(&mut world, 1_000, &[ALICE, CAROL]);
        record_all(&mut world);
        assert_eq!(world.meta.stats().repairs_under_way, 0);
    }
    assert_eq!(world.meta.stats().short_objects, 1);
    for _ in 0..3 {
        live(&mut world, 1_000, &[ALICE, CAROL]);
        record_all(&mut world);
    }
    assert_eq!((carry_out(&mut world), world.holders("k")), (1, vec![node(1), node(3)]));
}
