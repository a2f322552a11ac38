//! A leader that has followed the nodes as a standby.

use std::collections::BTreeMap;

use mooncake_meta::{Effect, ImplausibleReport, Shadow};
use mooncake_types::{
    ChangesPage, EntryState, ErrorCode, Follow, FollowPage, InventoryEntry, ListedSegment,
    MountOutcome, MountSegment, RangeDrop, Reply, Request, Seal, SegmentAddress, SegmentId,
    SegmentPage, Version, limits,
};

use crate::KIB;
use crate::recovery::{
    A, B, EARLY, EPOCH, chain, entry, leader, mount, mounted, page, record, recover, report,
    version,
};
use crate::world::{ALICE, BOB, World};

const LEN: u64 = 256 * KIB;
const SINCE: u64 = 7;
const WANTS_CHANGES: Reply = mounted(MountOutcome::WantsChanges { since: SINCE });

fn told<'a>(entries: &[InventoryEntry<'a>]) -> FollowPage<'a> {
    FollowPage { entries: entries.to_vec(), cursor: SINCE, ..FollowPage::default() }
}

/// The shadow of a segment with these entries.
fn shadow(entries: &[InventoryEntry<'_>]) -> Shadow {
    let mut shadow = Shadow::new(LEN);
    assert_eq!(shadow.take(&told(entries)), Ok(true));
    shadow
}

/// A leader whose predecessor led A and B. As a standby it has followed A.
fn warm(shadow: Shadow) -> World {
    let mut world = leader(&[A, B]);
    world.meta.remember(BTreeMap::from([(A, shadow)]));
    world
}

fn changes<'a>(number: u32, entries: &[InventoryEntry<'a>], gone: &[u64]) -> ChangesPage<'a> {
    let (entries, gone) = (entries.to_vec(), gone.to_vec());
    ChangesPage { segment: A, page: number, last: true, entries, gone }
}

fn tell(world: &mut World, page: ChangesPage<'_>) -> Result<(), ErrorCode> {
    let reply = world.ask(ALICE, &Request::ReportChanges(page));
    world.check();
    match reply {
        Reply::Done(result) => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_followed_is_read_once_it_is_told_what_changed_since() {
    let (a, b) = (entry("a", 0, KIB, 1), entry("b", KIB, KIB, 2));
    let mut world = warm(shadow(&[a, b]));
    assert_eq!(mount(&mut world, A, false), WANTS_CHANGES);
    assert_eq!(chain(&mut world, "a"), [0u64; 0], "it may have been removed since");
    let c = entry("c", 2 * KIB, KIB, 3);
    assert_eq!(tell(&mut world, changes(0, &[c], &[KIB])), Ok(()));
    let found = ["a", "b", "c"].map(|key| chain(&mut world, key));
    assert_eq!(found, [vec![1], vec![], vec![3]]);
    assert!(!world.meta.serves(), "the other has told nothing");
    assert_eq!(world.start(BOB, "new", KIB).map(|_| ()), EARLY);
    recover(&mut world, B, &[]);
    assert!(world.meta.serves());
    assert_eq!(world.start(BOB, "new", 250 * KIB).map(|_| ()), Ok(()));
}

#[test]
fn who_has_forgotten_what_changed_tells_everything() {
    let mut world = warm(shadow(&[entry("a", 0, KIB, 1), entry("b", KIB, KIB, 2)]));
    assert_eq!(mount(&mut world, A, false), WANTS_CHANGES);
    let b = entry("b", 8 * KIB, KIB, 4);
    assert_eq!(report(&mut world, page(A, 0, &[b])), Ok(()));
    world.timeouts();
    assert_eq!((chain(&mut world, "a"), chain(&mut world, "b")), (vec![], vec![4]));
    assert_eq!(world.meta.stats().used_bytes, KIB);
    assert_eq!(tell(&mut world, changes(0, &[], &[])), EARLY, "it has told everything");
}

#[test]
fn nothing_is_made_of_what_was_followed_in_part_or_is_of_another_segment() {
    let mut half = Shadow::new(LEN);
    let page = FollowPage { next: Some(KIB), ..told(&[entry("a", 0, KIB, 1)]) };
    assert_eq!(half.take(&page), Ok(true));
    assert_eq!(half.since(), None);
    let mut short = Shadow::new(LEN - 1);
    assert_eq!(short.take(&told(&[])), Ok(true));
    for useless in [half, short, Shadow::new(LEN)] {
        let mut world = warm(useless);
        assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    }
    let mut world = warm(shadow(&[]));
    assert_eq!(mount(&mut world, B, false), mounted(MountOutcome::WantsInventory));
    assert_eq!(mount(&mut world, A, true), mounted(MountOutcome::Ready), "nothing lies there");
    assert_eq!(tell(&mut world, changes(0, &[], &[])), EARLY);
    let stranger = Request::ReportChanges(changes(0, &[], &[]));
    assert_eq!(world.ask(BOB, &stranger), Reply::Done(Err(ErrorCode::IllegalClient)));
    let unknown = ChangesPage { segment: SegmentId(77), ..changes(0, &[], &[]) };
    assert_eq!(tell(&mut world, unknown), Err(ErrorCode::SegmentNotFound));
}

#[test]
fn a_long_segment_is_taken_up_page_by_page_while_others_are_served() {
    let keys: Vec<String> = (0..5).map(|it| format!("key-{it}")).collect();
    let entries = keys.iter().zip(0..).map(|(key, it)| entry(key, it * KIB, KIB, it + 1));
    let entries: Vec<InventoryEntry<'_>> = entries.collect();
    let mut world = warm(shadow(&entries).with_pages_of(2));
    recover(&mut world, B, &[]);
    assert_eq!(mount(&mut world, A, false), WANTS_CHANGES);
    assert_eq!(tell(&mut world, changes(0, &[], &[])), Ok(()));
    for known in [2, 4, 5] {
        assert_eq!(world.meta.stats().keys, known);
        assert_eq!(world.meta.serves(), known == 5);
        assert_eq!(world.meta.poll_timeout() == Some(world.now), known < 5);
        assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::Ready), "it has told all");
        world.meta.handle_timeout(world.now);
        world.check();
    }
}

