//! Drain jobs: a segment is emptied without losing objects.

use mooncake_meta::Config;
use mooncake_types::{
    ClientId, CreateTask, DrainId, DrainOrder, DrainReport, DrainStatus, ErrorCode, Located,
    ReplicateConfig, Reply, Request, SegmentState, SoftPin, TaskKind, TaskOrder,
};

use crate::KIB;
use crate::world::{ALICE, BOB, World};

pub(crate) const CAROL: ClientId = ClientId(3);
pub(crate) const HOSTS: [ClientId; 3] = [ALICE, BOB, CAROL];
pub(crate) const A: &str = "node-1:12345";
pub(crate) const B: &str = "node-2:12345";
pub(crate) const C: &str = "node-3:12345";

/// Segments of 64 KiB: Alice lends `node-1:12345`, Bob `node-2:12345`, Carol `node-3:12345`.
pub(crate) fn world_with(config: Config) -> World {
    let mut world = World::new(config);
    for (id, host) in (1..).zip(HOSTS) {
        world.mount(host, id, 64 * KIB).expect("the segment is a new one");
    }
    world
}

pub(crate) fn world() -> World {
    world_with(Config { eviction_high_watermark_ratio: 1.0, ..Config::default() })
}

pub(crate) fn put_on(world: &mut World, key: &str, len: u64, names: &[&'static str]) {
    let config = ReplicateConfig {
        replica_num: names.len() as u32,
        preferred_segments: names.to_vec(),
        ..ReplicateConfig::default()
    };
    world.put_with(ALICE, key, len, config).expect("there is room");
    assert_eq!(world.holders(key), names);
}

pub(crate) fn order(segments: &[&str], targets: &[&str], max_concurrency: u32) -> DrainOrder {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    DrainOrder { segments: owned(segments), targets: owned(targets), max_concurrency }
}

pub(crate) fn drain(world: &mut World, segments: &[&str], targets: &[&str]) -> DrainId {
    let id = world.meta.start_drain(world.now, &order(segments, targets, 4));
    let id = id.expect("the order makes sense");
    world.timeouts();
    id
}

pub(crate) fn report(world: &World, id: DrainId) -> DrainReport {
    world.meta.drain(id).expect("the job is known")
}

/// The status of a job, and its moved, released and failed units.
pub(crate) fn tally(world: &World, id: DrainId) -> (DrainStatus, u64, u64, u64) {
    let report = report(world, id);
    (report.status, report.moved_units, report.released_units, report.failed_units)
}

pub(crate) fn state(world: &World, name: &str) -> SegmentState {
    let reports = world.meta.segments();
    reports.iter().find(|report| &*report.name == name).expect("it is mounted").state
}

/// Fetches all tasks of a client.
pub(crate) fn fetch(world: &mut World, host: ClientId) -> Vec<TaskOrder> {
    world.fetch_tasks(host).orders
}

/// Ends all tasks with `outcome`, and advances the time, until the job has ended.
pub(crate) fn carry(world: &mut World, id: DrainId, outcome: Result<(), ErrorCode>) {
    for _ in 0..1_000 {
        for host in HOSTS {
            for order in fetch(world, host) {
                world.check();
                assert_eq!(world.end_task(host, order.id, outcome), Ok(()));
                world.check();
            }
            world.fetch_drops(host);
            world.ping(host, &[]);
        }
        if report(world, id).status.has_ended() {
            return world.check();
        }
        world.advance(100);
    }
    panic!("the job does not end: {:?}", report(world, id));
}

#[test]
fn a_drained_segment_is_empty_and_everything_can_be_read_elsewhere() {
    let mut world = world();
    let keys: Vec<String> = (0..12).map(|number| format!("k{number}")).collect();
    keys.iter().for_each(|key| put_on(&mut world, key, 4 * KIB, &[A]));
    let versions: Vec<_> = keys.iter().map(|key| world.version(key)).collect();
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(state(&world, A), SegmentState::Draining);
    let running = report(&world, id);
    assert_eq!((running.status, running.active_units), (DrainStatus::Running, 4));
    assert_eq!((running.remaining_units, running.remaining_bytes), (12, 48 * KIB));
    carry(&mut world, id, Ok(()));
    let ended = report(&world, id);
    assert_eq!((ended.moved_units, ended.moved_bytes), (12, 48 * KIB));
    assert_eq!((ended.failed_units, ended.remaining_units, ended.remaining_bytes), (0, 0, 0));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 12, 0, 0));
    assert_eq!(state(&world, A), SegmentState::Drained);
    assert_eq!(world.meta.stats().counters.drain_moved, 12);
    assert_eq!(world.meta.take_ended_drains(), [ended]);
    assert!(world.meta.take_ended_drains().is_empty() && world.meta.running_drains().is_empty());
    // Each of the other two segments received a half.
    let on = |world: &World, name: &str| {
        keys.iter().filter(|key| world.holders(key) == [name.to_owned()]).count()
    };
    assert_eq!((on(&world, B), on(&world, C)), (6, 6));
    world.unmount(ALICE, 1, 0).expect("it is Alice's");
    world.timeouts();
    let after: Vec<_> = keys.iter().map(|key| world.version(key)).collect();
    assert_eq!(after, versions, "the same versions as before");
    world.check();
}

