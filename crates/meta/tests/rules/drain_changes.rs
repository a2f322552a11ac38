//! Drain jobs during puts, removals, tasks, lost clients, and the ends of other jobs.

use mooncake_meta::Config;
use mooncake_types::{
    CreateTask, DrainId, DrainStatus, ErrorCode, PutItem, PutMode, ReplicateConfig, Reply, Request,
    SegmentId, SegmentState, TaskKind, TaskStatus,
};

use crate::KIB;
use crate::drain::{
    A, B, C, CAROL, HOSTS, carry, drain, fetch, order, put_on, report, state, tally, world,
    world_with,
};
use crate::world::{ALICE, BOB, World};

#[test]
fn a_put_that_runs_is_waited_for_and_moved() {
    let mut world = world();
    let config = ReplicateConfig { preferred_segments: vec![A], ..ReplicateConfig::default() };
    let running = world.start_with(BOB, "late", 4 * KIB, config.clone()).unwrap();
    let given_up = world.start_with(BOB, "never", 4 * KIB, config).unwrap();
    assert_eq!(given_up.segments[0].id, SegmentId(1));
    let id = drain(&mut world, &[A], &[]);
    for _ in 0..30 {
        world.advance(100);
    }
    let waiting = report(&world, id);
    assert_eq!((waiting.status, waiting.blocked_units), (DrainStatus::Running, 2));
    world.end(BOB, "late", &running.what, 0).expect("its grant is good");
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
    assert_ne!(world.holders("late"), [A]);
    assert_eq!(state(&world, A), SegmentState::Drained, "what was given up holds nothing");
}

#[test]
fn what_is_removed_or_replaced_while_it_moves_is_no_failure() {
    let mut world = world();
    for key in ["removed", "replaced", "cleared"] {
        put_on(&mut world, key, 4 * KIB, &[A]);
    }
    let id = drain(&mut world, &[A], &[]);
    let orders = fetch(&mut world, ALICE);
    assert_eq!(orders.len(), 3);
    assert_eq!(world.remove("removed", true), Ok(()));
    let new = world.upsert(BOB, "replaced", 8 * KIB).expect("a drain is in nobody's way").what;
    world.end(BOB, "replaced", &new, 0).unwrap();
    world.advance(10_000);
    for host in HOSTS {
        world.ping(host, &[]);
    }
    assert_eq!(world.clear(ALICE, "cleared", ""), Ok(()));
    world.check();
    for order in orders {
        assert_eq!(world.end_task(ALICE, order.id, Ok(())), Ok(()), "{}", order.key);
    }
    assert_eq!(world.version("replaced"), Some(new.version));
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 0, 0, 0));
    assert_eq!(world.version("removed"), None, "it does not come back");
    assert_eq!(world.version("cleared"), None, "nor does this");
}

#[test]
fn what_is_replaced_before_its_turn_is_not_moved() {
    let mut world = world();
    for key in ["a", "b"] {
        put_on(&mut world, key, 4 * KIB, &[A]);
    }
    let id = world.meta.start_drain(world.now, &order(&[A], &[], 1)).unwrap();
    world.timeouts();
    let first = fetch(&mut world, ALICE).remove(0);
    let other = if first.key == "a" { "b" } else { "a" };
    let new = world.upsert(BOB, other, 4 * KIB).expect("nothing moves it yet").what;
    world.end(BOB, other, &new, 0).unwrap();
    world.end_task(ALICE, first.id, Ok(())).unwrap();
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
}

#[test]
fn an_object_with_a_task_of_a_caller_waits_for_its_end() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[A]);
    let copy = CreateTask { key: "k", kind: TaskKind::Copy, source: "", targets: vec![B] };
    let copy = world.create_task(copy).unwrap();
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(report(&world, id).blocked_units, 1);
    carry(&mut world, id, Ok(()));
    assert_eq!(world.query_task(copy).unwrap().status, TaskStatus::Success);
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
    assert_eq!(world.holders("k"), [B, C]);
}

#[test]
fn a_drain_takes_no_place_among_callers_tasks() {
    let config = Config {
        eviction_high_watermark_ratio: 1.0,
        max_pending_tasks: 1,
        max_processing_tasks: 1,
        max_finished_tasks: 1,
        ..Config::default()
    };
    let mut world = world_with(config);
    for key in ["a", "b", "c"] {
        put_on(&mut world, key, 4 * KIB, &[A]);
    }
    put_on(&mut world, "k", 4 * KIB, &[B]);
    let id = drain(&mut world, &[A], &[C]);
    assert_eq!(report(&world, id).active_units, 3);
    let copy = CreateTask { key: "k", kind: TaskKind::Copy, source: "", targets: vec![C] };
    let copy = world.create_task(copy).expect("a drain does not count");
    assert_eq!(fetch(&mut world, BOB).len(), 1);
    assert_eq!(fetch(&mut world, ALICE).len(), 3, "nor against what is worked on");
    world.end_task(BOB, copy, Ok(())).unwrap();
    world.check();
    for order in world.meta.running_drains().iter().map(|job| job.id).collect::<Vec<_>>() {
        assert_eq!(order, id);
    }
    assert!(world.query_task(copy).is_ok(), "it is remembered beside the drain's");
}

