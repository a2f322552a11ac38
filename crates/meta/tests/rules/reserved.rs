//! Ranges that a reader at their node still holds.

use mooncake_meta::Config;
use mooncake_types::{
    ClientId, CreateTask, ErrorCode, Grant, PutEnd, PutRevoke, ReplicateConfig, Reply, Request,
    TaskKind, Version,
};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool};

fn status(reply: Reply) -> Result<(), ErrorCode> {
    match reply {
        Reply::Statuses(results) | Reply::Remaining { results, .. } => results[0],
        other => panic!("{other:?}"),
    }
}

fn give_up(world: &mut World, grant: &Grant, held_replicas: u32) -> Result<(), ErrorCode> {
    let put = PutRevoke { held_replicas, ..PutRevoke::new("k", grant.version) };
    let reply = world.ask(ALICE, &Request::PutRevoke { puts: vec![put] });
    world.check();
    status(reply)
}

fn offsets(grant: &Grant) -> Vec<u64> {
    grant.placements.iter().map(|range| range.offset).collect()
}

#[test]
fn a_held_range_is_not_granted_again_for_a_minute() {
    let mut world = World::new(Config::default());
    world.mount(ALICE, 1, 64 * KIB).unwrap();
    let first = world.start(ALICE, "k", 16 * KIB).unwrap().what;
    assert_eq!(give_up(&mut world, &first, 1), Ok(()));
    let second = world.start(ALICE, "k", 16 * KIB).expect("its key is free").what;
    assert_ne!(offsets(&first), offsets(&second));
    assert_eq!(give_up(&mut world, &second, 0), Ok(()));
    assert_eq!(world.meta.stats().reserved_bytes, 16 * KIB);
    let whole = world.start(BOB, "whole", 48 * KIB).expect("the rest is free").what;
    assert_eq!(world.end(BOB, "whole", &whole, 0), Ok(()));
    for _ in 0..60 {
        assert_eq!(world.meta.stats().reserved_bytes, 16 * KIB);
        world.advance(1_000);
        world.ping(ALICE, &[]);
        world.timeouts();
    }
    assert_eq!(world.meta.stats().reserved_bytes, 0);
    assert!(world.start(ALICE, "k", 16 * KIB).is_ok());
}

#[test]
fn only_the_held_replicas_are_kept_from_others() {
    let mut world = pool(1, 64 * KIB);
    world.mount(BOB, 2, 64 * KIB).unwrap();
    let two = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    for held in 0..4 {
        let before = world.meta.stats().reserved_bytes;
        let grant = world.start_with(ALICE, "k", KIB, two.clone()).unwrap().what;
        assert_eq!(give_up(&mut world, &grant, held), Ok(()));
        let kept = world.meta.stats().reserved_bytes - before;
        assert_eq!(kept, KIB * u64::from(held.count_ones()), "{held:b}");
    }
}

#[test]
fn a_put_that_ends_without_a_held_replica_leaves_its_range_reserved() {
    let mut world = pool(1, 64 * KIB);
    world.mount(BOB, 2, 64 * KIB).unwrap();
    let two = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    let grant = world.start_with(ALICE, "k", KIB, two).unwrap().what;
    let put =
        PutEnd { key: "k", version: grant.version, failed_replicas: 0b10, held_replicas: 0b11 };
    assert_eq!(status(world.ask(ALICE, &Request::PutEnd { puts: vec![put] })), Ok(()));
    world.check();
    assert_eq!(world.get("k").unwrap().what.placements.len(), 1, "the other was written");
    assert_eq!(world.meta.stats().reserved_bytes, KIB);
}

#[test]
fn a_copy_that_met_somebody_leaves_its_range_reserved() {
    for (code, kept) in [(ErrorCode::ObjectReplicaBusy, KIB), (ErrorCode::TransferFail, 0)] {
        let mut world = pool(1, 64 * KIB);
        world.put("k", KIB).unwrap();
        world.mount(BOB, 2, 64 * KIB).unwrap();
        let (source, targets) = ("node-1:12345", vec!["node-2:12345"]);
        let task = CreateTask { key: "k", kind: TaskKind::Copy, source, targets };
        world.create_task(task).unwrap();
        let order = world.fetch_tasks(ALICE).orders.remove(0);
        assert_eq!(world.end_task(ALICE, order.id, Err(code)), Ok(()));
        world.check();
        assert_eq!(world.meta.stats().reserved_bytes, kept, "{code}");
        assert_eq!(world.holders("k"), ["node-1:12345"]);
    }
}

#[test]
fn what_is_held_in_a_segment_that_left_is_no_more() {
    let mut world = pool(1, 64 * KIB);
    let grant = world.start(ALICE, "k", KIB).unwrap().what;
    world.unmount(ALICE, 1, 0).unwrap();
    assert_eq!(give_up(&mut world, &grant, u32::MAX), Ok(()));
    assert_eq!(world.meta.stats().reserved_bytes, 0);
}

#[test]
fn only_its_client_says_that_a_range_is_held() {
    let mut world = pool(1, 64 * KIB);
    let grant = world.start(ALICE, "k", KIB).unwrap().what;
    let revoke = |version: Version| {
        let put = PutRevoke { held_replicas: 1, ..PutRevoke::new("k", version) };
        Request::PutRevoke { puts: vec![put] }
    };
    let ask =
        |world: &mut World, from: ClientId, version| status(world.ask(from, &revoke(version)));
    assert_eq!(ask(&mut world, BOB, grant.version), Err(ErrorCode::IllegalClient));
    assert_eq!(ask(&mut world, ALICE, Version::default()), Err(ErrorCode::ObjectNotFound));
    assert_eq!(world.meta.stats().reserved_bytes, 0);
    assert_eq!(world.end(ALICE, "k", &grant, 0), Ok(()));
    assert_eq!(ask(&mut world, ALICE, grant.version), Err(ErrorCode::InvalidWrite));
    world.check();
}