#[test]
fn nothing_is_put_on_a_segment_from_the_moment_that_its_drain_begins() {
    let mut world = world();
    let id = world.meta.start_drain(world.now, &order(&[A], &[], 1)).unwrap();
    for number in 0..20 {
        let key = format!("k{number}");
        let config = ReplicateConfig { preferred_segments: vec![A], ..ReplicateConfig::default() };
        world.put_with(ALICE, &key, KIB, config).expect("there is room");
        assert_ne!(world.holders(&key), [A], "{key}");
    }
    put_on(&mut world, "copied", KIB, &[B]);
    let copy = CreateTask { key: "copied", kind: TaskKind::Copy, source: "", targets: vec![A] };
    assert_eq!(world.create_task(copy), Err(ErrorCode::UnavailableInCurrentStatus));
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 0, 0, 0));
}

#[test]
fn orders_that_make_no_sense_are_refused_and_change_nothing() {
    let mut world = world();
    let many: Vec<String> = (0..257).map(|number| format!("n{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let cases = [
        (order(&[], &[], 1), ErrorCode::InvalidParams),
        (order(&[A], &[], 0), ErrorCode::InvalidParams),
        (order(&[A, A], &[], 1), ErrorCode::InvalidParams),
        (order(&[A], &[A], 1), ErrorCode::InvalidParams),
        (order(&many, &[], 1), ErrorCode::InvalidParams),
        (order(&[A], &many, 1), ErrorCode::InvalidParams),
        (order(&["none"], &[], 1), ErrorCode::SegmentNotFound),
        (order(&[A, "none"], &[], 1), ErrorCode::SegmentNotFound),
        (order(&[A], &["none"], 1), ErrorCode::SegmentNotFound),
    ];
    for (wrong, code) in cases {
        assert_eq!(world.meta.start_drain(world.now, &wrong), Err(code), "{wrong:?}");
        assert_eq!(state(&world, A), SegmentState::Ok, "{wrong:?}");
    }
    drain(&mut world, &[A], &[]);
    for again in [order(&[A], &[], 1), order(&[B], &[A], 1)] {
        let refused = world.meta.start_drain(world.now, &again);
        assert_eq!(refused, Err(ErrorCode::UnavailableInCurrentStatus), "{again:?}");
    }
    assert_eq!(world.meta.drain(DrainId(1)), None);
    assert_eq!(world.meta.cancel_drain(world.now, DrainId(1)), Err(ErrorCode::JobNotFound));
    world.check();
}

#[test]
fn units_go_only_to_the_targets_that_were_named() {
    let mut world = world();
    for key in ["a", "b", "c"] {
        put_on(&mut world, key, 4 * KIB, &[A]);
    }
    let id = drain(&mut world, &[A], &[C]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 3, 0, 0));
    for key in ["a", "b", "c"] {
        assert_eq!(world.holders(key), [C], "{key}");
    }
}

#[test]
fn no_more_units_are_moved_at_a_time_than_was_asked() {
    let mut world = world();
    for key in ["a", "b", "c", "d", "e"] {
        put_on(&mut world, key, 4 * KIB, &[A]);
    }
    let id = world.meta.start_drain(world.now, &order(&[A], &[], 2)).unwrap();
    world.timeouts();
    for _ in 0..5 {
        let orders = fetch(&mut world, ALICE);
        assert!((1..=2).contains(&orders.len()), "{orders:?}");
        assert_eq!(report(&world, id).active_units, orders.len() as u64);
        for order in orders {
            world.end_task(ALICE, order.id, Ok(())).unwrap();
        }
        world.timeouts();
        if report(&world, id).remaining_units == 0 {
            break;
        }
    }
    world.timeouts();
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 5, 0, 0));
}