#[test]
fn a_target_that_dies_costs_an_attempt_and_no_object() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    let order = world.fetch_tasks(ALICE);
    let target = order.segments[order.orders[0].targets[0].segment as usize].id;
    let (host, other) = if target == SegmentId(2) { (BOB, C) } else { (CAROL, B) };
    world.unmount(host, target.0, 0).expect("it is its own");
    world.end_task(ALICE, order.orders[0].id, Ok(())).unwrap();
    assert_eq!(tally(&world, id), (DrainStatus::Running, 0, 0, 1));
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
    assert_eq!(world.holders("k"), [other]);
}

#[test]
fn a_source_that_is_out_of_sight_is_waited_for() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[A]);
    world.disconnect(ALICE);
    let id = drain(&mut world, &[A], &[]);
    let waiting = report(&world, id);
    assert_eq!((waiting.status, waiting.blocked_units), (DrainStatus::Running, 1));
    world.ping(ALICE, &[SegmentId(1)]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
}

#[test]
fn a_source_that_leaves_before_all_was_moved_ends_the_job_as_failed() {
    for begun in [false, true] {
        let mut world = world();
        put_on(&mut world, "a", 4 * KIB, &[A]);
        put_on(&mut world, "b", 4 * KIB, &[A]);
        let id = world.meta.start_drain(world.now, &order(&[A], &[], 1)).unwrap();
        world.timeouts();
        let orders = if begun { fetch(&mut world, ALICE) } else { vec![] };
        world.unmount(ALICE, 1, 0).expect("it is its own");
        for order in orders {
            world.end_task(ALICE, order.id, Err(ErrorCode::TransferFail)).unwrap();
        }
        carry(&mut world, id, Ok(()));
        let report = report(&world, id);
        assert_eq!((report.status, report.moved_units), (DrainStatus::Failed, 0));
        assert_eq!(
            report.message,
            "Drain job failed: node-1:12345 left the pool before all was moved"
        );
    }
}

#[test]
fn the_client_of_a_source_that_dies_ends_the_job() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(fetch(&mut world, ALICE).len(), 1);
    world.disconnect(ALICE);
    for _ in 0..300 {
        world.advance(100);
        world.ping(BOB, &[]);
        world.ping(CAROL, &[]);
    }
    assert_eq!(report(&world, id).status, DrainStatus::Failed);
    assert_eq!(world.version("k"), None);
    world.check();
}

#[test]
fn one_of_two_segments_that_is_drained_may_leave_before_the_other_is() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[B]);
    let id = drain(&mut world, &[A, B], &[]);
    let moved = fetch(&mut world, BOB).remove(0);
    world.end_task(BOB, moved.id, Err(ErrorCode::TransferFail)).unwrap();
    world.timeouts();
    assert_eq!(
        (state(&world, A), state(&world, B)),
        (SegmentState::Drained, SegmentState::Draining)
    );
    world.unmount(ALICE, 1, 0).expect("nothing is there");
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
}

#[test]
fn a_canceled_job_lets_what_is_on_its_way_arrive_and_the_segment_takes_puts_again() {
    let mut world = world();
    for key in ["a", "b", "c"] {
        put_on(&mut world, key, 4 * KIB, &[A]);
    }
    let id = world.meta.start_drain(world.now, &order(&[A], &[C], 2)).unwrap();
    world.timeouts();
    let Reply::TasksFetched(fetched) =
        world.ask(ALICE, &Request::FetchTasks { limit: 1, wait_ms: 0 })
    else {
        panic!("no tasks")
    };
    assert_eq!(world.meta.cancel_drain(world.now, id), Ok(()));
    assert_eq!(world.meta.cancel_drain(world.now, id), Err(ErrorCode::UnavailableInCurrentStatus));
    assert_eq!(state(&world, A), SegmentState::Ok);
    assert!(fetch(&mut world, ALICE).is_empty());
    world.end_task(ALICE, fetched.orders[0].id, Ok(())).unwrap();
    world.timeouts();
    assert_eq!(tally(&world, id), (DrainStatus::Canceled, 1, 0, 0));
    assert_eq!(report(&world, id).active_units, 0);
    assert_eq!(world.holders(&fetched.orders[0].key), [C]);
    put_on(&mut world, "new", KIB, &[A]);
    world.check();
    let id = drain(&mut world, &[A], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 3, 0, 0));
}

