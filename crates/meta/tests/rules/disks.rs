//! Disks that are drained, lost and mounted again.

use mooncake_meta::{Config, Member, Meta, RecordedMembers};
use mooncake_types::{
    DrainStatus, InventoryEntry, Medium, MountOutcome, MountSegment, Reply, Request, SegmentId,
    Tick,
};

use crate::KIB;
use crate::drain::{carry, drain, tally};
use crate::recovery::{EPOCH, entry, mounted, page, report};
use crate::tiers::{LEN, alone, carry_out, media, put_at};
use crate::world::{ALICE, BOB, World};

/// Alice has put six objects. All lie on her disk, and four of them also in her memory.
fn offloaded() -> World {
    let mut world = alone(Config { lease_ttl_ms: 10, ..Config::default() });
    for n in 0..6 {
        put_at(&mut world, &n.to_string(), 1);
        carry_out(&mut world, ALICE);
        world.advance(20);
    }
    world
}

#[test]
fn a_node_with_a_disk_is_drained_to_memory_of_others() {
    let mut world = offloaded();
    world.mount(BOB, 3, 16 * LEN).expect("it is new");
    let id = drain(&mut world, &["node-1:12345", "node-2:12345"], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id).0, DrainStatus::Succeeded);
    for n in 0..6 {
        assert_eq!(media(&mut world, &n.to_string()), [Medium::Memory], "{n}");
        assert_eq!(world.holders(&n.to_string()), ["node-3:12345"], "{n}");
    }
}

#[test]
fn a_drain_of_a_disk_lets_go_of_what_lies_in_memory_too() {
    let mut world = offloaded();
    world.mount(BOB, 3, 16 * LEN).expect("it is new");
    let id = drain(&mut world, &["node-2:12345"], &[]);
    carry(&mut world, id, Ok(()));
    let (status, moved, released, failed) = tally(&world, id);
    assert_eq!((status, moved, released, failed), (DrainStatus::Succeeded, 2, 4, 0));
}

#[test]
fn a_drain_of_a_disk_for_which_there_is_no_room_ends() {
    let mut world = offloaded();
    let id = drain(&mut world, &["node-2:12345"], &[]);
    carry(&mut world, id, Ok(()));
    let (status, ..) = tally(&world, id);
    assert_eq!(status, DrainStatus::Failed, "what lies on the disk alone stays there");
    for n in 0..6 {
        assert_ne!(media(&mut world, &n.to_string()), [], "{n}");
    }
}

#[test]
fn memory_that_is_drained_leaves_objects_on_the_disk() {
    let mut world = offloaded();
    let id = drain(&mut world, &["node-1:12345"], &[]);
    carry(&mut world, id, Ok(()));
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 0, 4, 0));
    for n in 0..6 {
        assert_eq!(media(&mut world, &n.to_string()), [Medium::Disk], "{n}");
    }
}

fn recover(world: &mut World, (id, medium): (SegmentId, Medium), entries: &[InventoryEntry<'_>]) {
    let name = format!("node-{}:12345", id.0);
    let mount = MountSegment {
        id,
        name: &name,
        endpoint: &name,
        len: 256 * KIB,
        seen_epoch: EPOCH,
        is_empty: false,
        run: 1,
        medium,
        domains: &[],
        seal_key: None,
    };
    for effect in world.meta.effects_before(&mount) {
        world.meta.handle_recorded(world.now, effect);
    }
    let reply = world.ask(ALICE, &Request::MountSegment(mount));
    assert_eq!(reply, mounted(MountOutcome::WantsInventory));
    assert_eq!(report(world, page(id, 0, entries)), Ok(()));
}

#[test]
fn a_new_leader_finds_objects_in_memory_and_on_disks() {
    let (memory, disk) = (SegmentId(1), SegmentId(2));
    let members = [memory, disk].map(|segment| Member { segment, behind: None, is_disk: false });
    let record =
        RecordedMembers { fresh: false, members: members.to_vec(), ..RecordedMembers::default() };
    let config = Config { offload: true, offload_on_evict: true, ..Config::default() };
    for disk_first in [false, true] {
        let now = Tick(1_000);
        let mut world = World { meta: Meta::recover(config.clone(), EPOCH, now, &record), now };
        let in_memory = [entry("both", 0, 4 * KIB, 1)];
        let on_disk = [entry("both", 8 * KIB, 4 * KIB, 1), entry("disk", 16 * KIB, 4 * KIB, 2)];
        let mut tellers =
            vec![((memory, Medium::Memory), &in_memory[..]), ((disk, Medium::Disk), &on_disk[..])];
        if disk_first {
            tellers.reverse();
        }
        for (segment, entries) in tellers {
            recover(&mut world, segment, entries);
        }
        crate::recovery::record(&mut world);
        world.timeouts();
        assert_eq!(media(&mut world, "both"), [Medium::Memory, Medium::Disk]);
        assert_eq!(media(&mut world, "disk"), [Medium::Disk]);
        let stats = world.meta.stats();
        assert_eq!((stats.disk_objects, stats.short_objects), (2, 0));
        assert_eq!((stats.used_bytes, stats.capacity_bytes), (4 * KIB, 256 * KIB));
        let Reply::Prefetched(results) =
            world.ask(BOB, &Request::Prefetch { keys: vec!["both", "disk"] })
        else {
            panic!("a wrong kind of reply")
        };
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        world.check();
    }
}