#[test]
fn a_drain_evicts_nothing_and_says_how_much_it_could_not_move() {
    let mut world = world();
    put_on(&mut world, "b", 40 * KIB, &[B]);
    put_on(&mut world, "c", 40 * KIB, &[C]);
    put_on(&mut world, "large", 32 * KIB, &[A]);
    put_on(&mut world, "small", 8 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Failed, 1, 0, 1));
    let report = report(&world, id);
    assert_eq!((report.remaining_units, report.remaining_bytes), (1, 32 * KIB));
    assert_eq!(
        report.message,
        format!(
            "Drain job failed: unrecoverable units remain ({}: 1); no segment that takes puts has room, and a drain \
             evicts nothing: add a node",
            ErrorCode::NoAvailableHandle
        )
    );
    assert_eq!(world.meta.stats().counters.evictions_attempted, 0);
    for (key, holder) in [("b", B), ("c", C), ("large", A)] {
        assert_eq!(world.holders(key), [holder]);
    }
    assert_eq!(state(&world, A), SegmentState::Ok, "it takes puts again");
    put_on(&mut world, "new", KIB, &[A]);
}

#[test]
fn no_target_is_filled_above_its_watermark() {
    let mut world = world_with(Config { eviction_high_watermark_ratio: 0.5, ..Config::default() });
    put_on(&mut world, "b", 28 * KIB, &[B]);
    put_on(&mut world, "c", 28 * KIB, &[C]);
    put_on(&mut world, "fits", 4 * KIB, &[A]);
    put_on(&mut world, "does not", 8 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Failed, 1, 0, 1));
    assert_eq!(world.meta.stats().counters.evictions_attempted, 0);
}

#[test]
fn where_nobody_takes_anything_a_job_fails_at_once() {
    let mut world = World::new(Config::default());
    world.mount(ALICE, 1, 64 * KIB).unwrap();
    put_on(&mut world, "k", 4 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(tally(&world, id), (DrainStatus::Failed, 0, 0, 1));
    assert_eq!(state(&world, A), SegmentState::Ok);
    world.check();
}

#[test]
fn room_that_appears_while_a_job_runs_is_used() {
    let mut world = world();
    put_on(&mut world, "b", 60 * KIB, &[B]);
    put_on(&mut world, "c", 60 * KIB, &[C]);
    put_on(&mut world, "a", 16 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(tally(&world, id), (DrainStatus::Running, 0, 0, 1));
    world.remove("c", false).expect("nobody reads it");
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
}

#[test]
fn a_unit_whose_moves_fail_is_tried_three_times_and_elsewhere_each_time() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    let mut targets = Vec::new();
    while !report(&world, id).status.has_ended() {
        for order in fetch(&mut world, ALICE) {
            targets.push(order.targets[0].offset);
            world.end_task(ALICE, order.id, Err(ErrorCode::TransferFail)).unwrap();
        }
        world.advance(100);
        world.ping(ALICE, &[]);
    }
    assert_eq!(targets.len(), 3);
    assert_eq!(tally(&world, id), (DrainStatus::Failed, 0, 0, 1));
    assert!(report(&world, id).message.contains(&ErrorCode::TransferFail.to_string()));
    assert_eq!((world.holders("k"), state(&world, A)), (vec![A.to_owned()], SegmentState::Ok));
    assert_eq!(world.meta.stats().counters.drain_failures, 3);
}

#[test]
fn an_object_that_failed_once_is_moved_at_the_next_attempt() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    let first = fetch(&mut world, ALICE).remove(0);
    world.end_task(ALICE, first.id, Err(ErrorCode::TransferFail)).unwrap();
    assert_eq!(tally(&world, id), (DrainStatus::Running, 0, 0, 1));
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
}

#[test]
fn of_two_replicas_the_one_there_moves_to_where_none_is() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[A, B]);
    let id = drain(&mut world, &[A], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
    assert_eq!(world.holders("k"), [B, C]);
}

#[test]
fn a_replica_that_has_no_room_elsewhere_is_let_go_if_another_stays() {
    let mut world = world();
    put_on(&mut world, "k", 16 * KIB, &[A, B]);
    put_on(&mut world, "c", 60 * KIB, &[C]);
    let id = drain(&mut world, &[A], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 0, 1, 0));
    assert_eq!((world.holders("k"), world.holders("c")), (vec![B.to_owned()], vec![C.to_owned()]));
}

#[test]
fn replicas_on_two_drained_segments_are_not_taken_for_each_others_rescue() {
    let mut world = world();
    put_on(&mut world, "k", 40 * KIB, &[A, B]);
    put_on(&mut world, "c", 40 * KIB, &[C]);
    let id = drain(&mut world, &[A, B], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Failed, 0, 0, 2));
    assert_eq!(world.holders("k"), [A, B]);
    world.remove("c", false).expect("nobody reads it");
    let id = drain(&mut world, &[A, B], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 1, 0));
    assert_eq!(world.holders("k"), [C]);
}

