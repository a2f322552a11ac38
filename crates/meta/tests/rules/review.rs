//! A node that restarts with its memory, under the same leader.

use mooncake_types::{
    CreateTask, EntryState, ErrorCode, Grant, InventoryEntry, InventoryPage, MountOutcome,
    MountSegment, RangeDrop, ReplicateConfig, Reply, Request, SegmentId, SegmentState, TaskKind,
    TaskStatus, Version,
};

use crate::drain::drain;
use crate::recovery::{self, A, chain, entry, leader, mounted};
use crate::world::{ALICE, BOB, Placed, World};
use crate::{KIB, pool};

const FIRST: SegmentId = SegmentId(1);
const LEN: u64 = 64 * KIB;
const EARLY: Result<(), ErrorCode> = Err(ErrorCode::UnavailableInCurrentStatus);

/// A mount of the first segment by the process with this run number.
fn mount_of(world: &World, run: u64) -> MountSegment<'static> {
    let (name, seen_epoch) = ("node-1:12345", world.meta.epoch());
    MountSegment {
        id: FIRST,
        name,
        endpoint: name,
        len: LEN,
        seen_epoch,
        is_empty: false,
        run,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    }
}

fn mount(world: &mut World, mount: MountSegment<'_>) -> Reply {
    let reply = world.ask(ALICE, &Request::MountSegment(mount));
    world.check();
    reply
}

/// Mounts the first segment as its next process.
fn start_again(world: &mut World, run: u64) {
    world.disconnect(ALICE);
    world.ping(ALICE, &[FIRST]);
    let again = mount_of(world, run);
    assert_eq!(mount(world, again), mounted(MountOutcome::WantsInventory));
}

/// The entry of an object in the first segment.
fn held<'a>(key: &'a str, placed: &'a Placed<Grant>) -> InventoryEntry<'a> {
    let grant = &placed.what;
    let is_first = |segment: u32| placed.segments[segment as usize].id == FIRST;
    let range = grant.placements.iter().find(|range| is_first(range.segment));
    let range = range.expect("a replica lies there");
    InventoryEntry {
        offset: range.offset,
        len: range.len,
        key,
        version: grant.version,
        grant: grant.version,
        object_len: range.len,
        attributes: &grant.attributes,
        ..InventoryEntry::default()
    }
}

fn page<'a>(run: u64, entries: &[InventoryEntry<'a>]) -> InventoryPage<'a> {
    let mut entries = entries.to_vec();
    entries.sort_by_key(|entry| entry.offset);
    InventoryPage { segment: FIRST, run, page: 0, last: true, entries }
}

fn report(world: &mut World, page: InventoryPage<'_>) -> Result<(), ErrorCode> {
    let reply = world.ask(ALICE, &Request::ReportInventory(page));
    world.check();
    match reply {
        Reply::Done(result) => result,
        other => panic!("{other:?}"),
    }
}

/// Two segments: one that Alice lends and one that Bob lends.
fn pair() -> World {
    let mut world = pool(1, LEN);
    world.mount(BOB, 2, LEN).expect("the segment is a new one");
    world
}

fn twice() -> ReplicateConfig<'static> {
    ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() }
}

fn on_first() -> ReplicateConfig<'static> {
    let preferred_segments = vec!["node-1:12345"];
    ReplicateConfig { preferred_segments, ..ReplicateConfig::default() }
}

/// Such keys could neither be read nor put again until they were evicted.
#[test]
fn objects_that_a_restarted_node_lost_do_not_stay_as_ghosts() {
    let mut world = pool(1, LEN);
    let put = |world: &mut World, key| world.put(key, KIB).expect("there is room");
    let (a, b, c) = (put(&mut world, "a"), put(&mut world, "b"), put(&mut world, "c"));
    let there = |world: &mut World| ["a", "b", "c"].map(|key| world.exist(key));
    start_again(&mut world, 2);
    assert_eq!(there(&mut world), [true; 3], "nodes refuse what they do not hold");
    let refused = world.start(BOB, "d", KIB).map(|_| ());
    assert_eq!(refused, Err(ErrorCode::NoAvailableHandle), "some of it may be taken");
    assert_eq!(report(&mut world, page(2, &[held("a", &a), held("c", &c)])), Ok(()));
    assert_eq!(there(&mut world), [true, false, true]);
    assert_eq!(
        (world.meta.stats().used_bytes, world.meta.stats().counters.lost_keys),
        (2 * KIB, 1)
    );
    let drops: Vec<_> = world.fetch_drops(ALICE).iter().map(|it| (it.offset, it.version)).collect();
    assert_eq!(drops, [(held("b", &b).offset, b.what.version)], "in any case");
    put(&mut world, "b");
    let again = mount_of(&world, 2);
    assert_eq!(mount(&mut world, again), mounted(MountOutcome::Ready), "it has told all");
}

