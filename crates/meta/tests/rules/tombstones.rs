//! Entries that nodes still have to drop.

use mooncake_meta::{Config, Notice, Remnant, RemnantCursor};
use mooncake_types::{
    CreateTask, Epoch, ErrorCode, MountOutcome, MountSegment, Pong, RangeDrop, Reply, Request,
    Scan, ScanAction, ScanPage, SegmentId, TaskKind, Version, limits,
};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool, pool_with};

const FIRST: SegmentId = SegmentId(1);

fn ping(world: &mut World) -> Pong {
    match world
        .ask(ALICE, &Request::Ping { segments: vec![FIRST], unreachable: vec![], reads: None })
    {
        Reply::Pong(pong) => pong,
        other => panic!("{other:?}"),
    }
}

/// Removes all objects, page by page. Returns how many were removed, and all versions that the pages name.
fn remove_all(world: &mut World, limit: u32) -> (u64, Vec<Version>) {
    let (mut removed, mut named, mut cursor) = (0, Vec::new(), 0);
    loop {
        let action = ScanAction::Remove { force: true };
        let scan = Scan { tenant: Some("default"), pattern: Some("^none$"), action, cursor, limit };
        let Reply::Scanned(page) = world.ask(BOB, &Request::Scan(scan)) else { panic!("no page") };
        removed += page.removed;
        named.extend(page.remains.ranges.iter().map(|range| range.version));
        let Some(next) = page.next_cursor else { return (removed, named) };
        assert_ne!(next, cursor);
        cursor = next;
    }
}

/// A later leader would find the entries, and the removed objects would be back.
#[test]
fn a_removal_of_many_names_what_was_evicted_before() {
    for limit in [1, 2, 100] {
        let mut world = pool(3, 64 * KIB);
        let mut versions = Vec::new();
        for put in 0..7 {
            versions.push(world.put(&format!("k{put}"), KIB).unwrap().what.version);
            world.remove(&format!("k{put}"), false).unwrap();
        }
        let stays = world.put("stays", KIB).unwrap().what.version;
        let (removed, mut named) = remove_all(&mut world, limit);
        named.sort();
        // A version may be named twice.
        named.dedup();
        let tombstones = world.fetch_drops(ALICE);
        let mut tombstones: Vec<Version> = tombstones.iter().map(|range| range.version).collect();
        tombstones.sort();
        assert_eq!((removed, named), (0, tombstones), "pages of {limit}");
        assert_eq!(world.version("stays"), Some(stays));
        assert_eq!(remove_all(&mut world, limit), (0, vec![]));
    }
}

#[test]
fn a_listing_has_no_pages_of_tombstones() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", KIB).unwrap();
    world.remove("k", false).unwrap();
    let scan = |cursor| {
        Request::Scan(Scan {
            tenant: Some("default"),
            pattern: None,
            action: ScanAction::List,
            cursor,
            limit: 10,
        })
    };
    let page = ScanPage::default();
    assert_eq!(world.ask(BOB, &scan(0)), Reply::Scanned(page));
    let refusal = Reply::Refused(ErrorCode::InvalidParams);
    assert_eq!(world.ask(BOB, &scan(1 << 63)), refusal);
}

/// The copy took the range of an entry whose drop was confirmed late.
#[test]
fn a_drop_of_before_says_nothing_of_a_copy_to_the_same_place() {
    let mut world = pool(2, 64 * KIB);
    let config = mooncake_types::ReplicateConfig {
        replica_num: 2,
        ..mooncake_types::ReplicateConfig::default()
    };
    world.put_with(ALICE, "k", KIB, config).unwrap();
    assert_eq!(world.clear(ALICE, "k", "node-2:12345"), Err(ErrorCode::ObjectHasLease));
    world.advance(6_000);
    ping(&mut world);
    world.clear(ALICE, "k", "node-2:12345").unwrap();
    let Reply::Drops(first) = world.ask(ALICE, &Request::FetchDrops { dropped: vec![], limit: 9 })
    else {
        panic!("no drops")
    };
    let task =
        CreateTask { key: "k", kind: TaskKind::Copy, source: "", targets: vec!["node-2:12345"] };
    world.create_task(task).unwrap();
    let order = world.fetch_tasks(ALICE).orders.remove(0);
    assert_eq!(first.len(), 1);
    assert!(order.grant > first[0].grant, "what is dropped is older than the copy");
    world.end_task(ALICE, order.id, Ok(())).unwrap();
    world.advance(6_000);
    ping(&mut world);
    world.clear(ALICE, "k", "node-2:12345").unwrap();
    let dropped = first.clone();
    let Reply::Drops(second) = world.ask(ALICE, &Request::FetchDrops { dropped, limit: 9 }) else {
        panic!("no drops")
    };
    let place = |range: &RangeDrop| (range.segment, range.offset, range.version);
    assert_eq!(second.iter().map(place).collect::<Vec<_>>(), [place(&first[0])]);
    assert!(second[0].grant >= order.grant, "the copy is still to be dropped");
}

