//! The inventories that nodes report to a leader that succeeds another.

use mooncake_meta::{AllocatorKind, Config, Effect, Member, Meta, RecordedMembers};
use mooncake_types::{
    CreateTask, EntryState, ErrorCode, InventoryEntry, InventoryPage, Located, Medium,
    MountOutcome, MountSegment, Placement, Reply, Request, SegmentId, TaskKind, Tick, Version,
    limits,
};

use crate::KIB;
use crate::recovery::{
    A, B, EARLY, EPOCH, chain, entry, leader, marked, mount, mounted, page, record, recover,
    remove, report, version,
};
use crate::tiers::carry_out;
use crate::world::{ALICE, BOB, Placed, World};

#[test]
fn a_range_that_is_being_written_is_held_back() {
    let mut world = leader(&[A]);
    let writing = InventoryEntry { state: EntryState::Writing, ..entry("w", 0, 200 * KIB, 1) };
    recover(&mut world, A, &[writing]);
    assert_eq!(chain(&mut world, "w"), [0u64; 0]);
    assert_eq!(world.start(BOB, "big", 100 * KIB).map(|_| ()), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(remove(&mut world, "w"), (Err(ErrorCode::ObjectNotFound), vec![version(1)]));
    // 570 s, as long as the ranges of a discarded put are reserved.
    for _ in 0..63 {
        world.advance(9_000);
        world.ping(ALICE, &[A]);
    }
    assert_eq!(world.start(BOB, "big", 100 * KIB).map(|_| ()), Err(ErrorCode::NoAvailableHandle));
    for _ in 0..3 {
        world.advance(9_000);
        world.ping(ALICE, &[A]);
    }
    assert_eq!(world.start(BOB, "big", 100 * KIB).map(|_| ()), Ok(()));
}

#[test]
fn stripes_are_read_once_they_have_found_their_neighbours() {
    let stripe = |offset, object_offset, len| InventoryEntry {
        object_len: 30 * KIB,
        object_offset,
        ..entry("s", offset, len, 1)
    };
    let mut world = leader(&[A, B]);
    recover(&mut world, A, &[stripe(0, 20 * KIB, 10 * KIB), stripe(100 * KIB, 0, 12 * KIB)]);
    assert_eq!(chain(&mut world, "s"), [0u64; 0]);
    recover(&mut world, B, &[stripe(0, 12 * KIB, 8 * KIB), entry("t", 8 * KIB, KIB, 2)]);
    let placements = world.get("s").unwrap().what.placements;
    let found: Vec<(u64, u64)> = placements.iter().map(|it| (it.offset, it.len)).collect();
    assert_eq!(found, [(100 * KIB, 12 * KIB), (0, 8 * KIB), (0, 10 * KIB)]);

    let mut world = leader(&[A]);
    recover(&mut world, A, &[stripe(0, 20 * KIB, 10 * KIB)]);
    assert_eq!(world.meta.stats().used_bytes, 0, "nobody else will report");
    assert_eq!(world.fetch_drops(ALICE).len(), 1);
}

#[test]
fn an_inventory_that_makes_no_sense_has_its_segment_struck() {
    let good = entry("k", KIB, KIB, 1);
    let long = "k".repeat(limits::MAX_KEY_BYTES + 1);
    let new = Version { epoch: EPOCH, counter: 1 };
    let cases = [
        ("overlaps the one before", InventoryEntry { offset: KIB / 2, ..good }),
        ("past the end", InventoryEntry { offset: 255 * KIB + 1, ..good }),
        ("an end that overflows", InventoryEntry { offset: u64::MAX, ..good }),
        ("no bytes", InventoryEntry { len: 0, object_len: 0, ..good }),
        ("no key", InventoryEntry { key: "", ..good }),
        ("a long key", InventoryEntry { key: &long, ..good }),
        ("a version of this leader", InventoryEntry { version: new, grant: new, ..good }),
        ("a grant of this leader", InventoryEntry { grant: new, ..good }),
        ("a grant before the version", InventoryEntry { grant: version(0), ..good }),
        ("longer than its object", InventoryEntry { object_len: KIB - 1, ..good }),
        ("past the end of its object", InventoryEntry { object_offset: 1, ..good }),
        ("attributes that nobody gave", InventoryEntry { attributes: &[255, 0], ..good }),
        (
            "another length",
            InventoryEntry { key: "j", version: version(9), grant: version(9), ..good },
        ),
    ];
    for (what, bad) in cases {
        let mut world = leader(&[A, B]);
        recover(&mut world, B, &[]);
        assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
        let first = entry("j", 0, KIB - 1, 9);
        let result = report(&mut world, page(A, 0, &[first, bad]));
        assert_eq!(result, Err(ErrorCode::InvalidParams), "{what}");
        assert!(!world.meta.serves(), "{what}: its entries are there until it is struck");
        assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::StartEmpty), "{what}");
        assert_eq!(record(&mut world), [Effect::Strike(A)], "{what}");
        assert!(world.meta.serves(), "{what}");
        world.timeouts();
        assert_eq!(chain(&mut world, "j"), [0u64; 0], "{what}");
        assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::StartEmpty), "{what}");
    }
    for number in [1, 5] {
        let mut world = leader(&[A]);
        mount(&mut world, A, false);
        let result = report(&mut world, page(A, number, &[good]));
        assert_eq!(result, Err(ErrorCode::InvalidParams), "page {number} comes first");
    }
}

