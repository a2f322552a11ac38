//! Nodes that the master has lost sight of.

use mooncake_meta::Config;
use mooncake_types::{
    CreateTask, ErrorCode, PutItem, PutMode, ReplicateConfig, Reply, Request, ScanAction,
    SegmentId, TaskKind, TaskStatus,
};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool, pool_with};

const NOT_FOUND: ErrorCode = ErrorCode::ObjectNotFound;

/// Segment 1, which Alice lends, and segment 2, which Bob lends.
fn two_nodes() -> World {
    let mut world = pool(1, 64 * KIB);
    world.mount(BOB, 2, 64 * KIB).expect("the segment is a new one");
    world
}

fn on(segment: &'static str) -> ReplicateConfig<'static> {
    ReplicateConfig { preferred_segments: vec![segment], ..ReplicateConfig::default() }
}

/// Puts a key with its only replica on Bob's segment.
fn put_on_bobs(world: &mut World, key: &str) {
    world.put_with(ALICE, key, 1000, on("node-2:12345")).expect("there is room");
}

/// Alice puts the key while Bob is out of sight.
fn put_again(world: &mut World, key: &str) {
    let placed = world.put(key, 2000).expect("there is room elsewhere");
    assert_eq!(placed.segments[0].id, SegmentId(1), "{key}");
}

#[test]
fn keys_of_a_node_out_of_sight_are_missing_at_once_and_come_back_with_its_next_ping() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "k");
    let before = world.get("k").expect("it is there");
    world.disconnect(BOB);
    assert_eq!(world.get("k"), Err(NOT_FOUND));
    assert!(!world.exist("k"));
    assert_eq!(world.keys(), Vec::<String>::new());
    assert_eq!(world.version("k"), None);
    let in_sight: Vec<bool> = world.meta.segments().iter().map(|report| report.in_sight).collect();
    assert_eq!(in_sight, [true, false]);
    let stats = world.meta.stats();
    assert_eq!((stats.segments, stats.segments_out_of_sight), (2, 1));
    assert_eq!((stats.capacity_bytes, stats.used_bytes), (64 * KIB, 0));
    world.timeouts();
    world.check();
    assert!(!world.ping(BOB, &[SegmentId(2)]), "nothing has to be mounted again");
    assert_eq!(world.get("k"), Ok(before));
    assert_eq!(world.meta.stats().counters.lost_keys, 0);
    assert_eq!(world.meta.stats().segments_out_of_sight, 0);
    world.check();
}

#[test]
fn a_suspected_client_may_come_back_for_as_long_as_the_operator_says() {
    let config = Config { suspicion_ttl_ms: 20_000, ..Config::default() };
    let mut world = pool_with(1, 64 * KIB, config);
    world.mount(BOB, 2, 64 * KIB).expect("the segment is a new one");
    put_on_bobs(&mut world, "k");
    let liveness = |world: &World| {
        let counters = world.meta.stats().counters;
        (counters.clients_suspected, counters.clients_recovered, counters.clients_given_up)
    };
    let pass = |world: &mut World, seconds| {
        for _ in 0..seconds {
            world.pass(1_000);
            world.ping(ALICE, &[SegmentId(1)]);
        }
    };
    pass(&mut world, 11);
    assert_eq!(world.get("k"), Err(NOT_FOUND), "Bob was silent for client_ttl");
    assert_eq!(liveness(&world), (1, 0, 0));
    assert_eq!(world.meta.stats().clients_out_of_sight, 1);
    pass(&mut world, 18);
    assert!(!world.ping(BOB, &[SegmentId(2)]), "29 s: nothing has to be mounted again");
    assert_eq!(liveness(&world), (1, 1, 0));
    assert!(world.get("k").is_ok());
    pass(&mut world, 31);
    assert_eq!(liveness(&world), (2, 1, 1));
    assert!(world.ping(BOB, &[SegmentId(2)]), "31 s: Bob was given up");
    world.check();
}

#[test]
fn the_other_replicas_still_serve() {
    let mut world = two_nodes();
    let two = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    world.put_with(ALICE, "k", 1000, two).expect("there is room");
    world.disconnect(BOB);
    let found = world.get("k").expect("one replica is in sight");
    assert_eq!((found.what.placements.len(), found.segments[0].id), (1, SegmentId(1)));
    world.ping(BOB, &[SegmentId(2)]);
    assert_eq!(world.get("k").expect("both are").what.placements.len(), 2);
    world.check();
}

