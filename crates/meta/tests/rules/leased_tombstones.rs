//! Objects that are removed or replaced while readers have routes to them.

use mooncake_types::{
    CreateTask, ErrorCode, Grant, Located, PutEnd, PutItem, PutMode, Remains, ReplicateConfig,
    Reply, Request, Scan, ScanAction, TaskKind, TaskStatus, Version,
};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool};

type Answer = (Vec<Result<(), ErrorCode>>, Remains);

fn remaining(reply: Reply) -> Answer {
    match reply {
        Reply::Statuses(results) => (results, Remains::default()),
        Reply::Remaining { results, remains } => (results, remains),
        other => panic!("{other:?}"),
    }
}

fn remove(world: &mut World, key: &str, force: bool) -> Answer {
    let reply = world.ask(BOB, &Request::Remove { keys: vec![key], force });
    world.check();
    remaining(reply)
}

fn end(world: &mut World, key: &str, grant: &Grant) -> Answer {
    let put = PutEnd { key, version: grant.version, failed_replicas: 0, held_replicas: 0 };
    let reply = world.ask(BOB, &Request::PutEnd { puts: vec![put] });
    world.check();
    remaining(reply)
}

/// The versions that a lookup names, in the order in which to try them, and the lease.
fn chain(world: &mut World, key: &str) -> (Vec<Version>, u64) {
    match world.ask(BOB, &Request::GetReplicaList { keys: vec![key] }) {
        Reply::Located { results, successors, lease_ms, .. } => {
            let first = results[0].iter().map(|located| located.version);
            let newer = successors.iter().map(|(_, Located { version, .. })| *version);
            (first.chain(newer).collect(), lease_ms)
        }
        other => panic!("{other:?}"),
    }
}

fn versions(remains: &Remains) -> Vec<Version> {
    remains.ranges.iter().map(|range| range.version).collect()
}

const OK: [Result<(), ErrorCode>; 1] = [Ok(())];

#[test]
fn a_forced_removal_names_what_the_nodes_are_to_drop() {
    let mut world = pool(1, 64 * KIB);
    let put = world.put("k", 16 * KIB).unwrap();
    world.get("k").unwrap();
    world.advance(1_000);
    assert_eq!(
        remove(&mut world, "k", false),
        (vec![Err(ErrorCode::ObjectHasLease)], Remains::default())
    );
    let (results, remains) = remove(&mut world, "k", true);
    assert_eq!((&results[..], remains.lease_ms), (&OK[..], 4_000));
    let range = remains.ranges[0];
    assert_eq!((range.version, range.offset), (put.what.version, put.what.placements[0].offset));
    assert_eq!(remains.segments, put.segments);
    assert_eq!(world.get("k"), Err(ErrorCode::ObjectNotFound));
    assert_eq!(world.meta.stats().used_bytes, 16 * KIB, "its ranges are reserved");
    world.drop_remains(&remains);
    world.drop_remains(&remains);
    assert_eq!(world.meta.stats().used_bytes, 0);
    world.check();
}

#[test]
fn what_nobody_reads_is_free_at_once() {
    for force in [false, true] {
        let mut world = pool(1, 64 * KIB);
        let put = world.put("k", 16 * KIB).unwrap();
        let (results, remains) = remove(&mut world, "k", force);
        let named = vec![put.what.version];
        assert_eq!((&results[..], versions(&remains), remains.lease_ms), (&OK[..], named, 0));
        assert_eq!(world.meta.stats().used_bytes, 0);
    }
}

#[test]
fn a_remover_that_died_is_made_good_by_the_next_one_or_by_time() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 16 * KIB).unwrap();
    world.get("k").unwrap();
    let first = remove(&mut world, "k", true).1;
    let (results, again) = remove(&mut world, "k", true);
    assert_eq!((results, again), (vec![Err(ErrorCode::ObjectNotFound)], first));
    world.advance(4_999);
    assert_eq!(world.meta.stats().leased_tombstones, 1);
    world.advance(1);
    assert_eq!(world.meta.stats().leased_tombstones, 0);
    assert_eq!(world.meta.stats().used_bytes, 0);
    world.check();
}

#[test]
fn a_page_of_a_removal_names_them_too() {
    let mut world = pool(1, 64 * KIB);
    for key in ["a", "b", "c"] {
        world.put(key, KIB).unwrap();
        world.get(key).unwrap();
    }
    let action = ScanAction::Remove { force: true };
    let scan =
        Scan { tenant: Some("default"), pattern: Some("[ab]"), action, cursor: 0, limit: 100 };
    let Reply::Scanned(page) = world.ask(BOB, &Request::Scan(scan)) else { panic!("no page") };
    assert_eq!((page.removed, page.remains.ranges.len(), page.remains.lease_ms), (2, 2, 5_000));
    world.drop_remains(&page.remains);
    assert_eq!(world.meta.stats().used_bytes, KIB);
    world.check();
}