/// While the leader loads the shadow, a client has the node drop one of its entries.
#[test]
fn what_is_dropped_while_a_shadow_is_taken_up_does_not_come_back() {
    let (a, b) = (entry("a", 0, KIB, 1), entry("b", KIB, KIB, 2));
    let mut world = warm(shadow(&[a, b]).with_pages_of(1));
    assert_eq!(mount(&mut world, A, false), WANTS_CHANGES);
    assert_eq!(tell(&mut world, changes(0, &[], &[])), Ok(()));
    let range = RangeDrop { segment: A, offset: KIB, version: version(2), grant: version(2) };
    let dropped = Request::Dropped { dropped: vec![range] };
    assert_eq!(world.ask(ALICE, &dropped), Reply::Done(Ok(())));
    world.timeouts();
    assert_eq!((chain(&mut world, "a"), chain(&mut world, "b")), (vec![1], vec![]));
    // A drop under an older grant does not concern the newer entry in the same range.
    let copy = InventoryEntry { grant: version(5), ..entry("b", KIB, KIB, 2) };
    let mut world = warm(shadow(&[entry("a", 0, KIB, 1), copy]).with_pages_of(1));
    assert_eq!(mount(&mut world, A, false), WANTS_CHANGES);
    assert_eq!(tell(&mut world, changes(0, &[], &[])), Ok(()));
    let older = RangeDrop { segment: A, offset: KIB, version: version(2), grant: version(4) };
    world.ask(ALICE, &Request::Dropped { dropped: vec![older] });
    world.timeouts();
    assert_eq!(chain(&mut world, "b"), [2]);
}

#[test]
fn another_process_with_the_memory_tells_everything_again() {
    let (a, b) = (entry("a", 0, KIB, 1), entry("b", KIB, KIB, 2));
    let mut world = warm(shadow(&[a, b]).with_pages_of(1));
    assert_eq!(mount(&mut world, A, false), WANTS_CHANGES);
    assert_eq!(tell(&mut world, changes(0, &[], &[])), Ok(()));
    let again = MountSegment {
        id: A,
        name: "node-1:12345",
        endpoint: "node-1:23456",
        len: LEN,
        seen_epoch: EPOCH,
        is_empty: false,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    let reply = world.ask(ALICE, &Request::MountSegment(again));
    assert_eq!(reply, mounted(MountOutcome::WantsInventory));
    world.timeouts();
    assert_eq!((chain(&mut world, "a"), chain(&mut world, "b")), (vec![1], vec![]));
    assert_eq!(report(&mut world, page(A, 0, &[a])), Ok(()));
    assert_eq!((chain(&mut world, "a"), chain(&mut world, "b")), (vec![1], vec![]));
}

#[test]
fn changes_that_make_no_sense_have_their_segment_struck() {
    let good = entry("k", KIB, KIB, 1);
    let new = Version { epoch: EPOCH, counter: 1 };
    let cases = [
        ("past the end", 0, InventoryEntry { offset: 255 * KIB + 1, ..good }),
        ("no key", 0, InventoryEntry { key: "", ..good }),
        ("not the next page", 1, good),
    ];
    for (what, number, bad) in cases {
        let mut world = warm(shadow(&[]));
        recover(&mut world, B, &[]);
        assert_eq!(mount(&mut world, A, false), WANTS_CHANGES);
        let result = tell(&mut world, changes(number, &[bad], &[]));
        assert_eq!(result, Err(ErrorCode::InvalidParams), "{what}");
        assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::StartEmpty), "{what}");
        assert_eq!(record(&mut world), [Effect::Strike(A)], "{what}");
    }
    let grown = InventoryEntry { version: new, grant: new, ..good };
    let mut world = warm(shadow(&[good]));
    assert_eq!(mount(&mut world, A, false), WANTS_CHANGES);
    assert_eq!(tell(&mut world, changes(0, &[grown], &[])), Ok(()), "it is looked at later");
    assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::StartEmpty));
}

