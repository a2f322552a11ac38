//! Segments, their clients, and leaders.

use mooncake_meta::{Config, Notice};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, MountOutcome, MountSegment, ReplicateConfig, Reply, Request,
    SegmentId, SegmentState, limits,
};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool, pool_with};

const READY: Reply = Reply::Mounted(MountOutcome::Ready);

#[test]
fn an_unmounted_segment_takes_its_objects_along() {
    let mut world = pool(1, 64 * KIB);
    world.mount(BOB, 2, 64 * KIB).unwrap();
    let two = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    world.put_with(ALICE, "both", 1, two.clone()).unwrap();
    let running = world.start_with(ALICE, "running", 1, two).unwrap();
    let only =
        ReplicateConfig { preferred_segments: vec!["node-2:12345"], ..ReplicateConfig::default() };
    world.put_with(ALICE, "only", 1, only).unwrap();
    assert_eq!(world.unmount(ALICE, 2, 0), Err(ErrorCode::IllegalClient));
    assert_eq!(world.unmount(BOB, 9, 0), Err(ErrorCode::SegmentNotFound));
    assert_eq!(world.unmount(BOB, 2, 0), Ok(()));
    assert_eq!(world.get("only"), Err(ErrorCode::ObjectNotFound), "at once, before any timeout");
    assert_eq!(world.get("both").unwrap().segments[0].id, SegmentId(1));
    world.timeouts();
    world.check();
    assert_eq!(world.end(ALICE, "running", &running.what, 0), Ok(()));
    assert_eq!(world.get("running").unwrap().what.placements.len(), 1);
    assert_eq!(
        world.mount(BOB, 2, 64 * KIB),
        Err(ErrorCode::SegmentAlreadyExists),
        "writers of before may be on their way there"
    );
    assert_eq!(world.mount(BOB, 3, 64 * KIB), Ok(()), "it may come back under another id");
    world.check();
}

#[test]
fn an_operator_is_told_of_segments_that_come_and_go_and_of_what_lay_there() {
    let mut world = pool(1, 64 * KIB);
    let node = |id: u128| -> std::sync::Arc<str> { format!("node-{id}:12345").into() };
    let joins = |id| Notice::SegmentJoins { name: node(id), endpoint: node(id), len: 64 * KIB };
    assert_eq!(world.meta.take_notices(), [joins(1)]);
    world.mount(BOB, 2, 64 * KIB).unwrap();
    assert_eq!(world.meta.take_notices(), [joins(2)]);
    let on =
        |name| ReplicateConfig { preferred_segments: vec![name], ..ReplicateConfig::default() };
    world.put_with(ALICE, "one", 1, on("node-1:12345")).unwrap();
    for key in ["two", "three"] {
        world.put_with(ALICE, key, KIB, on("node-2:12345")).unwrap();
    }
    let [first, second] = [1, 2].map(|id| world.meta.segments()[id - 1].used);
    world.ping(ALICE, &[SegmentId(1)]);
    world.disconnect(ALICE);
    let lost = |id| Notice::SightLost { name: node(id), segments: 1 };
    assert_eq!(world.meta.take_notices(), [lost(1)]);
    world.ping(ALICE, &[SegmentId(1)]);
    let regained = Notice::SightRegained { name: node(1), segments: 1 };
    assert_eq!(world.meta.take_notices(), [regained]);
    assert_eq!(world.unmount(BOB, 2, 0), Ok(()));
    let goes = |id, replicas, bytes, is_lost| Notice::SegmentGoes {
        name: node(id),
        replicas,
        bytes,
        is_lost,
    };
    assert_eq!(world.meta.take_notices(), [goes(2, 2, second, false)]);
    for _ in 0..40 {
        world.advance(1_000);
    }
    assert_eq!(world.meta.segments().len(), 0, "nobody has heard of it for too long");
    let notices = world.meta.take_notices();
    assert_eq!(notices, [lost(1), goes(1, 1, first, true)]);
}

#[test]
fn a_client_that_leaves_is_forgotten_at_once_unless_it_lends_something() {
    let mut world = pool(1, 64 * KIB);
    world.ping(BOB, &[]);
    assert_eq!(world.meta.stats().clients_in_sight, 2);
    for client in [ALICE, BOB] {
        assert_eq!(world.ask(client, &Request::Leave { reads: None }), Reply::Done(Ok(())));
    }
    assert_eq!(
        world.meta.stats().clients_in_sight,
        1,
        "a process of it may come back to the segment"
    );
    world.check();
}