#[test]
fn nothing_is_granted_on_a_node_out_of_sight() {
    let mut world = two_nodes();
    world.disconnect(BOB);
    for number in 0..8 {
        let key = format!("k{number}");
        let placed = world.put_with(ALICE, &key, 1, on("node-2:12345")).expect("there is room");
        assert_eq!(placed.segments[0].id, SegmentId(1));
    }
    world.disconnect(ALICE);
    assert_eq!(world.put("none", 1), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(world.mount(BOB, 3, 64 * KIB), Ok(()));
    assert_eq!(world.put("none", 1), Err(ErrorCode::NoAvailableHandle), "a mount is no ping");
    world.ping(BOB, &[SegmentId(2), SegmentId(3)]);
    assert!(world.put("some", 1).is_ok());
    world.check();
}

#[test]
fn eviction_leaves_a_node_out_of_sight_alone() {
    let config = Config { eviction_high_watermark_ratio: 0.5, ..Config::default() };
    let mut world = World::new(config);
    world.mount(ALICE, 1, 64 * KIB).expect("the segment is a new one");
    world.mount(BOB, 2, 64 * KIB).expect("the segment is a new one");
    for number in 0..60 {
        let key = format!("k{number}");
        world.put_with(ALICE, &key, KIB, on("node-2:12345")).expect("there is room");
    }
    world.disconnect(BOB);
    world.timeouts();
    world.put("large", 60 * KIB).expect("Alice has room");
    assert_eq!(world.put("larger", 62 * KIB).map(|_| ()), Ok(()), "large was evicted");
    world.timeouts();
    let evicted = world.meta.stats().counters.evicted_keys;
    assert_eq!(evicted, 2, "only what is in sight");
    world.check();
    world.ping(BOB, &[SegmentId(2)]);
    world.timeouts();
    assert!(world.meta.stats().counters.evicted_keys > evicted, "it is still crowded");
    world.check();
}

#[test]
fn a_group_is_evicted_whole_in_sight_or_not() {
    let mut world = two_nodes();
    let mut put = |key: &str, segment: &'static str| {
        let item = PutItem { group: "g", ..PutItem::new(key, 40 * KIB) };
        let placed = world.begin(ALICE, item, on(segment), PutMode::Insert).expect("there is room");
        world.end(ALICE, key, &placed.what, 0).expect("it was begun");
    };
    put("here", "node-1:12345");
    put("there", "node-2:12345");
    world.disconnect(BOB);
    put_again(&mut world, "other");
    world.put("large", 50 * KIB).expect("the group is evicted for it");
    world.check();
    world.ping(BOB, &[SegmentId(2)]);
    assert_eq!(world.keys(), ["large"]);
}

#[test]
fn a_put_whose_grant_is_out_of_sight_ends_well_and_is_read_when_the_node_is_back() {
    let mut world = two_nodes();
    let placed = world.start_with(ALICE, "k", 1, on("node-2:12345")).expect("there is room");
    world.disconnect(BOB);
    assert_eq!(world.get("k"), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.start(ALICE, "k", 1), Err(ErrorCode::ObjectAlreadyExists));
    assert_eq!(world.end(ALICE, "k", &placed.what, 0), Ok(()), "the node had taken all bytes");
    assert!(!world.exist("k"));
    world.check();
    world.ping(BOB, &[SegmentId(2)]);
    assert!(world.exist("k"));
    world.check();
}

#[test]
fn a_key_out_of_sight_can_be_put_again_and_the_old_object_never_comes_back() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "read");
    put_on_bobs(&mut world, "unread");
    world.get("read").expect("it is there");
    world.disconnect(BOB);
    put_again(&mut world, "read");
    put_again(&mut world, "unread");
    assert_eq!(world.meta.stats().leased_tombstones, 1, "it may be being read under its lease");
    world.check();
    world.ping(BOB, &[SegmentId(2)]);
    for key in ["read", "unread"] {
        let found = world.get(key).expect("it was put again");
        assert_eq!((found.what.len, found.segments[0].id), (2000, SegmentId(1)));
    }
    assert_eq!(world.keys(), ["read", "unread"]);
    world.advance(5_000);
    assert_eq!(world.meta.segments()[1].used, 0, "the old ranges are free");
    world.check();
}