#[test]
fn a_node_with_too_much_to_drop_takes_no_puts_and_keeps_what_it_has_while_it_answers() {
    let config =
        Config { most_tombstones: 4, eviction_high_watermark_ratio: 1.0, ..Config::default() };
    let full = || {
        let mut world = pool_with(1, 64 * KIB, config.clone());
        let keys: Vec<String> = (0..6).map(|number| format!("k{number}")).collect();
        keys.iter().for_each(|key| drop(world.put(key, KIB).unwrap()));
        keys[..5].iter().for_each(|key| world.remove(key, false).unwrap());
        world.check();
        assert_eq!(world.put("more", KIB).map(|_| ()), Err(ErrorCode::NoAvailableHandle));
        assert!(ping(&mut world).has_drops);
        world
    };
    let mut world = full();
    assert_eq!(world.fetch_drops(ALICE).len(), 5);
    ping(&mut world);
    world.check();
    world.put("more", KIB).expect("it takes puts again");
    assert!(world.exist("k5"));
    let mut world = full();
    for _ in 0..600 {
        world.advance(1_000);
        assert!(!ping(&mut world).need_remount);
    }
    assert!(world.exist("k5"), "its node answers, though it drops nothing");
    let said = |notice: &Notice| matches!(notice, Notice::TooMuchToDrop { tombstones: 5, .. });
    assert_eq!(world.meta.take_notices().iter().filter(|&it| said(it)).count(), 1);
    world.fetch_drops(ALICE);
    ping(&mut world);
    world.put("more", KIB).expect("it takes puts again");
    world.check();
}

/// The node's process has restarted without its memory.
#[test]
fn a_node_that_comes_back_empty_at_another_port_starts_empty() {
    for (is_empty, outcome) in [(true, MountOutcome::StartEmpty), (false, MountOutcome::Ready)] {
        let mut world = pool(1, 64 * KIB);
        world.put("k", KIB).unwrap();
        let mount = MountSegment {
            id: FIRST,
            name: "node-1:12345",
            endpoint: "node-1:23456",
            len: 64 * KIB,
            seen_epoch: world.meta.epoch(),
            is_empty,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        };
        let reply = world.ask(ALICE, &Request::MountSegment(mount));
        assert_eq!(reply, Reply::Mounted(outcome));
        assert_eq!(world.exist("k"), !is_empty);
    }
}

