//! Disks whose nodes are absent while a new leader starts.

use mooncake_meta::{Config, Effect, Member, Meta, RecordedMembers};
use mooncake_types::{
    ErrorCode, InventoryEntry, Medium, MountOutcome, MountSegment, Reply, Request, Scan,
    ScanAction, SegmentId, Tick, Version,
};

use crate::KIB;
use crate::recovery::{
    A, B, EARLY, EPOCH, end, entry, marked, mounted, page, record, remove, report,
};
use crate::tiers::media;
use crate::world::{ALICE, BOB, World};

const C: SegmentId = SegmentId(3);

/// A leader whose predecessor led disk `A`, whose node is absent, and memory `B`. Bob lends memory. Fifteen seconds
/// have passed, in which the leader waited for its members.
fn leader() -> World {
    let members =
        [(A, true), (B, false)].map(|(segment, is_disk)| Member { segment, behind: None, is_disk });
    let before =
        RecordedMembers { fresh: false, members: members.to_vec(), ..RecordedMembers::default() };
    let config = Config { offload: true, disk_ttl_ms: 60_000, ..Config::default() };
    let now = Tick(1_000);
    let mut world = World { meta: Meta::recover(config, EPOCH, now, &before), now };
    world.advance(5_000);
    assert_eq!(record(&mut world), [marked(A), marked(B)]);
    let mount = MountSegment { id: C, is_empty: true, ..disk() };
    let mount =
        MountSegment { name: "node-3:1", endpoint: "node-3:1", medium: Medium::Memory, ..mount };
    assert_eq!(world.meta.effects_before(&mount), [Effect::Join(C)]);
    world.meta.handle_recorded(world.now, Effect::Join(C));
    let reply = world.ask(BOB, &Request::MountSegment(mount));
    assert_eq!(reply, mounted(MountOutcome::Ready), "the leader serves");
    pass(&mut world, 10_000);
    assert_eq!(record(&mut world), [Effect::Strike(B)], "only the disk is waited for");
    world
}

fn pass(world: &mut World, ms: u64) {
    for _ in 0..ms / 1_000 {
        world.advance(1_000);
        world.ping(BOB, &[C]);
        world.check();
    }
}

/// The mount of the disk by its next process.
fn disk() -> MountSegment<'static> {
    MountSegment {
        id: A,
        name: "node-1:12345",
        endpoint: "node-1:12345",
        len: 256 * KIB,
        seen_epoch: EPOCH,
        is_empty: false,
        run: 2,
        medium: Medium::Disk,
        domains: &[],
        seal_key: None,
    }
}

fn mount(world: &mut World) -> Reply {
    let mount = disk();
    assert_eq!(world.meta.effects_before(&mount), []);
    world.ask(ALICE, &Request::MountSegment(mount))
}