#[test]
fn a_newer_version_is_named_behind_those_that_readers_may_hold() {
    let mut world = pool(1, 64 * KIB);
    let old = world.put("k", KIB).unwrap().what;
    world.get("k").unwrap();
    world.advance(1_000);
    let new = world.upsert(BOB, "k", 2 * KIB).unwrap().what;
    assert_eq!(chain(&mut world, "k"), (vec![old.version], 5_000));
    let (results, remains) = end(&mut world, "k", &new);
    assert_eq!((&results[..], versions(&remains)), (&OK[..], vec![old.version]));
    world.advance(500);
    assert_eq!(chain(&mut world, "k"), (vec![old.version, new.version], 4_500), "no new lease");
    assert_eq!(end(&mut world, "k", &new).1.ranges, remains.ranges, "asked again");
    world.drop_remains(&remains);
    assert_eq!(chain(&mut world, "k"), (vec![new.version], 5_000));
    assert_eq!(world.meta.stats().used_bytes, 2 * KIB);
    world.check();
}

#[test]
fn a_writer_that_died_after_the_end_leaves_the_rest_to_time() {
    let mut world = pool(1, 64 * KIB);
    let old = world.put("k", KIB).unwrap().what;
    world.get("k").unwrap();
    let new = world.upsert(BOB, "k", KIB).unwrap().what;
    end(&mut world, "k", &new);
    for _ in 0..4 {
        world.advance(1_000);
        assert_eq!(
            chain(&mut world, "k").0,
            [old.version, new.version],
            "however often it is read"
        );
    }
    world.advance(1_000);
    assert_eq!(chain(&mut world, "k"), (vec![new.version], 5_000));
    world.check();
}

#[test]
fn an_upsert_waits_for_the_drops_of_the_one_before() {
    let mut world = pool(1, 64 * KIB);
    let first = world.put("k", KIB).unwrap().what;
    world.get("k").unwrap();
    let second = world.upsert(BOB, "k", KIB).unwrap().what;
    let third = world.upsert(BOB, "k", KIB).unwrap().what;
    end(&mut world, "k", &second);
    world.get("k").unwrap();
    let (results, remains) = end(&mut world, "k", &third);
    let busy = vec![Err(ErrorCode::ObjectReplicaBusy)];
    assert_eq!((results, versions(&remains)), (busy, vec![first.version]));
    assert_eq!(chain(&mut world, "k").0, [first.version, second.version]);
    world.drop_remains(&remains);
    let (results, remains) = end(&mut world, "k", &third);
    assert_eq!((&results[..], versions(&remains)), (&OK[..], vec![second.version]));
    assert_eq!(chain(&mut world, "k").0, [second.version, third.version]);
}

#[test]
fn an_overtaken_upsert_is_not_acknowledged_before_the_drops() {
    let mut world = pool(1, 64 * KIB);
    let old = world.put("k", KIB).unwrap().what;
    world.get("k").unwrap();
    let overtaken = world.upsert(BOB, "k", KIB).unwrap().what;
    let new = world.upsert(BOB, "k", KIB).unwrap().what;
    end(&mut world, "k", &new);
    let (results, remains) = end(&mut world, "k", &overtaken);
    let both = vec![old.version, overtaken.version];
    assert_eq!((&results[..], versions(&remains)), (&OK[..], both));
}

#[test]
fn a_put_of_a_key_that_was_removed_under_a_lease_comes_behind_it() {
    let mut world = pool(1, 64 * KIB);
    let old = world.put("k", KIB).unwrap().what;
    world.get("k").unwrap();
    remove(&mut world, "k", true);
    let new = world.start(BOB, "k", KIB).unwrap().what;
    let (results, remains) = end(&mut world, "k", &new);
    assert_eq!((&results[..], versions(&remains)), (&OK[..], vec![old.version]));
    assert_eq!(chain(&mut world, "k").0, [old.version, new.version]);
    let both = vec![old.version, new.version];
    assert_eq!(versions(&remove(&mut world, "k", true).1), both);
    assert_eq!(chain(&mut world, "k").0, []);
}

#[test]
fn versions_of_one_key_that_are_leaving_are_bounded() {
    let mut world = pool(1, 64 * KIB);
    for _ in 0..8 {
        world.put("k", KIB).unwrap();
        world.get("k").unwrap();
        assert_eq!(remove(&mut world, "k", true).0, OK);
    }
    world.put("k", KIB).unwrap();
    world.get("k").unwrap();
    let (results, remains) = remove(&mut world, "k", true);
    assert_eq!((results, remains.ranges.len()), (vec![Err(ErrorCode::ObjectReplicaBusy)], 8));
    world.advance(5_000);
    assert_eq!(remove(&mut world, "k", true).0, OK);
    world.check();
}

