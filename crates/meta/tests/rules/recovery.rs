//! Leaders that succeed another leader.

use mooncake_meta::{Config, Effect, Member, Meta, RecordedMembers};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, InventoryEntry, InventoryPage, MountOutcome, MountSegment, PutEnd,
    PutItem, PutMode, PutRevoke, PutStart, ReplicateConfig, Reply, Request, Scan, ScanAction,
    SegmentId, SegmentState, SoftPin, Tick, Version, limits,
};

use crate::KIB;
use crate::world::{ALICE, BOB, World};

pub(crate) const A: SegmentId = SegmentId(1);
pub(crate) const B: SegmentId = SegmentId(2);
pub(crate) const EPOCH: Epoch = Epoch(9);
pub(crate) const EARLY: Result<(), ErrorCode> = Err(ErrorCode::UnavailableInCurrentStatus);

pub(crate) fn version(counter: u64) -> Version {
    Version { epoch: Epoch(8), counter }
}

/// A leader whose predecessor has recorded these members.
pub(crate) fn leader(members: &[SegmentId]) -> World {
    let members =
        members.iter().map(|&segment| Member { segment, behind: None, is_disk: false }).collect();
    let record = RecordedMembers { fresh: false, members, ..RecordedMembers::default() };
    let now = Tick(1_000);
    World { meta: Meta::recover(Config::default(), EPOCH, now, &record), now }
}

pub(crate) fn mount(world: &mut World, id: SegmentId, is_empty: bool) -> Reply {
    let name = format!("node-{}:12345", id.0);
    let mount = MountSegment {
        id,
        name: &name,
        endpoint: &name,
        len: 256 * KIB,
        seen_epoch: EPOCH,
        is_empty,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    for effect in world.meta.effects_before(&mount) {
        world.meta.handle_recorded(world.now, effect);
    }
    world.ask(ALICE, &Request::MountSegment(mount))
}

/// The record marks a segment behind since the leader began.
pub(crate) const fn marked(id: SegmentId) -> Effect {
    Effect::MarkBehind(id, Version { epoch: EPOCH, counter: 0 })
}

pub(crate) const fn mounted(outcome: MountOutcome) -> Reply {
    Reply::Mounted(outcome)
}

pub(crate) fn entry(key: &str, offset: u64, len: u64, counter: u64) -> InventoryEntry<'_> {
    InventoryEntry {
        offset,
        len,
        key,
        version: version(counter),
        grant: version(counter),
        object_len: len,
        ..InventoryEntry::default()
    }
}

pub(crate) fn page<'a>(
    segment: SegmentId,
    page: u32,
    entries: &[InventoryEntry<'a>],
) -> InventoryPage<'a> {
    InventoryPage { segment, run: 1, page, last: true, entries: entries.to_vec() }
}

pub(crate) fn report(world: &mut World, page: InventoryPage<'_>) -> Result<(), ErrorCode> {
    let reply = world.ask(ALICE, &Request::ReportInventory(page));
    world.check();
    match reply {
        Reply::Done(result) => result,
        other => panic!("{other:?}"),
    }
}