#[test]
fn only_one_put_at_a_time_takes_the_place_of_an_object_out_of_sight() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "k");
    world.disconnect(BOB);
    let first = world.start(ALICE, "k", 2000).expect("the key counts as free");
    assert_eq!(world.start(BOB, "k", 1), Err(ErrorCode::ObjectAlreadyExists));
    assert_eq!(world.get("k"), Err(ErrorCode::ReplicaIsNotReady), "it is being written");
    // Bob returns meanwhile. The old version is readable until the put ends, and stays if the put is revoked.
    world.ping(BOB, &[SegmentId(2)]);
    assert_eq!(world.get("k").expect("it is back").what.len, 1000);
    assert_eq!(world.start(BOB, "k", 1), Err(ErrorCode::ObjectAlreadyExists));
    assert_eq!(world.revoke(ALICE, "k", &first.what), Ok(()));
    assert_eq!(world.get("k").expect("it is back").what.len, 1000);
    world.disconnect(BOB);
    let second = world.start(ALICE, "k", 2000).expect("the key counts as free");
    world.ping(BOB, &[SegmentId(2)]);
    assert_eq!(world.end(ALICE, "k", &second.what, 0), Ok(()));
    assert_eq!(world.get("k").expect("it was put again").what.len, 2000);
    world.check();
}

#[test]
fn a_put_that_waits_for_a_key_out_of_sight_has_it_when_the_node_is_dead() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "k");
    world.disconnect(BOB);
    world.advance(9_000);
    world.ping(ALICE, &[SegmentId(1)]);
    let placed = world.start(ALICE, "k", 2000).expect("the key counts as free");
    world.advance(1_000);
    assert_eq!(world.meta.clients(), 1, "Bob is dead");
    assert_eq!(world.get("k"), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.end(ALICE, "k", &placed.what, 0), Ok(()));
    assert_eq!(world.get("k").expect("it was put").what.len, 2000);
    assert!(world.ping(BOB, &[SegmentId(2)]), "it is asked to mount again");
    assert_eq!(world.meta.segments().len(), 1);
    world.check();
}

#[test]
fn an_upsert_of_a_key_out_of_sight_keeps_its_pin_and_an_insert_brings_its_own() {
    for (mode, stays) in [(PutMode::Upsert, true), (PutMode::Insert, false)] {
        let mut world = two_nodes();
        let hard = ReplicateConfig { hard_pin: true, ..on("node-2:12345") };
        world.put_with(ALICE, "k", 1000, hard).expect("there is room");
        world.disconnect(BOB);
        let item = PutItem::new("k", 40 * KIB);
        let placed = world.begin(ALICE, item, ReplicateConfig::default(), mode);
        let placed = placed.expect("the key counts as free");
        world.end(ALICE, "k", &placed.what, 0).expect("it was begun");
        let evicted = world.put("large", 40 * KIB).is_ok();
        assert_eq!(evicted, !stays, "{mode:?}");
        world.check();
    }
}

#[test]
fn what_is_removed_out_of_sight_does_not_come_back() {
    let mut world = two_nodes();
    for key in ["one", "leased", "cleared", "scanned"] {
        put_on_bobs(&mut world, key);
    }
    world.advance(5_000);
    world.ping(ALICE, &[SegmentId(1)]);
    world.ping(BOB, &[SegmentId(2)]);
    world.get("leased").expect("it is there");
    world.disconnect(BOB);
    assert_eq!(world.remove("one", false), Ok(()));
    assert_eq!(world.remove("one", false), Err(NOT_FOUND));
    assert_eq!(world.remove("leased", false), Err(ErrorCode::ObjectHasLease));
    assert_eq!(world.remove("leased", true), Ok(()));
    assert_eq!(world.clear(ALICE, "cleared", ""), Ok(()));
    let page = world.scan(None, ScanAction::Remove { force: false }, 100).expect("no pattern");
    assert_eq!(page.removed, 1);
    world.ping(BOB, &[SegmentId(2)]);
    assert_eq!(world.keys(), Vec::<String>::new());
    assert_eq!(world.meta.segments()[1].used, 1000, "readers may have a route to one of them");
    world.advance(5_000);
    assert_eq!(world.meta.segments()[1].used, 0);
    world.check();
}