#[test]
fn a_node_has_its_own_segments_drained_and_asks_again_how_far_that_is() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[A]);
    let ask = |world: &mut World, from, segments: &[SegmentId]| match world
        .ask(from, &Request::DrainSegments { segments: segments.to_vec() })
    {
        Reply::Draining(report) => Ok(*report),
        Reply::Refused(code) => Err(code),
        other => panic!("{other:?}"),
    };
    assert_eq!(ask(&mut world, ALICE, &[]), Err(ErrorCode::InvalidParams));
    assert_eq!(ask(&mut world, ALICE, &[SegmentId(2)]), Err(ErrorCode::IllegalClient));
    assert_eq!(ask(&mut world, ALICE, &[SegmentId(9)]), Err(ErrorCode::SegmentNotFound));
    assert_eq!(state(&world, A), SegmentState::Ok);
    let first = ask(&mut world, ALICE, &[SegmentId(1)]).unwrap();
    assert_eq!((first.status, first.remaining_units), (DrainStatus::Created, 1));
    let again = ask(&mut world, ALICE, &[SegmentId(1)]).unwrap();
    assert_eq!(again.id, first.id);
    carry(&mut world, first.id, Ok(()));
    let last = ask(&mut world, ALICE, &[SegmentId(1)]).unwrap();
    assert_eq!((last.id, last.status, last.moved_units), (first.id, DrainStatus::Succeeded, 1));
    let again = ask(&mut world, ALICE, &[SegmentId(1)]).unwrap();
    assert_eq!((again.id, again.status), (first.id, DrainStatus::Succeeded), "it stays so");
    // A failed job is reported once; the same request then starts a new job.
    world.disconnect(ALICE);
    world.disconnect(CAROL);
    let failing = ask(&mut world, BOB, &[SegmentId(2)]).unwrap();
    world.timeouts();
    let failed = ask(&mut world, BOB, &[SegmentId(2)]).unwrap();
    assert_eq!(
        (failed.id, failed.status, failed.failed_units),
        (failing.id, DrainStatus::Failed, 1)
    );
    let next = ask(&mut world, BOB, &[SegmentId(2)]).unwrap();
    assert_eq!(next.status, DrainStatus::Created);
    assert_ne!(next.id, failed.id);
    world.check();
}

#[test]
fn what_lies_on_a_segment_that_leaves_after_a_grace_period_is_moved_until_then() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[A]);
    assert_eq!(world.unmount(ALICE, 1, 5_000), Ok(()));
    world.timeouts();
    assert_eq!(state(&world, A), SegmentState::GracefullyUnmounting);
    for order in fetch(&mut world, ALICE) {
        world.end_task(ALICE, order.id, Ok(())).unwrap();
    }
    world.timeouts();
    world.check();
    assert_eq!(state(&world, A), SegmentState::GracefullyUnmounting);
    // After the grace period no client receives a route to the segment, and a lease later it is gone.
    for _ in 0..2 {
        world.advance(5_000);
        for host in [BOB, CAROL] {
            world.ping(host, &[]);
        }
        world.check();
    }
    assert_eq!(world.meta.segments().len(), 2);
    assert!(world.version("k").is_some());
}

#[test]
fn a_drained_segment_stays_so_when_its_node_mounts_it_again() {
    let mut world = world();
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 0, 0, 0));
    assert_eq!(world.mount(ALICE, 1, 64 * KIB), Ok(()));
    world.disconnect(ALICE);
    world.ping(ALICE, &[SegmentId(1)]);
    assert_eq!(state(&world, A), SegmentState::Drained);
    world.put("k", KIB).expect("there is room");
    assert_ne!(world.holders("k"), [A]);
    world.check();
}

#[test]
fn only_a_hundred_jobs_that_have_ended_are_remembered() {
    let mut world = world();
    let ids: Vec<DrainId> = (0..102)
        .map(|_| {
            let id = drain(&mut world, &[A], &[]);
            assert_eq!(tally(&world, id).0, DrainStatus::Succeeded);
            world.unmount(ALICE, 1, 0).expect("nothing is there");
            world.mount(ALICE, 1, 64 * KIB).expect("it is a new one");
            id
        })
        .collect();
    let known = ids.iter().map(|&id| world.meta.drain(id).is_some());
    assert_eq!(known.collect::<Vec<_>>(), [vec![false; 2], vec![true; 100]].concat());
    assert_eq!(world.meta.take_ended_drains().len(), 100);
    let put =
        world.begin(ALICE, PutItem::new("k", KIB), ReplicateConfig::default(), PutMode::Insert);
    put.expect("there is room");
    world.check();
}