#[test]
fn an_inventory_that_is_begun_anew_goes_on_where_it_was() {
    let mut world = leader(&[A]);
    assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    let (a, b) = (entry("a", 0, KIB, 1), entry("b", KIB, KIB, 2));
    let first = InventoryPage { last: false, ..page(A, 0, &[a]) };
    for _ in 0..2 {
        assert_eq!(report(&mut world, first.clone()), Ok(()));
        assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    }
    assert_eq!(report(&mut world, page(A, 0, &[a, b])), Ok(()));
    assert_eq!((chain(&mut world, "a"), chain(&mut world, "b")), (vec![1], vec![2]));
    assert_eq!(world.meta.stats().used_bytes, 2 * KIB);
    assert_eq!(report(&mut world, first), EARLY, "it has ended");
    let stranger = Request::ReportInventory(page(A, 0, &[]));
    assert_eq!(world.ask(BOB, &stranger), Reply::Done(Err(ErrorCode::IllegalClient)));
    let unknown = report(&mut world, page(B, 0, &[]));
    assert_eq!(unknown, Err(ErrorCode::SegmentNotFound));
}

/// The found replica would otherwise get the number of the replica that the copy makes.
#[test]
fn a_replica_that_is_found_while_another_is_made_comes_beside_it() {
    let mut world = leader(&[A, B]);
    recover(&mut world, A, &[entry("k", 0, KIB, 1)]);
    world.advance(5_000);
    assert_eq!(record(&mut world), [marked(B)]);
    assert_eq!(mount(&mut world, SegmentId(3), true), mounted(MountOutcome::Ready));
    let targets = vec!["node-3:12345"];
    let task = CreateTask { key: "k", kind: TaskKind::Copy, source: "", targets };
    let id = world.create_task(task).expect("there is room");
    assert_eq!(world.fetch_tasks(ALICE).orders.len(), 1);
    recover(&mut world, B, &[entry("k", KIB, KIB, 1)]);
    world.check();
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    world.check();
    assert_eq!(world.holders("k"), ["node-1:12345", "node-2:12345", "node-3:12345"]);
}

/// With slabs, a range takes a slot for the length with header and padding, wherever a page of the inventory ends.
#[test]
fn a_disk_in_slabs_is_recovered_page_by_page() {
    const MIB: u64 = 1 << 20;
    let config = Config { allocator: AllocatorKind::Cachelib, offload: true, ..Config::default() };
    let mut before = World::new(config.clone());
    before.mount(ALICE, 1, 64 * MIB).expect("it is new");
    before.mount_on(Medium::Disk, ALICE, 2, 256 * MIB).expect("it is new");
    let keys = ["a", "b", "c", "d"];
    keys.iter().for_each(|key| drop(before.put(key, MIB).expect("there is room")));
    assert_eq!(carry_out(&mut before, ALICE).len(), keys.len());
    let on_disk = |placed: Placed<Located>| {
        let of = |at: &Placement| placed.segments[at.segment as usize].medium;
        let found = placed.what.placements.iter().find(|at| of(at) == Medium::Disk);
        found.expect("it was copied").offset
    };
    let offsets = keys.map(|key| on_disk(before.get(key).expect("it is there")));

    let record = RecordedMembers {
        fresh: false,
        members: vec![Member { segment: B, behind: None, is_disk: false }],
        ..RecordedMembers::default()
    };
    let now = Tick(1_000);
    let mut world = World { meta: Meta::recover(config, EPOCH, now, &record), now };
    let mount = MountSegment {
        id: B,
        name: "node-2:12345",
        endpoint: "node-2:12345",
        len: 256 * MIB,
        seen_epoch: EPOCH,
        is_empty: false,
        run: 1,
        medium: Medium::Disk,
        domains: &[],
        seal_key: None,
    };
    let reply = world.ask(ALICE, &Request::MountSegment(mount));
    assert_eq!(reply, mounted(MountOutcome::WantsInventory));
    let mut entries: Vec<InventoryEntry<'_>> =
        keys.into_iter().zip(offsets).map(|(key, offset)| entry(key, offset, MIB, 1)).collect();
    entries.sort_by_key(|entry| entry.offset);
    let last = entries.pop().expect("there are four");
    let first = InventoryPage { last: false, ..page(B, 0, &entries) };
    assert_eq!(report(&mut world, first), Ok(()));
    assert_eq!(report(&mut world, page(B, 1, &[last])), Ok(()));
    assert!(keys.iter().all(|key| world.holds(key)));
}