fn tell(world: &mut World, entries: &[InventoryEntry<'_>]) {
    assert_eq!(mount(world), mounted(MountOutcome::WantsInventory));
    let page = mooncake_types::InventoryPage { run: 2, ..page(A, 0, entries) };
    assert_eq!(report(world, page), Ok(()));
}

fn put(world: &mut World, key: &str) {
    let placed = world.start(BOB, key, 4 * KIB).expect("there is room");
    assert_eq!(end(world, key, placed.what.version).0, Ok(()));
}

const WAIT: Reply = Reply::Refused(ErrorCode::UnavailableInCurrentStatus);

fn remove_all_of(world: &mut World, tenant: Option<&'static str>) -> Reply {
    let action = ScanAction::Remove { force: true };
    let scan = Scan { tenant, pattern: None, action, cursor: 0, limit: 100 };
    world.ask(BOB, &Request::Scan(scan))
}

fn remove_all(world: &mut World) -> Reply {
    remove_all_of(world, Some("default"))
}

#[test]
fn a_disk_that_returns_long_after_a_leader_began_has_its_objects_but_for_those_that_changed() {
    let mut world = leader();
    assert_eq!(remove(&mut world, "removed").0, EARLY, "the record does not name it yet");
    assert!(matches!(record(&mut world)[..], [Effect::Overrule(..)]));
    assert_eq!(remove(&mut world, "removed").0, Err(ErrorCode::ObjectNotFound));
    put(&mut world, "replaced");
    put(&mut world, "put and removed");
    assert_eq!(remove(&mut world, "put and removed").0, EARLY, "the record does not name it yet");
    assert!(matches!(record(&mut world)[..], [Effect::Overrule(..)]));
    assert_eq!(remove(&mut world, "put and removed").0, Ok(()));
    pass(&mut world, 40_000);
    assert_eq!(record(&mut world), []);
    let keys = ["kept", "removed", "replaced", "put and removed"];
    let entries = keys.map(|key| entry(key, 0, 4 * KIB, 1));
    let entries: Vec<InventoryEntry<'_>> = (0..)
        .zip(entries)
        .map(|(n, entry)| InventoryEntry { offset: n * 16 * KIB, ..entry })
        .collect();
    tell(&mut world, &entries);
    assert_eq!(media(&mut world, "kept"), [Medium::Disk]);
    assert_eq!(media(&mut world, "removed"), []);
    assert_eq!(media(&mut world, "replaced"), [Medium::Memory]);
    assert_eq!(media(&mut world, "put and removed"), []);
    assert_eq!(world.fetch_drops(ALICE).len(), 3, "what is not believed goes");
    assert_eq!(record(&mut world), [Effect::CaughtUp(A)]);
    world.check();
}

#[test]
fn a_disk_that_does_not_return_is_given_up_at_last() {
    let mut world = leader();
    pass(&mut world, 44_000);
    assert_eq!(record(&mut world), []);
    pass(&mut world, 1_000);
    assert_eq!(record(&mut world), [Effect::Strike(A)]);
    assert_eq!(mount(&mut world), mounted(MountOutcome::StartEmpty));
}

/// The master has no inventory of the disk, so it cannot tell which objects on it the removal takes.
#[test]
fn a_removal_of_many_objects_waits_for_a_disk_that_is_away() {
    let mut world = leader();
    put(&mut world, "a");
    assert_eq!(remove_all(&mut world), WAIT);
    assert_eq!(record(&mut world), [], "the disk may come back");
    tell(&mut world, &[entry("b", 0, 4 * KIB, 1)]);
    let Reply::Scanned(page) = remove_all(&mut world) else { panic!("it has told all") };
    assert_eq!(page.removed, 2);
    world.check();
}

#[test]
fn a_removal_of_many_objects_waits_no_longer_than_the_leader_waits_for_a_disk() {
    let mut world = leader();
    put(&mut world, "a");
    pass(&mut world, 44_000);
    assert_eq!(remove_all(&mut world), WAIT);
    pass(&mut world, 1_000);
    assert_eq!(record(&mut world), [Effect::Strike(A)]);
    let Reply::Scanned(page) = remove_all(&mut world) else { panic!("the disk is given up") };
    assert_eq!(page.removed, 1);
}

/// Nothing is to stay on the disk.
#[test]
fn a_disk_that_is_away_is_given_up_when_all_objects_of_all_tenants_are_removed_by_force() {
    let mut world = leader();
    put(&mut world, "a");
    assert_eq!(remove_all_of(&mut world, None), WAIT);
    assert_eq!(record(&mut world), [Effect::Strike(A)]);
    let Reply::Scanned(page) = remove_all_of(&mut world, None) else { panic!("it waits") };
    assert_eq!(page.removed, 1);
    assert_eq!(mount(&mut world), mounted(MountOutcome::StartEmpty));
    world.check();
}

/// The inventory of this disk is about to arrive.
#[test]
fn a_disk_that_is_telling_what_it_has_is_not_given_up_for_a_removal_of_all() {
    for tenant in [None, Some("default")] {
        let mut world = leader();
        assert_eq!(mount(&mut world), mounted(MountOutcome::WantsInventory));
        assert_eq!(remove_all_of(&mut world, tenant), WAIT);
        assert_eq!(record(&mut world), []);
        let entries = [entry("a", 0, 4 * KIB, 1)];
        let page = mooncake_types::InventoryPage { run: 2, ..page(A, 0, &entries) };
        assert_eq!(report(&mut world, page), Ok(()));
        let Reply::Scanned(page) = remove_all_of(&mut world, tenant) else { panic!("it waits") };
        assert_eq!(page.removed, 1);
        assert!(!world.holds("a"));
    }
}

/// The first leader marked the disk as stale when it began to change objects.
#[test]
fn a_disk_that_stays_away_over_two_leaders_starts_empty() {
    let members = vec![Member { segment: A, behind: Some(Version::default()), is_disk: true }];
    let before = RecordedMembers { fresh: false, members, ..RecordedMembers::default() };
    let now = Tick(1_000);
    let mut world = World { meta: Meta::recover(Config::default(), EPOCH, now, &before), now };
    assert_eq!(remove(&mut world, "a").0, EARLY);
    world.advance(5_000);
    record(&mut world);
    assert_eq!(mount(&mut world), mounted(MountOutcome::StartEmpty));
}

#[test]
fn a_disk_that_an_earlier_version_recorded_is_recorded_as_one_when_it_mounts() {
    let members = vec![Member { segment: A, behind: None, is_disk: false }];
    let before = RecordedMembers { fresh: false, members, ..RecordedMembers::default() };
    let now = Tick(1_000);
    let mut world = World { meta: Meta::recover(Config::default(), EPOCH, now, &before), now };
    let mount = MountSegment { medium: Medium::ObjectStore, ..disk() };
    assert_eq!(world.meta.effects_before(&mount), [Effect::JoinDisk(A)]);
    world.meta.handle_recorded(world.now, Effect::JoinDisk(A));
    assert_eq!(world.meta.effects_before(&mount), []);
    let new = MountSegment { id: B, is_empty: true, ..mount };
    assert_eq!(world.meta.effects_before(&new), [Effect::JoinDisk(B)]);
}