#[test]
fn a_replica_that_a_restarted_node_lost_is_missed_and_the_other_read() {
    let mut world = pair();
    let put = world.put_with(BOB, "k", KIB, twice()).expect("there is room");
    world.put_with(BOB, "l", KIB, twice()).expect("there is room");
    assert!(world.exist("k"), "it has a lease");
    start_again(&mut world, 2);
    let half = InventoryPage { last: false, ..page(2, &[held("k", &put)]) };
    assert_eq!(report(&mut world, half), Ok(()));
    let rest = InventoryPage { page: 1, ..page(2, &[]) };
    assert_eq!(report(&mut world, rest), Ok(()));
    assert_eq!(world.holders("k"), ["node-1:12345", "node-2:12345"]);
    assert_eq!(world.holders("l"), ["node-2:12345"]);
    assert_eq!(world.meta.stats().counters.lost_keys, 0);
}

#[test]
fn what_a_restarted_node_has_and_nobody_knows_is_dropped() {
    let mut world = pool(1, LEN);
    let a = world.put("a", KIB).expect("there is room");
    start_again(&mut world, 2);
    let known = held("a", &a);
    let version = Version { counter: 0, ..a.what.version };
    let unknown = InventoryEntry { key: "b", offset: 8 * KIB, version, grant: version, ..known };
    let shorter = InventoryEntry { len: KIB / 2, object_len: KIB / 2, ..known };
    let writing = InventoryEntry { state: EntryState::Writing, offset: 16 * KIB, ..unknown };
    assert_eq!(report(&mut world, page(2, &[shorter, unknown, writing])), Ok(()));
    let grant = a.what.version;
    let drops = [(known.offset, grant), (8 * KIB, version)];
    let drops = drops.map(|(offset, version)| RangeDrop { segment: FIRST, offset, version, grant });
    assert_eq!(world.fetch_drops(ALICE), drops, "nothing else lies where it is written");
    assert!(!world.exist("a"), "what it has is of another length");
}

#[test]
fn a_put_that_had_not_ended_counts_only_where_its_node_names_it() {
    let mut world = pair();
    let start = |world: &mut World, key| world.start_with(BOB, key, KIB, twice()).unwrap();
    let (named, missed) = (start(&mut world, "named"), start(&mut world, "missed"));
    let (early, writing) = (start(&mut world, "early"), start(&mut world, "writing"));
    let alone = world.start_with(BOB, "alone", KIB, on_first()).unwrap();
    start_again(&mut world, 2);
    assert_eq!(world.end(BOB, "early", &early.what, 0), Ok(()));
    assert_eq!(world.holders("early"), ["node-2:12345"], "nobody knows yet");
    let begun = InventoryEntry { state: EntryState::Writing, ..held("writing", &writing) };
    let entries = [held("named", &named), begun, held("early", &early)];
    assert_eq!(report(&mut world, page(2, &entries)), Ok(()));
    for (key, placed) in [("named", &named), ("missed", &missed), ("writing", &writing)] {
        assert_eq!(world.end(BOB, key, &placed.what, 0), Ok(()), "{key}");
        world.check();
    }
    assert_eq!(world.end(BOB, "alone", &alone.what, 0), Err(ErrorCode::ObjectNotFound));
    world.check();
    assert_eq!(world.holders("named"), ["node-1:12345", "node-2:12345"]);
    assert_eq!(world.holders("missed"), ["node-2:12345"]);
    assert_eq!(world.holders("writing"), ["node-2:12345"]);
    world.put("alone", KIB).expect("there is room again");
    world.check();
}

