//! Copy and move tasks.

use mooncake_meta::{Config, TaskCounts};
use mooncake_types::{
    ClientId, CreateTask, ErrorCode, PutItem, PutMode, ReplicateConfig, Reply, Request, ScanAction,
    SegmentId, TaskId, TaskKind, TaskReport, TaskStatus, limits,
};

use crate::KIB;
use crate::world::{ALICE, BOB, World};

const CAROL: ClientId = ClientId(3);
const HOSTS: [ClientId; 4] = [ALICE, BOB, CAROL, CAROL];

fn calm() -> Config {
    Config { eviction_high_watermark_ratio: 1.0, ..Config::default() }
}

/// Segments `node-1:12345` to `node-4:12345` of 64 KiB: Alice lends one, Bob one, and Carol two.
fn world_with(config: Config) -> World {
    let mut world = World::new(config);
    for (id, host) in (1..).zip(HOSTS) {
        world.mount(host, id, 64 * KIB).expect("the segment is a new one");
    }
    world
}

/// As [`world_with`], with an object `k` of 16 KiB on Alice's segment.
fn world() -> World {
    let mut world = world_with(calm());
    put_on(&mut world, "k", 16 * KIB, &["node-1:12345"]);
    world
}

fn put_on(world: &mut World, key: &str, len: u64, names: &[&'static str]) {
    let config = ReplicateConfig {
        replica_num: names.len() as u32,
        preferred_segments: names.to_vec(),
        ..ReplicateConfig::default()
    };
    world.put_with(ALICE, key, len, config).expect("there is room");
}

fn copy<'a>(key: &'a str, targets: &[&'a str]) -> CreateTask<'a> {
    CreateTask { key, kind: TaskKind::Copy, source: "", targets: targets.to_vec() }
}

fn moving<'a>(key: &'a str, source: &'a str, target: &'a str) -> CreateTask<'a> {
    CreateTask { key, kind: TaskKind::Move, source, targets: vec![target] }
}

fn live(world: &mut World, ms: u64) {
    for _ in 0..ms / 5_000 {
        world.advance(5_000);
        for host in HOSTS {
            world.ping(host, &[]);
        }
    }
}

fn status(world: &mut World, id: TaskId) -> (TaskStatus, String) {
    let report = world.query_task(id).expect("the task is known");
    (report.status, report.message)
}

fn failed(message: &str) -> (TaskStatus, String) {
    (TaskStatus::Failed, message.to_owned())
}

fn succeeded() -> (TaskStatus, String) {
    (TaskStatus::Success, String::new())
}

