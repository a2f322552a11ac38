//! Entries that nodes lost, and report.

use mooncake_types::{
    ClientId, CreateTask, ErrorCode, Grant, Placement, PutItem, PutMode, RangeDrop,
    ReplicateConfig, Reply, Request, SegmentId, TaskKind, TaskOrders, TaskStatus, Version,
};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool};

/// A pool of two segments of Alice, with an object on both and one on the first.
fn world() -> World {
    let mut world = pool(2, 64 * KIB);
    for (key, nodes) in
        [("one", vec!["node-1:12345"]), ("two", vec!["node-1:12345", "node-2:12345"])]
    {
        let replica_num = nodes.len() as u32;
        let config = ReplicateConfig {
            replica_num,
            preferred_segments: nodes,
            ..ReplicateConfig::default()
        };
        world.put_with(ALICE, key, KIB, config).unwrap();
    }
    world
}

/// The replica of an object on the first segment.
fn first_range(world: &mut World, key: &str) -> RangeDrop {
    let located = world.get(key).unwrap();
    let at = located.segments.iter().position(|it| it.id == SegmentId(1)).expect("it is there");
    let version = located.what.version;
    let placement = located.what.placements.iter().find(|it| it.segment as usize == at);
    let offset = placement.expect("it has a replica there").offset;
    RangeDrop { segment: SegmentId(1), offset, version, grant: version }
}

fn report(world: &mut World, from: ClientId, losses: &[(&str, RangeDrop)]) {
    let (keys, ranges) = losses.iter().copied().unzip();
    let reply = world.ask(from, &Request::ReportLosses { keys, ranges });
    assert_eq!(reply, Reply::Done(Ok(())));
    world.check();
}

#[test]
fn a_key_whose_only_replica_is_lost_can_be_put_again() {
    let mut world = world();
    let lost = first_range(&mut world, "one");
    assert_eq!(world.put("one", KIB).unwrap_err(), ErrorCode::ObjectAlreadyExists);
    report(&mut world, ALICE, &[("one", lost)]);
    assert!(!world.holds("one"));
    world.put("one", KIB).expect("nothing is in the way");
    world.check();
}

#[test]
fn an_object_keeps_its_other_replica() {
    let mut world = world();
    let lost = first_range(&mut world, "two");
    report(&mut world, ALICE, &[("two", lost), ("two", lost)]);
    assert_eq!(world.holders("two"), ["node-2:12345"]);
}

#[test]
fn only_what_lies_there_now_on_a_segment_of_the_client_is_lost() {
    let mut world = world();
    let lost = first_range(&mut world, "one");
    let newer = Version { counter: lost.version.counter + 1, ..lost.version };
    for (from, key, range) in [
        (BOB, "one", lost),
        (ALICE, "missing", lost),
        (ALICE, "two", lost),
        (ALICE, "one", RangeDrop { version: newer, ..lost }),
        (ALICE, "one", RangeDrop { offset: lost.offset + 1, ..lost }),
        (ALICE, "one", RangeDrop { segment: SegmentId(2), ..lost }),
        (ALICE, "one", RangeDrop { segment: SegmentId(77), ..lost }),
    ] {
        report(&mut world, from, &[(key, range)]);
        assert_eq!(world.holders("one"), ["node-1:12345"], "{from} {key} {range:?}");
    }
    assert_eq!(world.holders("two").len(), 2);
}

/// A put that has not ended, and the ranges of its replicas on the first segment and the second.
fn running_put(world: &mut World, mode: PutMode, replicas: u32) -> (Grant, Vec<RangeDrop>) {
    let nodes = ["node-1:12345", "node-2:12345"];
    let preferred_segments = nodes[..replicas as usize].to_vec();
    let config =
        ReplicateConfig { replica_num: replicas, preferred_segments, ..ReplicateConfig::default() };
    let put = PutItem::new("one", KIB);
    let granted = world.begin(ALICE, put, config, mode).expect("there is room");
    let version = granted.what.version;
    let range = |it: &Placement| RangeDrop {
        segment: granted.segments[it.segment as usize].id,
        offset: it.offset,
        version,
        grant: version,
    };
    let ranges = granted.what.placements.iter().map(range).collect();
    (granted.what, ranges)
}

#[test]
fn what_is_lost_before_its_put_ends_is_no_replica_of_it() {
    for (is_upsert, replicas) in [(false, 1), (false, 2), (true, 1), (true, 2)] {
        let mut world = world();
        let mode = if is_upsert { PutMode::Upsert } else { PutMode::Insert };
        if !is_upsert {
            world.remove("one", true).unwrap();
        }
        let (grant, ranges) = running_put(&mut world, mode, replicas);
        report(&mut world, ALICE, &[("one", ranges[0])]);
        let ended = world.end(ALICE, "one", &grant, 0);
        world.check();
        if replicas == 2 {
            assert_eq!(ended, Ok(()));
            let left: Vec<String> = vec![format!("node-{}:12345", ranges[1].segment.0)];
            assert_eq!((world.version("one"), world.holders("one")), (Some(grant.version), left));
        } else {
            assert_eq!(ended, Err(ErrorCode::ObjectNotFound));
            assert_ne!(world.version("one"), Some(grant.version));
            assert_eq!(world.holds("one"), is_upsert, "the older version stays");
        }
    }
}

#[test]
fn what_is_lost_before_its_copy_ends_is_no_replica() {
    let mut world = world();
    let targets = vec!["node-2:12345"];
    let task = CreateTask { key: "one", kind: TaskKind::Copy, source: "", targets };
    let id = world.create_task(task).unwrap();
    let TaskOrders { orders, segments } = world.fetch_tasks(ALICE);
    let target = &orders[0].targets[0];
    let lost = RangeDrop {
        segment: segments[target.segment as usize].id,
        offset: target.offset,
        version: orders[0].version,
        grant: orders[0].grant,
    };
    report(&mut world, ALICE, &[("one", lost)]);
    world.end_task(ALICE, id, Ok(())).unwrap();
    world.check();
    assert_eq!(world.query_task(id).unwrap().status, TaskStatus::Failed, "there is no copy");
    assert_eq!(world.holders("one"), ["node-1:12345"]);
}