#[test]
fn a_page_that_no_node_makes_is_refused_by_a_standby() {
    let good = entry("k", KIB, KIB, 1);
    let page = |entry| told(&[entry]);
    let long = "k".repeat(limits::MAX_KEY_BYTES + 1);
    for (what, bad) in [
        ("past the end", page(InventoryEntry { offset: 255 * KIB + 1, ..good })),
        ("an end that overflows", page(InventoryEntry { offset: u64::MAX, ..good })),
        ("no bytes", page(InventoryEntry { len: 0, object_len: 0, ..good })),
        ("a long key", page(InventoryEntry { key: &long, ..good })),
        ("attributes that nobody gave", page(InventoryEntry { attributes: &[255, 0], ..good })),
        ("it goes on where it began", FollowPage { next: Some(0), ..told(&[]) }),
    ] {
        assert_eq!(Shadow::new(LEN).take(&bad), Err(ImplausibleReport), "{what}");
    }
    let at = |next| FollowPage { next: Some(next), ..told(&[]) };
    let mut shadow = Shadow::new(LEN);
    assert_eq!(shadow.ask(A), Follow { segment: A, since: None, from: None, seal: Seal::NONE });
    assert_eq!(shadow.take(&at(KIB)), Ok(true));
    assert_eq!(
        shadow.ask(A),
        Follow { segment: A, since: Some(SINCE), from: Some(KIB), seal: Seal::NONE }
    );
    assert_eq!(shadow.take(&at(KIB)), Err(ImplausibleReport), "it does not go on");
    assert_eq!(shadow.take(&told(&[good])), Ok(true));
    assert_eq!(
        shadow.ask(A),
        Follow { segment: A, since: Some(SINCE), from: None, seal: Seal::NONE }
    );
    let changed = |cursor, more| FollowPage { cursor, more, ..told(&[]) };
    assert_eq!(shadow.take(&at(2 * KIB)), Err(ImplausibleReport), "all entries were told");
    assert_eq!(shadow.take(&changed(SINCE - 1, false)), Err(ImplausibleReport), "it goes back");
    assert_eq!(shadow.take(&changed(SINCE, true)), Err(ImplausibleReport), "it does not go on");
    assert_eq!(shadow.take(&changed(SINCE, false)), Ok(false));
    assert_eq!(shadow.take(&changed(SINCE + 2, true)), Ok(true));
    assert_eq!((shadow.since(), shadow.entries()), (Some(SINCE + 2), 1));
}

#[test]
fn an_entry_takes_the_place_of_all_that_overlapped_it() {
    let mut shadow = shadow(&[
        entry("a", 0, 2 * KIB, 1),
        entry("b", 2 * KIB, KIB, 2),
        entry("c", 3 * KIB, KIB, 3),
        entry("d", 4 * KIB, KIB, 4),
    ]);
    let over = FollowPage { cursor: SINCE + 9, ..told(&[entry("e", KIB, 3 * KIB - 1, 5)]) };
    assert_eq!(shadow.take(&over), Ok(false));
    assert_eq!(shadow.entries(), 2);
    let mut world = leader(&[A]);
    world.meta.remember(BTreeMap::from([(A, shadow)]));
    let since = MountOutcome::WantsChanges { since: SINCE + 9 };
    assert_eq!(mount(&mut world, A, false), mounted(since));
    assert_eq!(tell(&mut world, changes(0, &[], &[])), Ok(()));
    let found = ["a", "b", "c", "d", "e"].map(|key| chain(&mut world, key));
    assert_eq!(found, [vec![], vec![], vec![], vec![4], vec![5]]);
}

