//! Objects that are stored as files in a directory that hosts share, besides memory and disks.

use mooncake_meta::Config;
use mooncake_types::{
    Epoch, ErrorCode, Medium, MountOutcome, MountSegment, Reply, Request, SegmentId,
    SharedDirectory,
};

use crate::tiers::{LEN, ON_DISK, carry_out, media, put_at};
use crate::world::{ALICE, BOB, World};

fn shared(evicts: bool) -> Config {
    let directory = SharedDirectory { path: "/mnt/pool".to_owned(), most_bytes: 0, evicts };
    Config { shared_directory: Some(directory), lease_ttl_ms: 10, ..Config::default() }
}

/// Alice lends memory (segment 1) for four objects, and room for eight files (3).
fn alone(config: Config) -> World {
    let mut world = World::new(config);
    world.mount(ALICE, 1, 4 * LEN).expect("it is new");
    world.mount_on(Medium::SharedDisk, ALICE, 3, 8 * ON_DISK).expect("it is new");
    world
}

#[test]
fn what_is_put_is_kept_as_a_file_and_read_there_once_memory_has_evicted_it() {
    let mut world = alone(shared(true));
    for n in 0..8 {
        put_at(&mut world, &format!("key {n}"), 1);
        assert_eq!(carry_out(&mut world, ALICE).len(), 1);
        world.advance(20);
    }
    for n in 0..4 {
        assert_eq!(media(&mut world, &format!("key {n}")), [Medium::SharedDisk], "key {n}");
    }
    let both = [Medium::Memory, Medium::SharedDisk];
    assert_eq!(media(&mut world, "key 7"), both);
}

#[test]
fn a_copy_on_a_disk_comes_first_and_then_one_as_a_file() {
    let mut world = alone(Config { offload: true, ..shared(true) });
    world.mount_on(Medium::Disk, ALICE, 2, 64 * LEN).expect("it is new");
    put_at(&mut world, "a", 1);
    assert_eq!(carry_out(&mut world, ALICE).len(), 1);
    assert_eq!(media(&mut world, "a"), [Medium::Memory, Medium::Disk]);
    assert_eq!(carry_out(&mut world, ALICE).len(), 1);
    assert_eq!(media(&mut world, "a"), [Medium::Memory, Medium::Disk, Medium::SharedDisk]);
    assert!(carry_out(&mut world, ALICE).is_empty(), "nothing is left to do");
}

#[test]
fn where_objects_sink_to_disks_they_are_kept_as_files_at_once() {
    let mut world = alone(Config { offload: true, offload_on_evict: true, ..shared(true) });
    world.mount_on(Medium::Disk, ALICE, 2, 64 * LEN).expect("it is new");
    put_at(&mut world, "a", 1);
    assert_eq!(carry_out(&mut world, ALICE).len(), 1);
    assert_eq!(media(&mut world, "a"), [Medium::Memory, Medium::SharedDisk]);
}

#[test]
fn files_are_evicted_only_if_the_master_is_told_so() {
    for (evicts, left) in [(true, 4..12), (false, 0..8)] {
        let mut world = alone(shared(evicts));
        for n in 0..12 {
            put_at(&mut world, &format!("key {n}"), 1);
            carry_out(&mut world, ALICE);
            world.advance(20);
        }
        let on_file =
            |n: &u64| media(&mut world, &format!("key {n}")).contains(&Medium::SharedDisk);
        assert_eq!((0..12).filter(on_file).collect::<Vec<_>>(), left.collect::<Vec<_>>());
    }
}

/// Otherwise the objects would stay in memory while the copies are retried.
#[test]
fn a_copy_to_a_full_directory_where_nothing_is_evicted_is_given_up_at_once() {
    for (evicts, failed) in [(true, 0), (false, 1)] {
        let mut world = alone(shared(evicts));
        for n in 0..9 {
            put_at(&mut world, &format!("key {n}"), 1);
            // Before the last copy, leases protect every file that could make room.
            if n == 8 {
                (0..8).for_each(|n| _ = world.get(&format!("key {n}")));
            }
            carry_out(&mut world, ALICE);
            world.advance(if n == 8 { 0 } else { 20 });
        }
        let stats = world.meta.stats();
        assert_eq!(stats.offloads_under_way, 1 - failed, "{evicts}");
        assert_eq!(stats.counters.offloads.failed, failed as u64, "{evicts}");
        world.check();
    }
}

#[test]
fn files_pass_from_a_process_that_died_to_the_next_that_comes() {
    let mut world = alone(shared(true));
    put_at(&mut world, "a", 1);
    carry_out(&mut world, ALICE);
    let mount = MountSegment {
        id: SegmentId(3),
        name: "/mnt/pool/files-0",
        endpoint: "node-9:12345",
        len: 8 * ON_DISK,
        seen_epoch: Epoch(0),
        is_empty: false,
        run: 1,
        medium: Medium::SharedDisk,
        domains: &[],
        seal_key: None,
    };
    let refused = world.ask(BOB, &Request::MountSegment(mount));
    assert_eq!(refused, Reply::Done(Err(ErrorCode::SegmentAlreadyExists)), "Alice is in sight");
    world.disconnect(ALICE);
    world.advance(1_000);
    world.timeouts();
    let taken = world.ask(BOB, &Request::MountSegment(mount));
    assert_eq!(taken, Reply::Mounted(MountOutcome::WantsInventory), "what lies there is compared");
    world.check();
    assert!(world.holds("a"));
}