/// Mounts a segment and reports its inventory.
pub(crate) fn recover(world: &mut World, id: SegmentId, entries: &[InventoryEntry<'_>]) {
    assert_eq!(mount(world, id, false), mounted(MountOutcome::WantsInventory));
    assert_eq!(report(world, page(id, 0, entries)), Ok(()));
}

/// Confirms all pending changes of the membership record, and returns them.
pub(crate) fn record(world: &mut World) -> Vec<Effect> {
    let mut all = Vec::new();
    while world.meta.has_effects() {
        for effect in world.meta.take_effects() {
            world.meta.handle_recorded(world.now, effect);
            all.push(effect);
        }
    }
    world.check();
    all
}

/// The result of a request about one key, and the versions that nodes must drop.
pub(crate) fn answer(reply: Reply) -> (Result<(), ErrorCode>, Vec<Version>) {
    match reply {
        Reply::Statuses(results) => (results[0], vec![]),
        Reply::Remaining { results, remains } => {
            (results[0], remains.ranges.iter().map(|range| range.version).collect())
        }
        Reply::Refused(code) => (Err(code), vec![]),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn remove(world: &mut World, key: &str) -> (Result<(), ErrorCode>, Vec<Version>) {
    let reply = world.ask(BOB, &Request::Remove { keys: vec![key], force: true });
    world.check();
    answer(reply)
}

pub(crate) fn end(
    world: &mut World,
    key: &str,
    version: Version,
) -> (Result<(), ErrorCode>, Vec<Version>) {
    let put = PutEnd { key, version, failed_replicas: 0, held_replicas: 0 };
    let reply = world.ask(BOB, &Request::PutEnd { puts: vec![put] });
    world.check();
    answer(reply)
}

/// The versions that a lookup names, in the order in which to try them.
pub(crate) fn chain(world: &mut World, key: &str) -> Vec<u64> {
    match world.ask(BOB, &Request::GetReplicaList { keys: vec![key] }) {
        Reply::Located { results, successors, .. } => {
            let newer = successors.into_iter().map(|(_, newer)| newer);
            results.into_iter().flatten().chain(newer).map(|it| it.version.counter).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_reported_is_read_at_once_and_changed_once_all_have_reported() {
    let mut world = leader(&[A, B]);
    assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    let state = world.meta.segments()[0].state;
    assert_eq!(state, SegmentState::Recovering);
    let first = InventoryPage { last: false, ..page(A, 0, &[entry("a", 0, KIB, 1)]) };
    assert_eq!(report(&mut world, first), Ok(()));
    assert_eq!(chain(&mut world, "a"), [1]);
    let early = [
        remove(&mut world, "a").0,
        end(&mut world, "x", version(7)).0,
        world.start(BOB, "b", KIB).map(|_| ()),
        world.put("c", KIB).map(|_| ()),
    ];
    assert_eq!(early, [EARLY; 4]);
    assert_eq!(report(&mut world, page(A, 1, &[entry("b", KIB, KIB, 2)])), Ok(()));
    assert!(!world.meta.serves(), "B may yet report");
    recover(&mut world, B, &[entry("a", 0, KIB, 1)]);
    assert!(world.meta.serves());
    assert_eq!(world.holders("a"), ["node-1:12345", "node-2:12345"]);
    assert_eq!(world.meta.stats().used_bytes, 3 * KIB);
    let placed = world.put("c", KIB).expect("there is room");
    assert!(placed.what.version.epoch == EPOCH);
    assert_eq!(record(&mut world), []);
}

#[test]
fn a_member_that_is_missing_is_marked_behind_once_no_route_to_it_is_left() {
    let mut world = leader(&[A, B]);
    recover(&mut world, A, &[entry("a", 0, KIB, 1)]);
    world.advance(Config::default().routes_last_ms - 1);
    assert!(!world.meta.has_effects() && !world.meta.serves());
    world.advance(1);
    assert!(!world.meta.serves(), "it is not recorded yet");
    assert_eq!(record(&mut world), [marked(B)]);
    assert!(world.meta.serves());
    // B reports late, but before it is struck. Its entries of keys that were changed since give way.
    world
        .upsert(BOB, "a", KIB)
        .map(|placed| end(&mut world, "a", placed.what.version))
        .unwrap()
        .0
        .unwrap();
    let late = [entry("a", 0, KIB, 1), entry("b", KIB, KIB, 2)];
    recover(&mut world, B, &late);
    assert_eq!((chain(&mut world, "b"), world.meta.segments()[1].behind), (vec![2], true));
    assert_eq!(record(&mut world), [], "it has something to drop");
    let dropped = world.fetch_drops(ALICE);
    let places: Vec<_> = dropped.iter().map(|it| (it.segment, it.offset, it.version)).collect();
    assert!(places.contains(&(B, 0, version(1))));
    assert_eq!(record(&mut world), [Effect::CaughtUp(B)]);
    assert!(!world.meta.segments()[1].behind);
}

#[test]
fn a_member_that_does_not_report_in_time_is_struck() {
    let mut world = leader(&[A, B]);
    recover(&mut world, A, &[]);
    world.advance(5_000);
    record(&mut world);
    world.ping(ALICE, &[A]);
    world.advance(9_000);
    world.ping(ALICE, &[A]);
    world.advance(1_000);
    assert_eq!(mount(&mut world, B, false), mounted(MountOutcome::StartEmpty));
    assert_eq!(record(&mut world), [Effect::Strike(B)]);
    assert_eq!(mount(&mut world, B, false), mounted(MountOutcome::StartEmpty));
    assert_eq!(mount(&mut world, SegmentId(3), true), mounted(MountOutcome::Ready));
}

#[test]
pub(crate) fn who_may_come_back_with_what_it_holds() {
    let behind = RecordedMembers {
        fresh: false,
        members: vec![Member { segment: A, behind: Some(Version::default()), is_disk: false }],
        ..RecordedMembers::default()
    };
    let traced = RecordedMembers {
        fresh: false,
        members: vec![Member { segment: A, behind: Some(version(3)), is_disk: false }],
        ..RecordedMembers::default()
    };
    let fresh = RecordedMembers { fresh: true, members: vec![], ..RecordedMembers::default() };
    let known = RecordedMembers {
        fresh: false,
        members: vec![Member { segment: A, behind: None, is_disk: false }],
        ..RecordedMembers::default()
    };
    let empty = RecordedMembers::default();
    for (record, wait_ms, is_empty, expected) in [
        (&known, 0, false, MountOutcome::WantsInventory),
        (&known, 0, true, MountOutcome::Ready),
        (&known, 15_000, false, MountOutcome::StartEmpty),
        (&behind, 0, false, MountOutcome::StartEmpty),
        (&behind, 0, true, MountOutcome::Ready),
        (&traced, 0, false, MountOutcome::WantsInventory),
        (&traced, 15_000, false, MountOutcome::StartEmpty),
        (&empty, 0, false, MountOutcome::StartEmpty),
        (&empty, 0, true, MountOutcome::Ready),
        (&fresh, 0, false, MountOutcome::WantsInventory),
        (&fresh, 14_999, false, MountOutcome::WantsInventory),
        (&fresh, 15_000, false, MountOutcome::StartEmpty),
    ] {
        let mut world = leader(&[]);
        world.meta = Meta::recover(Config::default(), EPOCH, world.now, record);
        // It hears of others all the time.
        let heard_ms = wait_ms / 10 * 9;
        world.advance(heard_ms);
        world.ping(BOB, &[]);
        world.advance(wait_ms - heard_ms);
        let outcome = mount(&mut world, A, is_empty);
        assert_eq!(outcome, mounted(expected), "{record:?} after {wait_ms} ms");
    }
}

#[test]
fn the_highest_version_of_a_key_is_served_behind_those_that_readers_may_hold() {
    for order in [[1, 2], [2, 1]] {
        let mut world = leader(&[A, B]);
        recover(&mut world, A, &[entry("k", 0, KIB, order[0])]);
        recover(&mut world, B, &[entry("k", 0, KIB, order[1])]);
        assert_eq!(chain(&mut world, "k"), [1, 2]);
        assert_eq!(end(&mut world, "k", version(2)), (Ok(()), vec![version(1)]));
        world.advance(5_000);
        assert_eq!(chain(&mut world, "k"), [2]);
        assert_eq!(end(&mut world, "k", version(2)), (Ok(()), vec![version(1)]));
        assert_eq!(world.fetch_drops(ALICE).len(), 1);
        assert_eq!(end(&mut world, "k", version(2)), (Ok(()), vec![]));
        assert_eq!(end(&mut world, "k", version(1)).0, Err(ErrorCode::ObjectAlreadyExists));
    }
}

#[test]
fn pins_groups_and_types_come_back() {
    let mut old = World::new(Config::default());
    old.mount(ALICE, 1, 256 * KIB).unwrap();
    let hard = ReplicateConfig { hard_pin: true, data_type: 7, ..ReplicateConfig::default() };
    let soft_pin = SoftPin::Enable { ttl_ms: Some(60_000) };
    let soft = ReplicateConfig { soft_pin, ..ReplicateConfig::default() };
    let hard = old.start_with(ALICE, "h", KIB, hard).unwrap().what.attributes;
    let soft = old.start_with(ALICE, "s", KIB, soft).unwrap().what.attributes;
    let grouped = PutItem { group: "group", ..PutItem::new("g", KIB) };
    let grouped = old.begin(ALICE, grouped, ReplicateConfig::default(), PutMode::Insert);
    let grouped = grouped.unwrap().what.attributes;

    let mut world = leader(&[A]);
    let with = |key, offset, attributes| InventoryEntry {
        attributes,
        ..entry(key, offset, KIB, 1 + offset)
    };
    let entries =
        [with("h", 0, &hard[..]), with("s", KIB, &soft[..]), with("g", 2 * KIB, &grouped[..])];
    recover(&mut world, A, &entries);
    assert_eq!(world.meta.peek("h").unwrap().data_type, 7);
    let stats = world.meta.stats();
    assert_eq!((stats.soft_pinned_keys, stats.groups), (1, 1));
    world.advance(60_000);
    world.ping(ALICE, &[A]);
    assert_eq!(world.meta.stats().soft_pinned_keys, 0);
    let start = PutStart { puts: vec![PutItem::new("new", 256 * KIB)], ..PutStart::default() };
    let Reply::Granted { results, .. } = world.ask(BOB, &Request::PutStart(start)) else {
        panic!()
    };
    assert_eq!(results, [Err(ErrorCode::NoAvailableHandle)], "what is pinned stays");
    world.check();
}

#[test]
fn what_was_evicted_is_named_and_fetched_until_it_is_dropped_or_overwritten() {
    let mut world = leader(&[]);
    assert_eq!(mount(&mut world, A, true), mounted(MountOutcome::Ready));
    let old = world.put("old", 200 * KIB).unwrap().what;
    let new = world.start(BOB, "new", 100 * KIB).unwrap().what;
    assert_eq!(world.meta.stats().tombstones, 1, "it was evicted");
    assert_eq!(remove(&mut world, "old"), (Err(ErrorCode::ObjectNotFound), vec![old.version]));
    assert_eq!(end(&mut world, "new", new.version), (Ok(()), vec![]));
    assert_eq!(remove(&mut world, "old").1, [], "it is overwritten");
    let puts = vec![PutRevoke::new("r", world.start(BOB, "r", KIB).unwrap().what.version)];
    world.ask(BOB, &Request::PutRevoke { puts });
    let Reply::Pong(pong) =
        world.ask(ALICE, &Request::Ping { segments: vec![A], unreachable: vec![], reads: None })
    else {
        panic!("no pong")
    };
    assert!(pong.has_drops, "a revoked put may be complete");
    assert_eq!(
        world.ask(BOB, &Request::FetchDrops { dropped: vec![], limit: 9 }),
        Reply::Drops(vec![])
    );
    assert_eq!(world.fetch_drops(ALICE).len(), 1);
    assert_eq!(world.meta.stats().tombstones, 0);
    world.check();
}

#[test]
fn nobody_waits_for_a_node_that_cannot_be_asked_once_it_is_marked_behind() {
    let mut world = leader(&[]);
    mount(&mut world, A, true);
    let since = world.put("k", KIB).unwrap().what.version;
    world.disconnect(ALICE);
    let (result, named) = remove(&mut world, "k");
    assert_eq!((result, named.len()), (Ok(()), 1));
    assert_eq!(record(&mut world), [Effect::MarkBehind(A, since)]);
    assert_eq!(remove(&mut world, "k").0, EARLY, "a later leader would believe the node");
    assert!(matches!(record(&mut world)[..], [Effect::Overrule(_, key)] if key.until >= since));
    assert_eq!(remove(&mut world, "k"), (Err(ErrorCode::ObjectNotFound), vec![]));
    world.ping(ALICE, &[A]);
    assert_eq!(world.start(BOB, "l", KIB).map(|_| ()), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(world.fetch_drops(ALICE).len(), 1);
    assert_eq!(record(&mut world), [Effect::CaughtUp(A)]);
    assert_eq!(world.start(BOB, "l", KIB).map(|_| ()), Ok(()));
}

#[test]
fn a_buried_node_is_lost_once_that_is_recorded() {
    let mut world = leader(&[]);
    mount(&mut world, A, true);
    let put = world.put("k", KIB).unwrap().what;
    world.advance(10_000);
    world.advance(5_000);
    assert_eq!(remove(&mut world, "k"), (Ok(()), vec![put.version]), "it may come back");
    assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::StartEmpty));
    assert_eq!(record(&mut world), [Effect::Strike(A)]);
    assert_eq!(remove(&mut world, "k"), (Err(ErrorCode::ObjectNotFound), vec![]));
    assert_eq!(world.meta.stats().segments, 0);
}

#[test]
fn memory_that_passed_to_another_process_keeps_what_it_holds() {
    let mut world = leader(&[]);
    mount(&mut world, A, true);
    world.put("k", KIB).unwrap();
    let by = |world: &mut World, from: ClientId, is_empty| {
        let (name, endpoint) = ("node-1:12345", "elsewhere:1");
        let (len, seen_epoch) = (256 * KIB, EPOCH);
        let mount = MountSegment {
            id: A,
            name,
            endpoint,
            len,
            seen_epoch,
            is_empty,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        };
        let reply = world.ask(from, &Request::MountSegment(mount));
        world.check();
        reply
    };
    let in_use = Reply::Done(Err(ErrorCode::SegmentAlreadyExists));
    assert_eq!(by(&mut world, BOB, false), in_use, "its host is in sight");
    world.disconnect(ALICE);
    assert_eq!(by(&mut world, BOB, false), mounted(MountOutcome::WantsInventory));
    assert_eq!(&*world.get("k").unwrap().segments[0].endpoint, "elsewhere:1");
    world.disconnect(BOB);
    assert_eq!(by(&mut world, ALICE, true), mounted(MountOutcome::StartEmpty), "it is lost");
    assert_eq!(record(&mut world), [Effect::Strike(A)]);
}

fn remove_all(world: &mut World) -> Reply {
    let action = ScanAction::Remove { force: true };
    let reply = world.ask(
        BOB,
        &Request::Scan(Scan {
            tenant: Some("default"),
            pattern: None,
            action,
            cursor: 0,
            limit: 100,
        }),
    );
    world.check();
    reply
}

#[test]
fn keys_are_removed_by_walking_only_once_all_members_have_told_theirs() {
    let mut world = leader(&[A, B]);
    recover(&mut world, A, &[entry("one", 0, KIB, 1)]);
    world.advance(Config::default().lease_ttl_ms + 1_000);
    record(&mut world);
    assert!(world.meta.serves(), "B is marked behind");
    let early = Reply::Refused(ErrorCode::UnavailableInCurrentStatus);
    assert_eq!(remove_all(&mut world), early);
    recover(&mut world, B, &[entry("two", 0, KIB, 2)]);
    match remove_all(&mut world) {
        Reply::Scanned(page) => assert_eq!(page.removed, 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stranger_brings_back_nothing_that_a_walk_would_have_removed() {
    let record = RecordedMembers { fresh: true, members: vec![], ..RecordedMembers::default() };
    let now = Tick(1_000);
    let mut world = World { meta: Meta::recover(Config::default(), EPOCH, now, &record), now };
    assert!(matches!(remove_all(&mut world), Reply::Scanned(_)));
    assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::StartEmpty));
}

#[test]
fn a_mount_that_is_refused_makes_no_member() {
    let world = leader(&[]);
    let good = MountSegment {
        id: A,
        name: "node:1",
        endpoint: "node:1",
        len: 256 * KIB,
        seen_epoch: EPOCH,
        is_empty: true,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    assert_eq!(world.meta.effects_before(&good), [Effect::Join(good.id)]);
    let cases = [
        MountSegment { len: 0, ..good },
        MountSegment { name: "", ..good },
        MountSegment { endpoint: "", ..good },
        MountSegment { seen_epoch: Epoch(EPOCH.0 + limits::MAX_EPOCH_JUMP), ..good },
        MountSegment { seen_epoch: Epoch((1 << 61) - 1), ..good },
        MountSegment { seen_epoch: Epoch(u64::MAX), ..good },
    ];
    for mount in cases {
        assert_eq!(world.meta.effects_before(&mount), [], "{mount:?}");
    }
}

/// The master would lead under the next epoch. Its nodes would obey it, and refuse every leader after it.
#[test]
fn a_mount_that_names_an_epoch_from_nowhere_changes_nothing() {
    let mut world = leader(&[]);
    let jump = limits::MAX_EPOCH_JUMP;
    let ask = |world: &mut World, id, seen_epoch| {
        let (name, endpoint) = ("node-1:12345", "node-1:12345");
        let len = 256 * KIB;
        let mount = MountSegment {
            id,
            name,
            endpoint,
            len,
            seen_epoch,
            is_empty: true,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        };
        let after = world.meta.epoch_after(&mount);
        for effect in world.meta.effects_before(&mount) {
            world.meta.handle_recorded(world.now, effect);
        }
        (after, world.ask(ALICE, &Request::MountSegment(mount)))
    };
    for seen in [EPOCH.0 + jump, (1 << 61) - 1, u64::MAX] {
        let refused = Reply::Done(Err(ErrorCode::InvalidVersion));
        assert_eq!(ask(&mut world, A, Epoch(seen)), (None, refused), "{seen}");
        assert_eq!(world.meta.epoch(), EPOCH);
    }
    let furthest = Epoch(EPOCH.0 + jump - 1);
    let after = Epoch(furthest.0 + 1);
    // The node has not seen that epoch yet, so writes under an earlier leader's grant may still begin there.
    assert_eq!(ask(&mut world, A, furthest), (Some(after), mounted(MountOutcome::WantsInventory)));
    assert_eq!(world.meta.epoch(), after);
    // The epoch cannot be raised again at once.
    let refused = Reply::Done(Err(ErrorCode::InvalidVersion));
    assert_eq!(ask(&mut world, B, Epoch(after.0 + 1)), (None, refused));
    // Time permits a further raise.
    world.advance(10);
    world.meta.handle_timeout(world.now);
    let later = Epoch(after.0 + 9);
    assert_eq!(ask(&mut world, B, later).0, Some(Epoch(later.0 + 1)));
}

/// The mount waited for the membership record when the client gave the segment up.
#[test]
fn a_mount_that_comes_after_its_segment_was_taken_back_brings_in_nothing() {
    let mut world = leader(&[]);
    let segment = MountSegment {
        id: B,
        name: "b",
        endpoint: "b:1",
        len: 256 * KIB,
        seen_epoch: EPOCH,
        is_empty: true,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    assert_eq!(world.meta.effects_before(&segment), [Effect::Join(B)]);
    assert_eq!(world.unmount(BOB, B.0, 0), Err(ErrorCode::SegmentNotFound));
    world.meta.handle_recorded(world.now, Effect::Join(B));
    let mount = Request::MountSegment(segment);
    assert_eq!(world.ask(BOB, &mount), Reply::Mounted(MountOutcome::StartEmpty));
    assert_eq!(record(&mut world), [Effect::Strike(B)]);
    assert_eq!(world.meta.segments(), []);
    // The client may mount another segment.
    assert_eq!(world.meta.effects_before(&MountSegment { id: A, ..segment }), [Effect::Join(A)]);
}

/// After the grace period, the rest of the inventory would never arrive.
#[test]
fn a_segment_that_is_telling_what_it_holds_is_not_taken_back_after_a_while() {
    let mut world = leader(&[A]);
    assert_eq!(mount(&mut world, A, false), Reply::Mounted(MountOutcome::WantsInventory));
    let refused = Err(ErrorCode::UnavailableInCurrentStatus);
    assert_eq!(world.unmount(ALICE, A.0, 1_000), refused);
    world.check();
    assert_eq!(world.unmount(ALICE, A.0, 0), Ok(()), "at once it is");
    world.check();
}

/// Readers may still have routes from the last leader to this member, and reach its node.
#[test]
fn a_leader_waits_for_the_routes_to_a_member_that_was_behind() {
    let members = [(A, Some(Version::default())), (B, None)];
    let members =
        members.map(|(segment, behind)| Member { segment, behind, is_disk: false }).to_vec();
    let now = Tick(1_000);
    let record = RecordedMembers { fresh: false, members, ..RecordedMembers::default() };
    let mut world = World { meta: Meta::recover(Config::default(), EPOCH, now, &record), now };
    recover(&mut world, B, &[entry("k", 0, KIB, 2)]);
    assert_eq!(chain(&mut world, "k"), [2]);
    let request = Request::Remove { keys: vec!["k"], force: true };
    let remove = |world: &mut World| answer(world.ask(BOB, &request)).0;
    assert_eq!(remove(&mut world), EARLY, "an older one may be read at A");
    world.advance(Config::default().routes_last_ms - 1);
    assert!(!world.meta.serves());
    world.advance(1);
    assert_eq!(remove(&mut world), Ok(()));
    world.check();
}

#[test]
fn a_member_that_was_behind_and_does_not_come_is_struck_when_the_window_is_over() {
    let members = [(A, Some(Version::default())), (B, None)];
    let members =
        members.map(|(segment, behind)| Member { segment, behind, is_disk: false }).to_vec();
    let now = Tick(1_000);
    let record_before = RecordedMembers { fresh: false, members, ..RecordedMembers::default() };
    let meta = Meta::recover(Config::default(), EPOCH, now, &record_before);
    let mut world = World { meta, now };
    recover(&mut world, B, &[]);
    assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::StartEmpty));
    assert_eq!(record(&mut world), [], "the next leader would not wait for routes to it");
    world.advance(5_000);
    assert!(world.meta.serves());
    world.advance(8_000);
    world.ping(BOB, &[]);
    world.advance(2_000);
    assert_eq!(record(&mut world), [Effect::Strike(A)]);
}

/// It was probably paused, or cut off.
/// If the leader dies in between, the next one must not believe a segment that lacks changes of which nobody can tell.
#[test]
fn a_segment_that_lacks_changes_is_struck_before_the_one_that_alone_could_tell_of_them() {
    let member = |segment, behind| Member { segment, behind, is_disk: false };
    let members = vec![member(A, None), member(B, Some(version(3)))];
    let known = RecordedMembers { fresh: false, members, ..RecordedMembers::default() };
    let mut world = leader(&[]);
    world.meta = Meta::recover(Config::default(), EPOCH, world.now, &known);
    let mut struck = Vec::new();
    for _ in 0..60 {
        world.advance(1_000);
        struck.extend(record(&mut world));
    }
    struck.retain(|effect| matches!(effect, Effect::Strike(_)));
    assert_eq!(struck, [Effect::Strike(B), Effect::Strike(A)]);
}

#[test]
fn a_leader_that_heard_of_nobody_gives_its_members_time_once_more() {
    let mut world = leader(&[A]);
    world.advance(5_000);
    assert_eq!(record(&mut world), [marked(A)]);
    world.advance(10_000);
    assert_eq!(record(&mut world), []);
    world.advance(9_999);
    assert_eq!(record(&mut world), []);
    world.advance(1);
    assert_eq!(record(&mut world), [Effect::Strike(A)]);
}