#[test]
fn a_removal_that_is_refused_does_not_have_the_living_object_dropped() {
    let mut world = pool(1, 64 * KIB);
    for _ in 0..8 {
        world.put("k", KIB).unwrap();
        world.get("k").unwrap();
        assert_eq!(remove(&mut world, "k", true).0, OK);
    }
    let living = world.put("k", KIB).unwrap().what.version;
    world.get("k").unwrap();
    let named = versions(&remove(&mut world, "k", true).1);
    assert_eq!((named.len(), named.contains(&living)), (8, false));
    let action = ScanAction::Remove { force: true };
    let scan = Scan { tenant: Some("default"), pattern: None, action, cursor: 0, limit: 100 };
    let Reply::Scanned(page) = world.ask(BOB, &Request::Scan(scan)) else { panic!("no page") };
    assert_eq!((page.removed, versions(&page.remains)), (0, named));
    world.drop_remains(&page.remains);
    assert_eq!(chain(&mut world, "k").0, [living]);
    world.check();
}

#[test]
fn a_leased_source_is_named_until_its_node_has_dropped_it() {
    let mut world = pool(2, 64 * KIB);
    world.put("k", KIB).unwrap();
    let source = world.holders("k").remove(0);
    let target = if source == "node-1:12345" { "node-2:12345" } else { "node-1:12345" };
    let task =
        CreateTask { key: "k", kind: TaskKind::Move, source: &source, targets: vec![target] };
    let id = world.create_task(task).unwrap();
    assert_eq!(world.fetch_tasks(ALICE).orders.len(), 1);
    world.get("k").unwrap();
    let ended = Request::EndTask { id, outcome: Ok(()) };
    let (results, remains) = remaining(world.ask(ALICE, &ended));
    assert_eq!((&results[..], remains.ranges.len(), remains.lease_ms), (&OK[..], 1, 5_000));
    assert_eq!(&*remains.segments[0].name, &*source);
    world.check();
    assert_eq!(world.holders("k").len(), 2);
    assert_eq!(remove(&mut world, "k", true).0, [Err(ErrorCode::ObjectHasReplicationTask)]);
    assert_eq!(world.ask(ALICE, &ended), Reply::Done(Ok(())));
    assert_eq!(world.holders("k"), [target]);
    assert_eq!(world.query_task(id).unwrap().status, TaskStatus::Success);
    world.check();
}

/// The node may notice late that its grace period has ended, and a reader has a route to it until its lease ends.
#[test]
fn what_lies_at_a_node_that_serves_longer_than_its_grace_period_is_named_when_it_is_replaced() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", KIB).unwrap();
    assert_eq!(world.unmount(ALICE, 1, 3_000), Ok(()));
    world.mount(BOB, 2, 64 * KIB).unwrap();
    world.advance(2_999);
    let old = world.get("k").unwrap().what.version;
    world.advance(1);
    assert!(!world.exist("k"), "nobody else gets a route");
    let new = world.start(BOB, "k", KIB).unwrap();
    let (results, remains) = end(&mut world, "k", &new.what);
    assert_eq!(results, [Ok(())]);
    let named: Vec<Version> = remains.ranges.iter().map(|range| range.version).collect();
    assert_eq!(named, [old]);
    world.advance(5_000);
    assert_eq!(world.meta.segments().len(), 1);
    assert_eq!(end(&mut world, "k", &new.what), (vec![Ok(())], Remains::default()), "it is over");
}

/// The segment has left, so its node has nothing to drop, and no drop would make the writer end the put again.
#[test]
fn a_put_does_not_wait_for_a_leased_tombstone_on_a_segment_that_has_just_gone() {
    let mut world = pool(2, 64 * KIB);
    let on = |segment: &'static str| ReplicateConfig {
        preferred_segments: vec![segment],
        ..ReplicateConfig::default()
    };
    let upsert = |world: &mut World, segment| {
        let placed = world.begin(ALICE, PutItem::new("k", KIB), on(segment), PutMode::Upsert);
        let grant = placed.expect("there is room").what;
        world.end(ALICE, "k", &grant, 0)
    };
    world.put_with(ALICE, "k", KIB, on("node-1:12345")).expect("there is room");
    world.get("k").expect("it is there");
    assert_eq!(upsert(&mut world, "node-2:12345"), Ok(()));
    world.get("k").expect("it is there");
    assert_eq!(world.meta.stats().leased_tombstones, 1);
    assert_eq!(world.unmount(ALICE, 1, 0), Ok(()));
    assert_eq!(upsert(&mut world, "node-2:12345"), Ok(()));
    world.check();
    world.timeouts();
    world.check();
}