#[test]
fn a_graceful_unmount_serves_gets_until_its_time_is_over() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 1).unwrap();
    assert_eq!(world.unmount(ALICE, 1, 3_000), Ok(()));
    assert_eq!(world.meta.segments()[0].state, SegmentState::GracefullyUnmounting);
    assert_eq!(world.put("j", 1), Err(ErrorCode::NoAvailableHandle));
    world.advance(2_999);
    assert!(world.exist("k"));
    world.advance(1);
    assert!(!world.exist("k"));
    world.check();
    world.advance(4_999);
    assert_eq!(
        world.meta.segments().len(),
        1,
        "its node may be late, and a reader has a route to it"
    );
    world.advance(1);
    assert_eq!(world.meta.segments(), []);
    world.check();
}

#[test]
fn a_silent_client_is_dead_after_its_time_to_live_and_may_come_back() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 1).unwrap();
    world.advance(6_000);
    assert!(!world.ping(ALICE, &[SegmentId(1)]));
    world.advance(9_999);
    assert!(world.exist("k"));
    world.advance(1);
    assert!(!world.exist("k"));
    world.advance(4_999);
    assert!(!world.exist("k"));
    assert_eq!(world.meta.segments().len(), 1, "a reader may have a route to it");
    world.advance(1);
    assert_eq!(world.meta.segments(), []);
    assert!(world.ping(ALICE, &[SegmentId(1)]), "it is asked to mount again");
    assert_eq!(world.mount(ALICE, 1, 64 * KIB), Ok(()));
    assert!(!world.ping(ALICE, &[SegmentId(1)]));
    assert!(world.put("k", 1).is_ok());
    world.check();
}

#[test]
fn when_all_are_silent_at_once_they_get_one_more_time_to_live() {
    let mut world = pool(1, 64 * KIB);
    world.mount(BOB, 2, 64 * KIB).unwrap();
    world.put("k", 1).unwrap();
    world.advance(19_000);
    assert_eq!(world.meta.clients(), 2, "the master was cut off, not both of them");
    assert!(!world.ping(ALICE, &[SegmentId(1)]), "nothing was lost");
    world.advance(5_000);
    world.ping(ALICE, &[SegmentId(1)]);
    world.advance(5_000);
    assert_eq!(world.meta.stats().segments_out_of_sight, 1, "one alone is as good as dead");
    world.ping(ALICE, &[SegmentId(1)]);
    world.advance(5_000);
    assert_eq!(world.meta.clients(), 1, "nobody can have a route to it");
    world.mount(BOB, 2, 64 * KIB).unwrap();
    world.advance(10_000);
    assert_eq!(world.meta.clients(), 2);
    world.advance(10_000);
    assert_eq!(world.meta.stats().segments_out_of_sight, 2, "not one after the other");
    world.advance(5_000);
    assert_eq!(world.meta.clients(), 0);
    world.check();
}

#[test]
fn mounting_twice_is_fine_only_if_nothing_differs() {
    let mut world = pool(1, 64 * KIB);
    assert_eq!(world.mount(ALICE, 1, 64 * KIB), Ok(()));
    assert_eq!(world.mount(ALICE, 1, 32 * KIB), Err(ErrorCode::SegmentAlreadyExists));
    assert_eq!(world.mount(BOB, 1, 64 * KIB), Err(ErrorCode::SegmentAlreadyExists));
    assert_eq!(world.mount(ALICE, 2, 0), Err(ErrorCode::InvalidParams));
    assert_eq!(world.mount(ALICE, 2, u64::MAX), Err(ErrorCode::InvalidParams));
    assert_eq!(world.meta.stats().capacity_bytes, 64 * KIB);
}