#[test]
fn a_segment_out_of_sight_can_be_unmounted() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "k");
    world.disconnect(BOB);
    assert_eq!(world.unmount(BOB, 2, 3_000), Ok(()));
    world.check();
    world.ping(BOB, &[SegmentId(2)]);
    assert!(world.exist("k"), "its time is not over");
    assert_eq!(world.put("large", 63 * KIB).expect("Alice has room").segments[0].id, SegmentId(1));
    world.disconnect(BOB);
    world.advance(3_000);
    assert_eq!(world.meta.segments().len(), 2, "a reader may have a route to it");
    world.advance(5_000);
    assert_eq!(world.meta.segments().len(), 1);
    world.check();
    world.disconnect(ALICE);
    assert_eq!(world.unmount(ALICE, 1, 0), Ok(()));
    world.timeouts();
    assert_eq!(world.meta.segments(), []);
    world.check();
}

#[test]
fn a_node_out_of_sight_is_dead_after_its_time_to_live() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "k");
    world.disconnect(BOB);
    world.advance(9_000);
    world.ping(ALICE, &[SegmentId(1)]);
    assert_eq!(world.meta.stats().keys, 1);
    world.advance(1_000);
    assert_eq!((world.meta.clients(), world.meta.stats().keys), (1, 0));
    assert_eq!(world.meta.stats().counters.lost_keys, 1);
    world.check();
}

#[test]
fn what_a_silent_node_may_still_serve_is_not_given_up_before_the_lease_on_it_is_over() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "k");
    world.advance(9_900);
    world.ping(ALICE, &[SegmentId(1)]);
    // A read by Alice is no ping from Bob.
    let keys = vec!["k"];
    let read = world.ask(ALICE, &Request::GetReplicaList { keys: keys.clone() });
    assert!(matches!(&read, Reply::Located { results, .. } if results[0].is_ok()), "{read:?}");
    world.advance(100);
    assert!(matches!(
        world.ask(ALICE, &Request::GetReplicaList { keys }),
        Reply::Located { results, .. } if results == [Err(NOT_FOUND)]
    ));
    assert_eq!(world.meta.stats().counters.lost_keys, 0, "it is out of sight only");
    world.advance(4_900);
    world.ping(ALICE, &[SegmentId(1)]);
    assert!(!world.ping(BOB, &[SegmentId(2)]), "nothing has to be mounted again");
    assert!(world.exist("k"), "it came back");
    world.check();
}

fn copy<'a>(key: &'a str, target: &'a str) -> CreateTask<'a> {
    CreateTask { key, kind: TaskKind::Copy, source: "", targets: vec![target] }
}

#[test]
fn tasks_wait_for_what_is_out_of_sight() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "k");
    world.put_with(ALICE, "j", 1000, on("node-1:12345")).expect("there is room");
    let from_bob = world.create_task(copy("k", "node-1:12345")).expect("it is a good task");
    let to_bob = world.create_task(copy("j", "node-2:12345")).expect("it is a good task");
    world.disconnect(BOB);
    assert_eq!(world.create_task(copy("k", "node-1:12345")), Err(NOT_FOUND));
    world.put("i", 1).expect("there is room");
    let refused = world.create_task(copy("i", "node-2:12345"));
    assert_eq!(refused, Err(ErrorCode::UnavailableInCurrentStatus));
    for client in [ALICE, BOB] {
        assert_eq!(world.fetch_tasks(client).orders, []);
    }
    world.check();
    world.ping(BOB, &[SegmentId(2)]);
    world.advance(500);
    assert_eq!(world.fetch_tasks(BOB).orders.len(), 1);
    assert_eq!(world.fetch_tasks(ALICE).orders.len(), 1);
    // A copy that has ended counts, even if its source is out of sight by then.
    world.disconnect(BOB);
    assert_eq!(world.end_task(BOB, from_bob, Ok(())), Ok(()));
    assert_eq!(world.end_task(ALICE, to_bob, Ok(())), Ok(()));
    for id in [from_bob, to_bob] {
        assert_eq!(world.query_task(id).expect("it has just ended").status, TaskStatus::Success);
    }
    assert_eq!(world.holders("k"), ["node-1:12345"]);
    world.check();
    world.ping(BOB, &[SegmentId(2)]);
    assert_eq!(world.holders("j").len(), 2);
    world.check();
}