#[test]
fn a_copy_that_had_not_ended_counts_only_if_its_node_names_it() {
    for is_named in [false, true] {
        let mut world = pair();
        let second = ReplicateConfig {
            preferred_segments: vec!["node-2:12345"],
            ..ReplicateConfig::default()
        };
        world.put_with(ALICE, "k", KIB, second).expect("there is room");
        let targets = vec!["node-1:12345"];
        let task = CreateTask { key: "k", kind: TaskKind::Copy, source: "", targets };
        let id = world.create_task(task).expect("there is room");
        let orders = world.fetch_tasks(BOB);
        let order = &orders.orders[0];
        let copy = InventoryEntry {
            offset: order.targets[0].offset,
            len: KIB,
            key: "k",
            version: order.version,
            grant: order.grant,
            object_len: KIB,
            attributes: &order.attributes,
            ..InventoryEntry::default()
        };
        start_again(&mut world, 2);
        let entries: &[InventoryEntry<'_>] = if is_named { &[copy] } else { &[] };
        assert_eq!(report(&mut world, page(2, entries)), Ok(()));
        assert_eq!(world.end_task(BOB, id, Ok(())), Ok(()));
        world.check();
        let ended = world.query_task(id).expect("it is known").status;
        let (status, holders) = match is_named {
            true => (TaskStatus::Success, vec!["node-1:12345", "node-2:12345"]),
            false => (TaskStatus::Failed, vec!["node-2:12345"]),
        };
        assert_eq!(
            (ended, world.holders("k")),
            (status, holders.into_iter().map(str::to_owned).collect())
        );
    }
}

#[test]
fn what_is_leaving_a_restarted_node_has_left_if_the_node_does_not_name_it() {
    for is_named in [false, true] {
        let mut world = pool(1, LEN);
        let put = world.put("k", KIB).expect("there is room");
        world.get("k").expect("it is there");
        assert_eq!(world.remove("k", true), Ok(()));
        assert_eq!(world.meta.stats().used_bytes, KIB, "readers may have routes to it");
        start_again(&mut world, 2);
        let entries: &[InventoryEntry<'_>] = if is_named { &[held("k", &put)] } else { &[] };
        assert_eq!(report(&mut world, page(2, entries)), Ok(()));
        assert_eq!(world.meta.stats().used_bytes, if is_named { KIB } else { 0 });
    }
}

#[test]
fn a_process_that_has_given_the_memory_to_the_next_is_not_heard() {
    let mut world = pool(1, LEN);
    let put = world.put("k", KIB).expect("there is room");
    start_again(&mut world, 3);
    let past = mount_of(&world, 2);
    let in_use = Reply::Done(Err(ErrorCode::SegmentAlreadyExists));
    assert_eq!(mount(&mut world, past), in_use);
    assert_eq!(report(&mut world, page(2, &[])), EARLY);
    assert_eq!(report(&mut world, page(3, &[held("k", &put)])), Ok(()));
    assert!(world.exist("k"));
    let of_before = mount_of(&world, 0);
    let reply = mount(&mut world, of_before);
    assert_eq!(reply, mounted(MountOutcome::WantsInventory), "one that does not count");
}

/// The segments would stay mounted for ever, since their client pings.
#[test]
fn segments_that_a_process_lent_beside_the_one_that_outlives_it_are_lost_with_it() {
    let mut world = pool(2, LEN);
    world.mount(BOB, 3, LEN).expect("the segment is a new one");
    start_again(&mut world, 2);
    world.timeouts();
    let left: Vec<_> = world.meta.segments().into_iter().map(|segment| segment.id.0).collect();
    assert_eq!(left, [1, 3]);
    let late = MountSegment { id: SegmentId(2), is_empty: true, ..mount_of(&world, 1) };
    let in_use = Reply::Done(Err(ErrorCode::SegmentAlreadyExists));
    assert_eq!(mount(&mut world, late), in_use, "it is of the process before");
    let other = MountSegment { id: SegmentId(4), is_empty: true, ..mount_of(&world, 2) };
    assert_eq!(mount(&mut world, other), mounted(MountOutcome::Ready));
}

#[test]
fn a_node_that_is_started_again_and_again_tells_all_each_time() {
    let mut world = pool(1, LEN);
    let a = world.put("a", KIB).expect("there is room");
    let b = world.put("b", KIB).expect("there is room");
    start_again(&mut world, 2);
    let half = InventoryPage { last: false, ..page(2, &[held("a", &a)]) };
    assert_eq!(report(&mut world, half), Ok(()));
    start_again(&mut world, 3);
    let page_1 = InventoryPage { page: 1, ..page(2, &[held("b", &b)]) };
    assert_eq!(report(&mut world, page_1), EARLY, "it is of the process before");
    assert_eq!(report(&mut world, page(3, &[held("b", &b)])), Ok(()));
    assert_eq!((world.exist("a"), world.exist("b")), (false, true));
    world.put("a", KIB).expect("it takes puts again");
}

#[test]
fn a_restarted_node_that_makes_no_sense_is_struck() {
    let put = |world: &mut World| world.put("k", KIB).expect("there is room");
    let mut world = pool(1, LEN);
    let sample = put(&mut world);
    let good = held("k", &sample);
    let later = Version { counter: good.version.counter + 1, ..good.version };
    let cases = [
        ("past the end", InventoryEntry { offset: LEN - KIB + 1, ..good }),
        ("a grant that nobody gave", InventoryEntry { grant: later, ..good }),
        ("no bytes", InventoryEntry { len: 0, ..good }),
    ];
    for (what, bad) in cases {
        let mut world = pool(1, LEN);
        put(&mut world);
        start_again(&mut world, 2);
        let result = report(&mut world, page(2, &[bad]));
        assert_eq!(result, Err(ErrorCode::InvalidParams), "{what}");
        world.timeouts();
        assert!(!world.exist("k"), "{what}");
        world.check();
    }
}

#[test]
fn a_segment_that_is_drained_goes_on_being_drained_when_its_node_is_started_again() {
    let mut world = pair();
    let put = world.put_with(ALICE, "k", KIB, on_first()).expect("there is room");
    drain(&mut world, &["node-1:12345"], &[]);
    start_again(&mut world, 2);
    let states = |world: &World| {
        let segments = world.meta.segments();
        segments.into_iter().map(|segment| segment.state).collect::<Vec<_>>()
    };
    let expected = [SegmentState::Draining, SegmentState::Ok];
    assert_eq!(states(&world), expected);
    assert_eq!(report(&mut world, page(2, &[held("k", &put)])), Ok(()));
    assert_eq!(states(&world), expected);
}

#[test]
fn a_large_review_is_made_of_bounded_steps() {
    let mut world = pool(1, LEN);
    let keys: Vec<String> = (0..5_000).map(|number| format!("key-{number}")).collect();
    for key in &keys {
        world.put(key, 8).expect("there is room");
    }
    start_again(&mut world, 2);
    assert_eq!(report(&mut world, page(2, &[])), Ok(()));
    let left = keys.iter().filter(|key| world.version(key).is_some()).count();
    assert!((4_500..5_000).contains(&left), "it has dropped so many: {left} are left");
    let refused = world.start(BOB, "d", 8).map(|_| ());
    assert_eq!(refused, Err(ErrorCode::NoAvailableHandle), "it is not over");
    assert_eq!(world.meta.poll_timeout(), Some(world.now));
    world.timeouts();
    world.check();
    assert_eq!(world.meta.stats().used_bytes, 0);
    world.put("d", 8).expect("it takes puts again");
}

/// The leader knew no entry of the segment, so it can have lost none.
#[test]
fn a_node_that_is_started_again_before_it_told_a_new_leader_anything_tells_it_all() {
    let mut world = leader(&[A]);
    assert_eq!(recovery::mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    let (name, len) = ("node-1:12345", 256 * KIB);
    let again = MountSegment { name, endpoint: name, len, ..mount_of(&world, 2) };
    assert_eq!(mount(&mut world, again), mounted(MountOutcome::WantsInventory));
    let all = [entry("a", 0, KIB, 1), entry("b", KIB, KIB, 2)];
    assert_eq!(recovery::report(&mut world, recovery::page(A, 0, &all)), EARLY, "of the first");
    let told = InventoryPage { run: 2, ..recovery::page(A, 0, &all) };
    assert_eq!(recovery::report(&mut world, told), Ok(()));
    assert_eq!(["a", "b"].map(|key| chain(&mut world, key)), [vec![1], vec![2]]);
}

/// Another leader had the node drop the entry; without this rule the object would stay although it is gone.
#[test]
fn what_was_dropped_between_two_inventories_of_a_node_is_lost() {
    let mut world = leader(&[A]);
    let (a, b, c) = (entry("a", 0, KIB, 1), entry("b", KIB, KIB, 2), entry("c", 2 * KIB, KIB, 3));
    assert_eq!(recovery::mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    let half = InventoryPage { last: false, ..recovery::page(A, 0, &[a, b]) };
    assert_eq!(recovery::report(&mut world, half), Ok(()));
    assert_eq!(recovery::mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    assert_eq!(recovery::report(&mut world, recovery::page(A, 0, &[b, c])), Ok(()));
    let found = ["a", "b", "c"].map(|key| chain(&mut world, key));
    assert_eq!(found, [vec![], vec![2], vec![3]]);
}