#[test]
fn a_segment_that_is_mounted_again_may_be_served_elsewhere() {
    let mut world = World::new(Config::default());
    world.mount(ALICE, 1, 64 * KIB).expect("the segment is a new one");
    world.put("a", 1).expect("there is room");
    world.disconnect(ALICE);
    let mount = MountSegment {
        id: SegmentId(1),
        name: "elsewhere:1",
        endpoint: "elsewhere:2",
        len: 64 * KIB,
        seen_epoch: Epoch(0),
        is_empty: false,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    assert_eq!(world.ask(ALICE, &Request::MountSegment(mount)), READY);
    assert!(!world.ping(ALICE, &[SegmentId(1)]), "it is known");
    let segments = world.get("a").expect("it is in sight again").segments;
    let places: Vec<_> = segments.iter().map(|at| (&*at.name, &*at.endpoint)).collect();
    assert_eq!(places, [("elsewhere:1", "elsewhere:2")]);
    world.check();
    assert_eq!(world.unmount(ALICE, 1, 0), Ok(()));
    world.check();
}

#[test]
fn a_node_that_obeyed_a_later_leader_raises_the_epoch() {
    let mut world = pool(1, 64 * KIB);
    let before = world.put("a", 1).unwrap().what.version;
    let mount = MountSegment {
        id: SegmentId(5),
        name: "n:1",
        endpoint: "n:1",
        len: 64 * KIB,
        seen_epoch: Epoch(100),
        is_empty: true,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    assert_eq!(world.ask(BOB, &Request::MountSegment(mount)), READY);
    assert_eq!(world.meta.epoch(), Epoch(101));
    let after = world.put("b", 1).unwrap().what.version;
    assert!(after > before && after.epoch == Epoch(101));
    let again = MountSegment { seen_epoch: Epoch(200), ..mount };
    assert_eq!(world.ask(BOB, &Request::MountSegment(again)), READY);
    assert_eq!(world.meta.epoch(), Epoch(201), "also for a segment that is mounted");
    let absurd = MountSegment { seen_epoch: Epoch(u64::MAX), ..mount };
    let refused = Reply::Done(Err(ErrorCode::InvalidVersion));
    assert_eq!(world.ask(BOB, &Request::MountSegment(absurd)), refused);
}

#[test]
fn more_clients_than_the_limit_are_refused() {
    let mut world = pool(1, 64 * KIB);
    let ping = Request::Ping { segments: vec![], unreachable: vec![], reads: None };
    for i in 10..10 + limits::MAX_CLIENTS as u128 {
        world.ask(ClientId(i), &ping);
    }
    let refused = Reply::Refused(ErrorCode::UnavailableInCurrentStatus);
    assert_eq!(world.ask(ClientId(3), &ping), refused);
    assert!(!world.ping(ALICE, &[SegmentId(1)]), "those who are in stay in");
}

#[test]
fn segments_of_dead_clients_are_named_once_unless_somebody_took_their_name_over() {
    let mut world = World::new(Config::default());
    world.mount(ALICE, 1, 64 * KIB).expect("the segment is a new one");
    world.mount(ALICE, 2, 64 * KIB).expect("the segment is a new one");
    world.pass(6_000);
    let again = MountSegment {
        id: SegmentId(3),
        name: "node-2:12345",
        endpoint: "node-2:12345",
        len: 64 * KIB,
        seen_epoch: Epoch(0),
        is_empty: true,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    assert_eq!(world.ask(BOB, &Request::MountSegment(again)), READY);
    assert_eq!(world.unmount(BOB, 3, 0), Ok(()), "leaving is not dying");
    world.mount(BOB, 2_000, 64 * KIB).expect("the segment is a new one");
    assert_eq!(world.ask(BOB, &Request::MountSegment(again)), READY);
    assert!(world.meta.take_expired_segments().is_empty());
    world.pass(4_500);
    assert!(world.meta.take_expired_segments().is_empty(), "it is only out of sight");
    world.ping(BOB, &[]);
    world.pass(4_000);
    world.ping(BOB, &[]);
    world.pass(1_000);
    assert_eq!(world.meta.clients(), 1, "the silent one is dead");
    assert_eq!(world.meta.take_expired_segments(), vec!["node-1:12345".into()]);
    assert!(world.meta.take_expired_segments().is_empty());
}

#[test]
fn a_segment_that_is_unmounted_again_with_a_longer_grace_period_serves_until_that_is_over() {
    let config = Config { client_ttl_ms: u64::MAX / 2, ..Config::default() };
    let mut world = pool_with(1, 64 * KIB, config);
    world.put("a", KIB).expect("there is room");
    assert_eq!(world.unmount(ALICE, 1, 60_000), Ok(()));
    assert_eq!(world.unmount(ALICE, 1, 600_000), Ok(()));
    world.advance(599_999);
    assert!(world.get("a").is_ok());
    world.advance(1);
    assert!(world.get("a").is_err());
    world.check();
}