/// Nodes refuse drops under an epoch below the one that they obey. A drop under the new epoch must not also remove
/// what a put may have written in the same range.
#[test]
fn a_leader_that_outranks_another_names_again_what_is_not_beneath_a_put() {
    let mut world = pool(1, 64 * KIB);
    let beneath = world.put("a", KIB).unwrap().what;
    world.put("b", KIB).unwrap();
    let alone = world.put("c", KIB).unwrap().what;
    world.remove("a", false).unwrap();
    world.remove("c", false).unwrap();
    let running = world.start(BOB, "d", KIB).unwrap().what;
    assert_eq!(running.placements[0].offset, beneath.placements[0].offset, "in its place");
    let before = world.meta.epoch();
    let seen_epoch = Epoch(before.0 + 5);
    let (name, endpoint) = ("node-2:12345", "node-2:12345");
    let (id, len, is_empty) = (SegmentId(2), 64 * KIB, true);
    let mount = MountSegment {
        id,
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
    world.ask(BOB, &Request::MountSegment(mount));
    let after = world.meta.epoch();
    assert!(after > seen_epoch);
    let named = |world: &mut World| {
        let fetch = Request::FetchDrops { dropped: vec![], limit: 9 };
        let Reply::Drops(drops) = world.ask(ALICE, &fetch) else { panic!("no drops") };
        let mut named: Vec<_> = drops.iter().map(|it| (it.version, it.grant.epoch)).collect();
        named.sort_unstable();
        named
    };
    assert_eq!(named(&mut world), [(beneath.version, before), (alone.version, after)]);
    world.advance(1_000);
    assert_eq!(named(&mut world)[0], (beneath.version, before), "the put is under way still");
    world.revoke(BOB, "d", &running).unwrap();
    world.advance(1_000);
    assert!(named(&mut world).iter().all(|(_, epoch)| *epoch == after));
    world.check();
}

/// Looks for remnants as a waiting master does, until it would have to wait.
fn look(world: &mut World, newest: Version, limit: usize) -> Remnant {
    let mut from = RemnantCursor::default();
    loop {
        match world.meta.look_for_remnants(world.now, newest, (from, limit)) {
            Remnant::From(next) if next != from => from = next,
            remnant => return remnant,
        }
    }
}

/// An earlier answer would be wrong: a later leader could find all removed objects.
#[test]
fn a_removal_of_many_is_over_when_the_nodes_have_dropped_what_went() {
    for limit in [1, 2, 100] {
        let mut world = pool(3, 64 * KIB);
        for put in 0..5 {
            world.put(&format!("k{put}"), KIB).unwrap();
        }
        world.get("k1").unwrap();
        let all = Scan {
            tenant: Some("default"),
            pattern: None,
            action: ScanAction::Remove { force: true },
            cursor: 0,
            limit: 9,
        };
        let Reply::Scanned(page) = world.ask(BOB, &Request::Scan(all)) else { panic!("no page") };
        assert_eq!(page.removed, 5);
        let newest = world.meta.newest_version();
        assert!(matches!(look(&mut world, newest, limit), Remnant::From(_)), "one is leased");
        world.advance(Config::default().lease_ttl_ms);
        ping(&mut world);
        assert!(matches!(look(&mut world, newest, limit), Remnant::From(_)));
        // Objects that are put and removed later do not count.
        world.put("later", KIB).unwrap();
        world.remove("later", false).unwrap();
        let fetch = Request::FetchDrops { dropped: vec![], limit: 100 };
        let Reply::Drops(drops) = world.ask(ALICE, &fetch) else { panic!("no drops") };
        for range in drops.iter().filter(|range| range.version <= newest) {
            assert!(matches!(look(&mut world, newest, limit), Remnant::From(_)), "{range:?}");
            let dropped = vec![*range];
            world.ask(ALICE, &Request::FetchDrops { dropped, limit: 0 });
        }
        assert_eq!(look(&mut world, newest, limit), Remnant::None, "pages of {limit}");
    }
}

/// Each tombstone of a key is named once, even if other keys were removed in between.
#[test]
fn a_removal_that_names_a_key_many_times_names_each_tombstone_once() {
    let mut world = pool(1, 64 * KIB);
    for number in 0..9 {
        world.put("k", KIB).unwrap();
        world.put(&format!("beside {number}"), KIB).unwrap();
        world.remove("k", false).unwrap();
    }
    world.put("k", KIB).unwrap();
    let keys = vec!["k"; limits::MAX_BATCH_KEYS];
    let Reply::Remaining { results, remains } =
        world.ask(BOB, &Request::Remove { keys, force: false })
    else {
        panic!("nothing remains")
    };
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let mut named: Vec<Version> = remains.ranges.iter().map(|range| range.version).collect();
    let mut left: Vec<Version> =
        world.fetch_drops(ALICE).iter().map(|range| range.version).collect();
    named.sort();
    left.sort();
    assert_eq!(named, left);
    world.check();
}
