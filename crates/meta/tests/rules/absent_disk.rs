//! Disks whose processes have ended: their objects wait for the next process.

use mooncake_meta::Config;
use mooncake_types::{
    Epoch, ErrorCode, Medium, MountOutcome, MountSegment, Reply, Request, SegmentId,
};

use crate::KIB;
use crate::world::{ALICE, BOB, World};

const LEN: u64 = 16 * KIB;

/// Alice lends memory (segment 1) and a disk (2), which both hold "a". Bob lends memory (3) and keeps pinging.
fn world() -> World {
    let mut world = World::new(Config {
        offload: true,
        client_ttl_ms: 1_000,
        disk_ttl_ms: 60_000,
        ..Config::default()
    });
    world.mount(ALICE, 1, 4 * LEN).expect("it is new");
    world.mount_on(Medium::Disk, ALICE, 2, 64 * LEN).expect("it is new");
    world.put("a", LEN).expect("there is room");
    let orders = world.fetch_tasks(ALICE).orders;
    assert_eq!(world.end_task(ALICE, orders[0].id, Ok(())), Ok(()));
    world.mount(BOB, 3, 4 * LEN).expect("it is new");
    world.disconnect(ALICE);
    world
}

/// Mounts the disk as Alice's next process.
fn disk_again() -> MountSegment<'static> {
    MountSegment {
        id: SegmentId(2),
        name: "node-2:12345",
        endpoint: "node-2:12345",
        len: 64 * LEN,
        seen_epoch: Epoch(0),
        is_empty: false,
        run: 2,
        medium: Medium::Disk,
        domains: &[],
        seal_key: None,
    }
}

fn pass(world: &mut World, ms: u64) {
    for _ in 0..ms / 500 {
        world.advance(500);
        world.ping(BOB, &[]);
        world.timeouts();
        world.check();
    }
}

#[test]
fn the_memory_of_a_dead_client_is_gone_long_before_its_disk() {
    let mut world = world();
    pass(&mut world, 10_000);
    let left: Vec<u128> = world.meta.segments().iter().map(|report| report.id.0).collect();
    assert_eq!(left, [2, 3], "Alice's disk and Bob's memory");
    assert_eq!(world.get("a"), Err(ErrorCode::ObjectNotFound));
    world.ping(ALICE, &[]);
    assert!(world.get("a").is_ok(), "the next process has the disk");
    world.check();
}

#[test]
fn the_next_process_has_other_memory_and_the_same_disk() {
    let mut world = world();
    let memory = MountSegment { id: SegmentId(4), len: 4 * LEN, is_empty: true, ..disk_again() };
    let memory = MountSegment { medium: Medium::Memory, ..memory };
    for (mount, outcome) in
        [(memory, MountOutcome::Ready), (disk_again(), MountOutcome::WantsInventory)]
    {
        let reply = world.ask(ALICE, &Request::MountSegment(mount));
        assert_eq!(reply, Reply::Mounted(outcome));
        world.check();
    }
    let mut ids: Vec<u128> = world.meta.segments().iter().map(|report| report.id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, [2, 3, 4], "the memory of the process before is gone");
    assert!(world.holds("a"));
    world.check();
}

#[test]
fn a_process_that_comes_back_and_dies_is_given_up_as_soon_as_the_one_before() {
    let mut world = world();
    pass(&mut world, 5_000);
    world.ping(ALICE, &[SegmentId(2)]);
    world.mount(ALICE, 5, 4 * LEN).expect("it is new");
    pass(&mut world, 500);
    world.disconnect(ALICE);
    // Longer than `client_ttl_ms` plus the leases.
    pass(&mut world, 10_000);
    let mut ids: Vec<u128> = world.meta.segments().iter().map(|report| report.id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, [2, 3], "the memory is given up, and the disk waits");
}

#[test]
fn a_disk_that_the_next_process_does_not_lend_is_given_up_as_late() {
    let mut world = world();
    let memory = MountSegment { id: SegmentId(4), len: 4 * LEN, is_empty: true, ..disk_again() };
    let memory = MountSegment { medium: Medium::Memory, ..memory };
    let reply = world.ask(ALICE, &Request::MountSegment(memory));
    assert_eq!(reply, Reply::Mounted(MountOutcome::Ready));
    let ids = |world: &World| {
        let mut ids: Vec<u128> = world.meta.segments().iter().map(|report| report.id.0).collect();
        ids.sort_unstable();
        ids
    };
    for ms in [59_000, 3_000] {
        assert_eq!(ids(&world), [2, 3, 4], "it may come yet");
        for _ in 0..ms / 500 {
            world.ping(ALICE, &[SegmentId(4)]);
            pass(&mut world, 500);
        }
    }
    assert_eq!(ids(&world), [3, 4]);
    assert!(!world.holds("a"));
    world.check();
}

#[test]
fn the_disk_of_a_client_that_stays_away_is_given_up_at_last() {
    let mut world = world();
    pass(&mut world, 59_000);
    assert_eq!(world.meta.segments().len(), 2);
    pass(&mut world, 2_000);
    assert_eq!(world.meta.segments().len(), 1);
    assert!(!world.holds("a"));
}