/// A leader with a shadow and the changes knows the same as a leader with the whole inventory.
#[test]
fn a_leader_that_followed_knows_what_one_knows_that_is_told_everything() {
    for seed in 0..200 {
        let mut chance = seed * 2 + 1;
        let mut below = |bound: u64| {
            chance = u64::wrapping_mul(chance, 6_364_136_223_846_793_005).wrapping_add(99);
            (chance >> 33) % bound
        };
        let held: Vec<(u64, u64, u64)> =
            (0..40).map(|place| (place * KIB, below(12), below(6))).collect();
        let keys: Vec<String> = (0..12).map(|key| format!("key-{key}")).collect();
        let listed = |of: &[(u64, u64, u64)]| -> Vec<InventoryEntry<'_>> {
            let listed = of.iter().filter(|(.., kind)| *kind > 0);
            listed.map(|&(offset, key, kind)| any_entry(&keys, offset, key, kind)).collect()
        };
        let mut now = held.clone();
        for _ in 0..below(30) {
            now[below(40) as usize] = (0, below(12), below(6));
        }
        let at = |it: (usize, &mut (u64, u64, u64))| it.1.0 = it.0 as u64 * KIB;
        now.iter_mut().enumerate().for_each(at);
        let changed = |place: &usize| held[*place] != now[*place];
        let changed: Vec<_> = (0..40).filter(changed).map(|place| now[place]).collect();
        let gone = changed.iter().filter(|(.., kind)| *kind == 0).map(|(offset, ..)| *offset);
        let page = changes(0, &listed(&changed), &gone.collect::<Vec<_>>());

        let mut world = warm(shadow(&listed(&held)).with_pages_of(1 + seed as usize % 9));
        assert_eq!(mount(&mut world, A, false), WANTS_CHANGES);
        assert_eq!(tell(&mut world, page), Ok(()));
        world.timeouts();
        let mut cold = leader(&[A, B]);
        recover(&mut cold, A, &listed(&now));
        for world in [&mut world, &mut cold] {
            recover(world, B, &[entry("key-3", 0, KIB, 3), entry("other", KIB, KIB, 99)]);
            world.timeouts();
        }
        let known = |world: &mut World| {
            let keys: Vec<_> =
                keys.iter().map(|key| (world.meta.peek(key), chain(world, key))).collect();
            (keys, world.meta.stats(), world.meta.segments(), world.fetch_drops(ALICE))
        };
        assert_eq!(known(&mut world), known(&mut cold), "seed {seed}");
    }
}

/// A whole replica, a stripe or an unfinished entry, depending on `kind`.
fn any_entry(keys: &[String], offset: u64, key: u64, kind: u64) -> InventoryEntry<'_> {
    let place = offset / KIB;
    let counter = 1 + key + 20 * (place % 3) + 100 * kind;
    let whole = entry(&keys[key as usize], offset, KIB, counter);
    match kind {
        1 => InventoryEntry { state: EntryState::Writing, ..whole },
        2 => InventoryEntry { object_len: 2 * KIB, object_offset: KIB * (place % 2), ..whole },
        3 if place.is_multiple_of(4) => InventoryEntry { attributes: b"\x00\x00group", ..whole },
        4 => InventoryEntry { attributes: &[1, 0], ..whole },
        _ => whole,
    }
}

#[test]
fn a_leader_lists_its_segments_for_masters_that_stand_by() {
    let mut world = leader(&[A, B]);
    let list = |world: &mut World, from, limit| {
        let clients = world.meta.stats().clients_in_sight;
        let reply = world.ask(BOB, &Request::ListSegments { from, limit });
        assert_eq!(world.meta.stats().clients_in_sight, clients, "another master is no client");
        reply
    };
    assert_eq!(list(&mut world, 0, 10), Reply::Segments(SegmentPage::default()));
    mount(&mut world, A, false);
    recover(&mut world, B, &[]);
    let listed = |id: SegmentId| {
        let name = format!("node-{}:12345", id.0);
        let address = SegmentAddress {
            id,
            name: name.as_str().into(),
            endpoint: name.into(),
            medium: mooncake_types::Medium::Memory,
        };
        ListedSegment { address, len: LEN, seal: Seal::NONE }
    };
    let both = SegmentPage { segments: vec![listed(A), listed(B)], ..SegmentPage::default() };
    let first = SegmentPage { segments: vec![listed(A)], next: Some(1), ..SegmentPage::default() };
    let second = SegmentPage { segments: vec![listed(B)], ..SegmentPage::default() };
    assert_eq!(list(&mut world, 0, 10), Reply::Segments(both.clone()));
    assert_eq!(list(&mut world, 0, 1), Reply::Segments(first));
    assert_eq!(list(&mut world, 1, 1), Reply::Segments(second));
    assert_eq!(list(&mut world, 2, 1), Reply::Segments(SegmentPage::default()));
    let now = world.now;
    let request = Request::ListSegments { from: 0, limit: u32::MAX };
    let suspended = world.meta.handle_suspended(now, BOB, &request);
    assert_eq!(suspended, Reply::Segments(both));
}