fn has_tasks(world: &mut World, client: ClientId) -> bool {
    match world.ask(client, &Request::Ping { segments: vec![], unreachable: vec![], reads: None }) {
        Reply::Pong(pong) => pong.has_tasks,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_goes_from_the_host_of_a_replica_to_every_target() {
    let mut world = world();
    let id = world.create_task(copy("k", &["node-2:12345", "node-3:12345"])).unwrap();
    let report = TaskReport {
        id,
        kind: TaskKind::Copy,
        status: TaskStatus::Pending,
        assigned: ALICE,
        ..TaskReport::default()
    };
    assert_eq!(world.query_task(id), Ok(report.clone()));
    assert!(has_tasks(&mut world, ALICE) && !has_tasks(&mut world, BOB));
    assert!(world.fetch_tasks(BOB).orders.is_empty());
    world.advance(7);
    let orders = world.fetch_tasks(ALICE);
    let order = &orders.orders[0];
    let version = world.version("k").unwrap();
    assert_eq!((order.id, &*order.key, order.version, order.len), (id, "k", version, 16 * KIB));
    assert!(order.grant > version);
    let names = |places: &[mooncake_types::Placement]| -> Vec<SegmentId> {
        places.iter().map(|place| orders.segments[place.segment as usize].id).collect()
    };
    assert_eq!(names(&order.source), [SegmentId(1)]);
    assert_eq!(names(&order.targets), [SegmentId(2), SegmentId(3)]);
    assert!(!has_tasks(&mut world, ALICE) && world.fetch_tasks(ALICE).orders.is_empty());
    assert_eq!(world.holders("k"), ["node-1:12345"], "not before it has ended");
    world.check();
    world.advance(3);
    let report = TaskReport {
        status: TaskStatus::Processing,
        created_ms_ago: 10,
        updated_ms_ago: 3,
        ..report
    };
    assert_eq!(world.query_task(id), Ok(report));
    assert_eq!(world.end_task(BOB, id, Ok(())), Err(ErrorCode::IllegalClient));
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    assert_eq!(world.end_task(ALICE, id, Err(ErrorCode::TransferFail)), Ok(()), "it has ended");
    assert_eq!(status(&mut world, id), succeeded());
    assert_eq!(world.holders("k"), ["node-1:12345", "node-2:12345", "node-3:12345"]);
    assert_eq!(world.version("k"), Some(version));
    world.check();
}

#[test]
fn a_move_drops_the_replica_that_it_was_made_from() {
    let mut world = world();
    put_on(&mut world, "two", KIB, &["node-1:12345", "node-2:12345"]);
    let id = world.create_task(moving("two", "node-2:12345", "node-4:12345")).unwrap();
    assert_eq!(world.fetch_tasks(BOB).orders.len(), 1, "its host carries it out");
    assert_eq!(world.end_task(BOB, id, Ok(())), Ok(()));
    assert_eq!(status(&mut world, id), succeeded());
    assert_eq!(world.holders("two"), ["node-1:12345", "node-4:12345"]);
    world.check();
    let id = world.create_task(moving("k", "node-1:12345", "node-2:12345")).unwrap();
    world.get("k").unwrap();
    assert_eq!(world.fetch_tasks(ALICE).orders.len(), 1);
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    assert_eq!(world.holders("k"), ["node-2:12345"]);
    assert_eq!(world.remove("k", false), Err(ErrorCode::ObjectHasLease));
    world.check();
}

#[test]
fn tasks_that_make_no_sense_are_refused() {
    let names: Vec<String> = (0..=limits::MAX_REPLICAS).map(|i| format!("n{i}")).collect();
    let many: Vec<&str> = names.iter().map(String::as_str).collect();
    let cases = [
        (copy("", &["node-2:12345"]), ErrorCode::InvalidKey),
        (copy("k", &[]), ErrorCode::InvalidParams),
        (copy("k", &many), ErrorCode::InvalidParams),
        (copy("missing", &["node-2:12345"]), ErrorCode::ObjectNotFound),
        (copy("running", &["node-2:12345"]), ErrorCode::ReplicaIsNotReady),
        (copy("k", &["node-2:12345", "nobody:1"]), ErrorCode::InvalidParams),
        (copy("k", &["node-4:12345"]), ErrorCode::UnavailableInCurrentStatus),
        (moving("missing", "node-1:12345", "node-2:12345"), ErrorCode::ObjectNotFound),
        (moving("k", "node-1:12345", "node-1:12345"), ErrorCode::InvalidParams),
        (moving("k", "nobody:1", "node-2:12345"), ErrorCode::InvalidParams),
        (moving("k", "", "node-2:12345"), ErrorCode::InvalidParams),
        (moving("k", "node-1:12345", "nobody:1"), ErrorCode::InvalidParams),
        (moving("k", "node-3:12345", "node-2:12345"), ErrorCode::ReplicaNotFound),
        (moving("two", "node-1:12345", "node-2:12345"), ErrorCode::ReplicaAlreadyExists),
        (
            CreateTask {
                targets: vec!["node-2:12345", "node-3:12345"],
                ..moving("k", "node-1:12345", "")
            },
            ErrorCode::InvalidParams,
        ),
        (copy("tasked", &["node-3:12345"]), ErrorCode::ObjectHasReplicationTask),
    ];
    let mut world = world();
    put_on(&mut world, "two", KIB, &["node-1:12345", "node-2:12345"]);
    put_on(&mut world, "tasked", KIB, &["node-1:12345"]);
    world.create_task(copy("tasked", &["node-2:12345"])).unwrap();
    world.start(ALICE, "running", KIB).unwrap();
    world.unmount(CAROL, 4, 60_000).unwrap();
    for (task, expected) in cases {
        assert_eq!(world.create_task(task.clone()), Err(expected), "{task:?}");
    }
    assert_eq!(world.query_task(TaskId(9)), Err(ErrorCode::TaskNotFound));
    assert_eq!(world.end_task(ALICE, TaskId(9), Ok(())), Err(ErrorCode::TaskNotFound));
    world.check();
}

#[test]
fn a_copy_to_where_a_replica_is_already_leaves_that_target_out() {
    let mut world = world();
    put_on(&mut world, "two", KIB, &["node-1:12345", "node-2:12345"]);
    let id = world.create_task(copy("two", &["node-2:12345", "node-2:12345"])).unwrap();
    assert_eq!(status(&mut world, id), succeeded());
    let id = world.create_task(copy("two", &["node-2:12345", "node-3:12345"])).unwrap();
    assert_eq!(world.fetch_tasks(ALICE).orders[0].targets.len(), 1);
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    assert_eq!(world.holders("two"), ["node-1:12345", "node-2:12345", "node-3:12345"]);
    world.check();
}

#[test]
fn while_a_task_is_under_way_its_object_stays() {
    let mut world = world();
    let id = world.create_task(copy("k", &["node-2:12345"])).unwrap();
    let busy = Err(ErrorCode::ObjectHasReplicationTask);
    for fetched in [false, true] {
        if fetched {
            world.fetch_tasks(ALICE);
        }
        assert_eq!(world.remove("k", false), busy);
        assert_eq!(world.remove("k", true), busy);
        assert_eq!(world.upsert(BOB, "k", KIB).map(|_| ()), busy);
        assert_eq!(world.scan(None, ScanAction::Remove { force: true }, 10).unwrap().removed, 0);
    }
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    assert_eq!(world.remove("k", false), Ok(()));
    assert_eq!(world.meta.stats().used_bytes, 0);
}

#[test]
fn a_task_whose_client_failed_leaves_nothing_behind() {
    let mut world = world();
    let id = world.create_task(moving("k", "node-1:12345", "node-2:12345")).unwrap();
    let pending = world.end_task(ALICE, id, Err(ErrorCode::TransferFail));
    assert_eq!(pending, Err(ErrorCode::UnavailableInCurrentStatus), "it was not fetched");
    world.fetch_tasks(ALICE);
    assert_eq!(world.meta.stats().used_bytes, 32 * KIB);
    assert_eq!(world.end_task(ALICE, id, Err(ErrorCode::TransferFail)), Ok(()));
    assert_eq!(status(&mut world, id), failed("TRANSFER_FAIL (-800)"));
    assert_eq!(world.holders("k"), ["node-1:12345"]);
    assert_eq!(world.meta.stats().used_bytes, 16 * KIB);
    world.check();
}

#[test]
fn tasks_run_out_of_time() {
    let mut world = world();
    let id = world.create_task(copy("k", &["node-2:12345"])).unwrap();
    live(&mut world, 295_000);
    assert_eq!(status(&mut world, id).0, TaskStatus::Pending);
    live(&mut world, 5_000);
    assert_eq!(status(&mut world, id), failed("pending timeout"));
    assert!(!has_tasks(&mut world, ALICE));
    let id = world.create_task(copy("k", &["node-2:12345"])).unwrap();
    live(&mut world, 100_000);
    world.fetch_tasks(ALICE);
    live(&mut world, 295_000);
    assert_eq!(status(&mut world, id).0, TaskStatus::Processing);
    live(&mut world, 5_000);
    assert_eq!(status(&mut world, id), failed("processing timeout"));
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    assert_eq!(world.holders("k"), ["node-1:12345"], "it came too late");
    assert_eq!(world.meta.stats().reserved_bytes, 16 * KIB, "its writer may be at work");
    world.check();
    live(&mut world, 570_000);
    assert_eq!(world.meta.stats().used_bytes, 16 * KIB);
    world.check();
}

/// The nodes may have dropped the source. If the new replica is lost too, no node holds the object, and no lookup may
/// name it.
#[test]
fn a_move_whose_source_may_be_dropped_is_over_when_its_client_says_nothing_more() {
    for is_target_lost in [false, true] {
        let mut world = world();
        let id = world.create_task(moving("k", "node-1:12345", "node-2:12345")).unwrap();
        world.get("k").unwrap();
        world.fetch_tasks(ALICE);
        let told = world.ask(ALICE, &Request::EndTask { id, outcome: Ok(()) });
        assert!(matches!(told, Reply::Remaining { .. }), "{told:?}");
        let clear = Request::CreateTask(copy("k", &["node-3:12345"]));
        let refused = Reply::Refused(ErrorCode::ObjectHasReplicationTask);
        assert_eq!(world.ask(CAROL, &clear), refused);
        if is_target_lost {
            world.unmount(BOB, 2, 0).expect("it is mounted");
        }
        live(&mut world, 300_000);
        match is_target_lost {
            true => assert_eq!(world.get("k").map(|_| ()), Err(ErrorCode::ObjectNotFound)),
            false => {
                assert_eq!(status(&mut world, id), succeeded());
                assert_eq!(world.holders("k"), ["node-2:12345"]);
            }
        }
        world.check();
    }
}

#[test]
fn without_a_time_limit_tasks_wait() {
    let config = Config { pending_task_ms: 0, processing_task_ms: 0, ..calm() };
    let mut world = world_with(config);
    put_on(&mut world, "k", KIB, &["node-1:12345"]);
    let id = world.create_task(copy("k", &["node-2:12345"])).unwrap();
    live(&mut world, 1_000_000);
    assert_eq!(world.fetch_tasks(ALICE).orders.len(), 1);
    live(&mut world, 1_000_000);
    assert_eq!(status(&mut world, id).0, TaskStatus::Processing);
    world.check();
}

#[test]
fn the_tasks_of_a_dead_client_fail() {
    let mut world = world();
    put_on(&mut world, "two", KIB, &["node-1:12345", "node-2:12345"]);
    put_on(&mut world, "three", KIB, &["node-1:12345", "node-2:12345"]);
    let fetched = world.create_task(copy("two", &["node-3:12345"])).unwrap();
    world.fetch_tasks(ALICE);
    let pending = world.create_task(copy("three", &["node-3:12345"])).unwrap();
    for _ in 0..5 {
        world.advance(5_000);
        world.ping(BOB, &[]);
        world.ping(CAROL, &[]);
    }
    for id in [fetched, pending] {
        assert_eq!(status(&mut world, id), failed("its client is gone"));
    }
    assert_eq!(world.holders("two"), ["node-2:12345"]);
    world.check();
}

#[test]
fn the_task_of_an_object_that_went_fails() {
    let mut world = world();
    put_on(&mut world, "lost", KIB, &["node-2:12345"]);
    let evicted = world.create_task(copy("k", &["node-2:12345"])).unwrap();
    let lost = world.create_task(copy("lost", &["node-3:12345"])).unwrap();
    world.fetch_tasks(ALICE);
    world.fetch_tasks(BOB);
    put_on(&mut world, "large", 64 * KIB, &["node-3:12345"]);
    put_on(&mut world, "larger", 64 * KIB, &["node-4:12345"]);
    world.unmount(BOB, 2, 0).unwrap();
    world.timeouts();
    assert_eq!(status(&mut world, lost), failed("REPLICA_IS_GONE (-712)"));
    assert_eq!(world.put("needs room", 64 * KIB).map(|_| ()), Ok(()));
    world.check();
    assert_eq!(world.version("k"), None, "eviction takes it all the same");
    assert_eq!(status(&mut world, evicted), failed("REPLICA_IS_GONE (-712)"));
    world.check();
}

#[test]
fn an_upsert_that_began_before_the_task_ends_it() {
    let mut world = world();
    let new = world.upsert(BOB, "k", KIB).unwrap();
    let id = world.create_task(copy("k", &["node-2:12345"])).unwrap();
    world.fetch_tasks(ALICE);
    assert_eq!(world.end(BOB, "k", &new.what, 0), Ok(()));
    assert_eq!(status(&mut world, id), failed("REPLICA_IS_GONE (-712)"));
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    assert_eq!(world.version("k"), Some(new.what.version));
    assert_eq!(world.meta.peek("k").unwrap().located.placements.len(), 1);
    world.check();
}

#[test]
fn targets_make_room_and_are_tried_again_if_there_is_none() {
    let mut world = world_with(Config { max_task_retries: 2, ..calm() });
    put_on(&mut world, "k", 32 * KIB, &["node-1:12345"]);
    put_on(&mut world, "old", 48 * KIB, &["node-2:12345"]);
    world.get("old").unwrap();
    let id = world.create_task(copy("k", &["node-3:12345", "node-2:12345"])).unwrap();
    let used = world.meta.stats().used_bytes;
    for _ in 0..2 {
        assert!(world.fetch_tasks(ALICE).orders.is_empty());
        assert!(has_tasks(&mut world, ALICE));
        assert_eq!(world.meta.stats().used_bytes, used, "what was reserved is given back");
        world.advance(500);
    }
    world.advance(4_000);
    assert_eq!(world.fetch_tasks(ALICE).orders.len(), 1);
    assert_eq!(world.version("old"), None);
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    world.check();
    let hard = ReplicateConfig {
        hard_pin: true,
        preferred_segments: vec!["node-4:12345"],
        ..ReplicateConfig::default()
    };
    world.put_with(ALICE, "hard", 48 * KIB, hard).unwrap();
    let id = world.create_task(copy("k", &["node-4:12345"])).unwrap();
    for _ in 0..3 {
        assert_eq!(status(&mut world, id).0, TaskStatus::Pending);
        for _ in 0..3 {
            assert!(world.fetch_tasks(ALICE).orders.is_empty(), "tried once in half a second");
        }
        world.advance(500);
    }
    assert_eq!(status(&mut world, id), failed("NO_AVAILABLE_HANDLE (-200)"));
    world.check();
}

#[test]
fn a_task_that_cannot_be_handed_out_keeps_none_behind_it_waiting() {
    let mut world = world_with(calm());
    let hard = ReplicateConfig {
        hard_pin: true,
        preferred_segments: vec!["node-4:12345"],
        ..ReplicateConfig::default()
    };
    world.put_with(ALICE, "hard", 64 * KIB, hard).unwrap();
    for key in ["roomless", "hopeless", "third"] {
        put_on(&mut world, key, KIB, &["node-1:12345"]);
    }
    let roomless = world.create_task(copy("roomless", &["node-4:12345"])).unwrap();
    let hopeless = world.create_task(copy("hopeless", &["node-2:12345"])).unwrap();
    let third = world.create_task(copy("third", &["node-3:12345"])).unwrap();
    world.unmount(BOB, 2, 0).unwrap();
    let mut fetch = || match world.ask(ALICE, &Request::FetchTasks { limit: 1, wait_ms: 0 }) {
        Reply::TasksFetched(fetched) => fetched.orders,
        other => panic!("{other:?}"),
    };
    let fetched: Vec<TaskId> = fetch().iter().map(|order| order.id).collect();
    assert_eq!((fetched, fetch().len()), (vec![third], 0));
    assert_eq!(status(&mut world, roomless).0, TaskStatus::Pending);
    assert_eq!(status(&mut world, hopeless), failed("SEGMENT_NOT_FOUND (-101)"));
    world.check();
}

#[test]
fn what_became_of_segments_since_is_seen_when_a_task_is_fetched() {
    let cases = [
        ("target unmounted", 2, 0, "SEGMENT_NOT_FOUND (-101)"),
        ("target leaving", 2, 60_000, "UNAVAILABLE_IN_CURRENT_STATUS (-1010)"),
        ("source unmounted", 3, 0, "REPLICA_NOT_FOUND (-710)"),
    ];
    for (name, segment, grace_ms, message) in cases {
        let mut world = world();
        put_on(&mut world, "two", KIB, &["node-1:12345", "node-3:12345"]);
        let id = world.create_task(moving("two", "node-3:12345", "node-2:12345")).unwrap();
        world.unmount(HOSTS[segment as usize - 1], segment, grace_ms).unwrap();
        world.timeouts();
        assert!(world.fetch_tasks(CAROL).orders.is_empty(), "{name}");
        assert_eq!(status(&mut world, id), failed(message), "{name}");
        world.check();
    }
    let mut world = world();
    let id = world.create_task(moving("k", "node-1:12345", "node-2:12345")).unwrap();
    world.fetch_tasks(ALICE);
    world.unmount(BOB, 2, 0).unwrap();
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    assert_eq!(status(&mut world, id), failed("REPLICA_IS_GONE (-712)"));
    assert_eq!(world.holders("k"), ["node-1:12345"]);
    world.check();
}

#[test]
fn limits_on_tasks_hold() {
    let config =
        Config { max_pending_tasks: 3, max_processing_tasks: 2, max_finished_tasks: 2, ..calm() };
    let mut world = world_with(config);
    let keys = ["a", "b", "c", "d"];
    for key in keys {
        put_on(&mut world, key, KIB, &["node-1:12345"]);
    }
    let ids: Vec<TaskId> = keys[..3]
        .iter()
        .map(|key| world.create_task(copy(key, &["node-2:12345"])).unwrap())
        .collect();
    let refused = world.create_task(copy("d", &["node-2:12345"]));
    assert_eq!(refused, Err(ErrorCode::TaskPendingLimitExceeded));
    assert_eq!(world.fetch_tasks(ALICE).orders.len(), 2);
    assert!(world.fetch_tasks(ALICE).orders.is_empty() && has_tasks(&mut world, ALICE));
    assert_eq!(world.end_task(ALICE, ids[0], Ok(())), Ok(()));
    assert_eq!(world.fetch_tasks(ALICE).orders.len(), 1);
    for &id in &ids[1..] {
        assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    }
    assert_eq!(world.query_task(ids[0]), Err(ErrorCode::TaskNotFound), "two are remembered");
    assert_eq!(status(&mut world, ids[1]), succeeded());
    let stats = world.meta.stats();
    assert_eq!((stats.pending_tasks, stats.processing_tasks), (0, 0));
    assert_eq!((stats.counters.tasks_succeeded, stats.counters.tasks_failed), (3, 0));
    let made = TaskCounts { begun: 3, made: 3, ..TaskCounts::default() };
    assert_eq!((stats.counters.copies, stats.counters.moves), (made, TaskCounts::default()));
    world.check();
}

#[test]
fn ids_carry_the_epoch_and_never_repeat() {
    let mut world = world();
    let mut ids: Vec<TaskId> = (0..100)
        .map(|_| {
            let id = world.create_task(copy("k", &["node-1:12345"])).unwrap();
            assert_eq!(status(&mut world, id), succeeded());
            id
        })
        .collect();
    assert!(ids.iter().all(|id| id.0 >> 64 == u128::from(world.meta.epoch().0)));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 100);
}

#[test]
fn a_group_may_be_evicted_for_the_copy_of_one_of_its_members() {
    let mut world = world();
    for (key, name) in [("a", "node-1:12345"), ("b", "node-2:12345")] {
        let put = PutItem { group: "g", ..PutItem::new(key, 40 * KIB) };
        let config =
            ReplicateConfig { preferred_segments: vec![name], ..ReplicateConfig::default() };
        let placed = world.begin(ALICE, put, config, PutMode::Insert).unwrap();
        assert_eq!(world.end(ALICE, key, &placed.what, 0), Ok(()));
    }
    let id = world.create_task(copy("a", &["node-2:12345"])).unwrap();
    assert!(world.fetch_tasks(ALICE).orders.is_empty());
    assert_eq!(status(&mut world, id), failed("REPLICA_IS_GONE (-712)"));
    assert_eq!(world.keys(), ["k"]);
    assert_eq!(world.meta.stats().used_bytes, 16 * KIB);
    world.check();
}

#[test]
fn no_object_gets_more_replicas_than_there_may_be() {
    let mut world = World::new(calm());
    let count = u128::from(limits::MAX_REPLICAS) + 1;
    for id in 1..=count {
        world.mount(ALICE, id, 64 * KIB).expect("the segment is a new one");
    }
    put_on(&mut world, "k", KIB, &["node-1:12345"]);
    let names: Vec<String> = (2..=count).map(|id| format!("node-{id}:12345")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(world.create_task(copy("k", &names)), Err(ErrorCode::InvalidParams));
    let id = world.create_task(copy("k", &names[1..])).unwrap();
    assert_eq!(world.fetch_tasks(ALICE).orders[0].targets.len(), names.len() - 1);
    world.check();
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    assert_eq!(world.holders("k").len(), limits::MAX_REPLICAS as usize);
    let move_one = moving("k", "node-1:12345", "node-2:12345");
    assert_eq!(world.create_task(move_one), Err(ErrorCode::InvalidParams), "for a while one more");
    world.check();
}