#[test]
fn a_put_again_ends_the_task_of_an_object_out_of_sight() {
    for mode in [PutMode::Insert, PutMode::Upsert] {
        let mut world = two_nodes();
        put_on_bobs(&mut world, "k");
        let task = world.create_task(copy("k", "node-1:12345")).expect("it is a good task");
        world.disconnect(BOB);
        let item = PutItem::new("k", 2000);
        let placed = world.begin(ALICE, item, ReplicateConfig::default(), mode);
        world.end(ALICE, "k", &placed.expect("it counts as free").what, 0).expect("it was begun");
        assert_eq!(world.query_task(task).expect("it ended").status, TaskStatus::Failed);
        world.check();
    }
}

#[test]
fn a_node_that_others_cannot_reach_is_out_of_sight_if_it_does_not_ping_within_half_a_second() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "k");
    // A node that pings stays in sight, whatever clients report.
    for _ in 0..20 {
        world.report(ALICE, &[SegmentId(1)], &[SegmentId(2), SegmentId(2), SegmentId(77)]);
        world.check();
        world.advance(499);
        assert!(world.exist("k"));
        world.ping(BOB, &[SegmentId(2)]);
    }
    world.advance(400);
    world.report(ALICE, &[SegmentId(1)], &[SegmentId(2)]);
    world.advance(400);
    world.report(ALICE, &[SegmentId(1)], &[SegmentId(2)]);
    world.advance(99);
    assert!(world.exist("k"));
    world.advance(1);
    assert!(!world.exist("k"), "half a second after the first report");
    world.check();
    world.report(ALICE, &[SegmentId(1)], &[SegmentId(2)]);
    world.advance(1_000);
    world.ping(BOB, &[SegmentId(2)]);
    assert!(world.exist("k"), "what was said while it was out of sight is void");
    world.advance(1_000);
    assert!(world.exist("k"));
    world.check();
}

#[test]
fn a_master_that_was_held_up_waits_for_pings_before_it_believes_a_report() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "k");
    world.report(ALICE, &[SegmentId(1)], &[SegmentId(2)]);
    world.advance(3_000);
    assert!(world.exist("k"), "nobody was heard for three seconds");
    world.check();
    world.advance(249);
    assert!(world.exist("k"));
    world.advance(1);
    assert!(!world.exist("k"));
    world.check();
}

#[test]
fn a_client_that_died_takes_the_doubt_about_it_along() {
    let mut world = two_nodes();
    world.advance(9_900);
    world.report(ALICE, &[SegmentId(1)], &[SegmentId(2)]);
    world.advance(100);
    assert_eq!(world.meta.stats().segments_out_of_sight, 1);
    world.check();
    world.advance(4_000);
    world.ping(ALICE, &[SegmentId(1)]);
    world.advance(1_000);
    assert_eq!(world.meta.clients(), 1);
    world.check();
    world.mount(BOB, 2, 64 * KIB).expect("it may come back");
    put_on_bobs(&mut world, "k");
    world.advance(1_000);
    assert!(world.exist("k"));
    world.check();
}

#[test]
fn nothing_is_put_on_a_node_that_is_not_reached_and_what_lies_there_stays() {
    let mut world = two_nodes();
    put_on_bobs(&mut world, "k");
    let bobs = SegmentId(2);
    assert!(!world.meta.handle_reach(world.now, bobs, true), "each is reached at first");
    assert!(world.meta.handle_reach(world.now, bobs, false));
    assert!(!world.meta.handle_reach(world.now, bobs, false), "it is no news");
    assert!(!world.meta.handle_reach(world.now, SegmentId(9), false), "it is not there");
    world.check();
    assert!(world.get("k").is_ok(), "others may reach it");
    let ping = Request::Ping { segments: vec![bobs], unreachable: Vec::new(), reads: None };
    let told = |world: &mut World| {
        let Reply::Pong(pong) = world.ask(BOB, &ping) else { panic!("a pong answers a ping") };
        pong.is_unreached
    };
    assert!(told(&mut world));
    for number in 0..8 {
        let key = format!("k{number}");
        let placed = world.put_with(ALICE, &key, 1, on("node-2:12345")).expect("there is room");
        assert_eq!(placed.segments[0].id, SegmentId(1));
    }
    let reached: Vec<bool> = world.meta.segments().iter().map(|it| it.is_reached).collect();
    assert_eq!(reached, [true, false]);
    assert!(world.meta.handle_reach(world.now, bobs, true));
    assert!(!told(&mut world));
    put_on_bobs(&mut world, "l");
    assert_eq!(world.get("l").expect("it is there").segments[0].id, bobs);
    world.check();
}