#[test]
fn what_is_read_all_the_time_is_moved_and_its_old_place_dropped_first() {
    let mut world = world();
    put_on(&mut world, "k", 4 * KIB, &[A]);
    world.get("k").expect("it is there");
    let id = drain(&mut world, &[A], &[B]);
    let order = fetch(&mut world, ALICE).remove(0);
    world.get("k").expect("it is there while it moves");
    let ended = Request::EndTask { id: order.id, outcome: Ok(()) };
    let Reply::Remaining { .. } = world.ask(ALICE, &ended) else { panic!("a reader has a route") };
    assert_eq!(report(&world, id).active_units, 1);
    assert_eq!(world.holders("k"), [A, B]);
    assert_eq!(world.ask(ALICE, &ended), Reply::Done(Ok(())));
    world.timeouts();
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
    assert_eq!(world.holders("k"), [B]);
}

#[test]
fn hard_and_soft_pins_and_groups_stay_with_what_is_moved() {
    let mut world = world();
    let pinned = |hard, soft| ReplicateConfig {
        preferred_segments: vec![A],
        hard_pin: hard,
        soft_pin: soft,
        ..ReplicateConfig::default()
    };
    world.put_with(ALICE, "hard", 8 * KIB, pinned(true, SoftPin::Disable)).unwrap();
    world.put_with(ALICE, "soft", 8 * KIB, pinned(false, SoftPin::Sliding)).unwrap();
    let id = drain(&mut world, &[A], &[B]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 2, 0, 0));
    assert_eq!(world.meta.stats().soft_pinned_keys, 1);
    // No later put evicts the pinned object.
    for number in 0..60 {
        let config = ReplicateConfig { preferred_segments: vec![B], ..ReplicateConfig::default() };
        world.put_with(ALICE, &format!("n{number}"), 8 * KIB, config).expect("others are evicted");
    }
    assert!(world.meta.stats().counters.evicted_keys > 0);
    assert_eq!(world.holders("hard"), [B]);
    world.check();
}

#[test]
fn members_of_a_group_stay_one_group() {
    let mut world = World::new(Config::default());
    world.mount(ALICE, 1, 64 * KIB).unwrap();
    for key in ["g1", "g2"] {
        world.put_member(key, 4 * KIB, "group").expect("there is room");
    }
    world.mount(BOB, 2, 64 * KIB).unwrap();
    let id = drain(&mut world, &[A], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 2, 0, 0));
    assert_eq!((world.holders("g1"), world.holders("g2")), (vec![B.into()], vec![B.into()]));
    assert_eq!(world.meta.stats().groups, 1);
}

#[test]
fn a_striped_object_is_moved_whole() {
    let mib = KIB << 10;
    let config = Config {
        eviction_high_watermark_ratio: 1.0,
        stripe_threshold_bytes: 2 * mib,
        ..Config::default()
    };
    let mut world = World::new(config);
    for (id, host) in (1..).zip(HOSTS).take(2) {
        world.mount(host, id, 64 * mib).expect("the segment is a new one");
    }
    world.put("striped", 8 * mib).expect("there is room");
    assert_eq!(world.holders("striped"), [A, B]);
    let version = world.version("striped");
    let id = drain(&mut world, &[A], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
    assert_eq!((world.holders("striped"), world.version("striped")), (vec![B.into()], version));
}

#[test]
fn what_fits_no_target_in_one_piece_goes_there_in_several() {
    let mib = KIB << 10;
    let mut world = World::new(Config { eviction_high_watermark_ratio: 1.0, ..Config::default() });
    world.mount(ALICE, 1, 64 * mib).unwrap();
    world.put("large", 24 * mib).expect("there is room");
    for (id, host) in [(2, BOB), (3, CAROL)] {
        world.mount(host, id, 16 * mib).expect("the segment is a new one");
    }
    let id = drain(&mut world, &[A], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 1, 0, 0));
    assert_eq!(world.holders("large"), [B, C]);
    let whole: Located = world.get("large").unwrap().what;
    assert_eq!(whole.placements.iter().map(|place| place.len).sum::<u64>(), 24 * mib);
}

#[test]
fn a_drained_segment_is_given_back_to_puts() {
    let mut world = world();
    put_on(&mut world, "moved", 4 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(state(&world, A), SegmentState::Drained);
    assert_eq!(world.meta.undrain(world.now, A), Ok(()));
    world.check();
    assert_eq!(state(&world, A), SegmentState::Ok);
    put_on(&mut world, "back", 4 * KIB, &[A]);
    // The same while the drain runs, which is canceled by it.
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(state(&world, A), SegmentState::Draining);
    assert_eq!(world.meta.undrain(world.now, A), Ok(()));
    world.check();
    assert_eq!(report(&world, id).status, DrainStatus::Canceled);
    assert_eq!(state(&world, A), SegmentState::Ok);
    assert_eq!(world.holders("back"), [A]);
    // One that is not drained stays as it is.
    assert_eq!(world.meta.undrain(world.now, B), Ok(()));
    assert_eq!(world.meta.undrain(world.now, "nobody"), Err(ErrorCode::SegmentNotFound));
}
