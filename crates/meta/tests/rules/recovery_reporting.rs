//! Members that take longer to report than any timer, and members that fall silent.

use mooncake_meta::{Config, Effect, Member, Meta, Notice, RecordedMembers};
use mooncake_types::{InventoryPage, MountOutcome, Reply, Request, SegmentId};

use crate::KIB;
use crate::recovery::{
    A, B, EARLY, EPOCH, entry, leader, marked, mount, mounted, page, record, recover, remove,
    report,
};
use crate::world::{ALICE, BOB, World};

const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Sends one page of an inventory with one entry, 3 s after the last one.
fn tell_slowly(world: &mut World, segment: SegmentId, number: u32, last: bool) {
    world.advance(3_000);
    let offset = u64::from(number) * KIB;
    let entries = [entry(KEYS[number as usize], offset, KIB, u64::from(number) + 1)];
    assert_eq!(report(world, InventoryPage { last, ..page(segment, number, &entries) }), Ok(()));
}

fn holds_all(world: &World) -> bool {
    KEYS.iter().all(|key| world.meta.peek(key).is_some_and(|known| known.complete))
}

#[test]
pub(crate) fn a_member_that_reports_for_longer_than_every_timer_loses_nothing_and_is_not_behind() {
    let mut world = leader(&[A]);
    assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    for number in 0..8 {
        assert!(!world.meta.serves());
        assert_eq!(remove(&mut world, "a").0, EARLY);
        tell_slowly(&mut world, A, number, number == 7);
        assert_eq!(record(&mut world), []);
    }
    assert!(world.meta.serves() && holds_all(&world));
}

#[test]
fn leaders_that_die_while_a_member_reports_leave_it_in_the_record_as_it_was() {
    let mut world = leader(&[A]);
    let member = Member { segment: A, behind: None, is_disk: false };
    for death in 0..4 {
        assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory), "{death}");
        for number in 0..=death {
            tell_slowly(&mut world, A, number, false);
        }
        assert_eq!(record(&mut world), []);
        let known =
            RecordedMembers { fresh: false, members: vec![member], ..RecordedMembers::default() };
        world.meta = Meta::recover(Config::default(), EPOCH, world.now, &known);
    }
    let entries: Vec<_> =
        KEYS.iter().zip(0..).map(|(key, at)| entry(key, at * KIB, KIB, at + 1)).collect();
    recover(&mut world, A, &entries);
    assert!(world.meta.serves() && holds_all(&world));
}

#[test]
fn only_the_silent_are_marked_and_struck_and_only_once_the_others_have_reported() {
    let mut world = leader(&[A, B]);
    assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    for number in 0..7 {
        assert_eq!(record(&mut world), if number == 5 { vec![Effect::Strike(B)] } else { vec![] });
        tell_slowly(&mut world, A, number, false);
    }
    tell_slowly(&mut world, A, 7, true);
    assert!(world.meta.serves() && holds_all(&world));
    assert_eq!(mount(&mut world, B, false), mounted(MountOutcome::StartEmpty));

    let mut world = leader(&[A, B]);
    assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    tell_slowly(&mut world, A, 0, false);
    assert_eq!((record(&mut world), world.meta.serves()), (vec![], false));
    tell_slowly(&mut world, A, 1, true);
    assert_eq!((record(&mut world), world.meta.serves()), (vec![marked(B)], true));
}

#[test]
fn a_member_that_falls_silent_in_its_report_is_waited_for_5_s_and_one_out_of_sight_not_at_all() {
    for is_in_sight in [true, false] {
        let mut world = leader(&[A]);
        assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
        tell_slowly(&mut world, A, 0, false);
        world.ping(ALICE, &[A]);
        if is_in_sight {
            (0..49).for_each(|_| world.advance(100));
            assert_eq!(record(&mut world), []);
            world.advance(100);
        } else {
            world.disconnect(ALICE);
        }
        assert_eq!(record(&mut world), [marked(A)]);
        assert!(world.meta.serves());
        // The node goes on where it was, and then catches up.
        world.ping(ALICE, &[A]);
        let rest = [entry("b", KIB, KIB, 2)];
        assert_eq!(report(&mut world, page(A, 1, &rest)), Ok(()));
        assert_eq!(record(&mut world), [Effect::CaughtUp(A)]);
        assert!(world.meta.peek("a").is_some() && world.meta.peek("b").is_some());
    }
}

#[test]
fn a_node_that_begins_its_report_again_and_again_holds_up_nobody_for_longer_than_a_silent_one() {
    let mut world = leader(&[A]);
    assert_eq!(mount(&mut world, A, false), mounted(MountOutcome::WantsInventory));
    let first = || InventoryPage { last: false, ..page(A, 0, &[entry("a", 0, KIB, 1)]) };
    let mut waited_ms = 0;
    while !world.meta.serves() {
        assert_eq!(report(&mut world, first()), Ok(()));
        world.advance(500);
        waited_ms += 500;
        record(&mut world);
        assert!(waited_ms <= 6_000, "it still holds up everybody");
    }
}

#[test]
fn two_million_changed_keys_cost_no_disk() {
    let record_of = RecordedMembers {
        fresh: false,
        members: vec![Member { segment: B, behind: None, is_disk: true }],
        ..RecordedMembers::default()
    };
    let mut world = leader(&[]);
    world.meta = Meta::recover(Config::default(), EPOCH, world.now, &record_of);
    world.advance(20_000);
    assert_eq!(record(&mut world), [marked(B)]);
    assert!(world.meta.serves());
    for batch in 0..500 {
        let keys: Vec<String> = (0..4_000).map(|number| format!("{batch}/{number}")).collect();
        let keys = keys.iter().map(String::as_str).collect();
        let request = Request::Remove { keys, force: true };
        while world.meta.handle(world.now, BOB, &request) == Reply::Refused(EARLY.unwrap_err()) {
            let effects = record(&mut world);
            assert!(!effects.contains(&Effect::Strike(B)));
        }
    }
    assert_eq!(record(&mut world), []);
    // It comes 10 minutes after its leader, and gives way for what changed only.
    let late =
        [entry("1/1", 0, KIB, 1), entry("kept", KIB, KIB, 2), entry("499/9", 2 * KIB, KIB, 3)];
    recover(&mut world, B, &late);
    let known = ["1/1", "kept", "499/9"].map(|key| world.meta.peek(key).is_some());
    assert_eq!(known, [false, true, false]);
}

#[test]
fn a_segment_under_steady_removals_catches_up() {
    let mut world = leader(&[]);
    mount(&mut world, A, true);
    let since = ["a", "b", "c"].map(|key| world.put(key, KIB).unwrap().what.version)[2];
    world.disconnect(ALICE);
    let _ = remove(&mut world, "a");
    assert_eq!(record(&mut world), [Effect::MarkBehind(A, since)]);
    world.ping(ALICE, &[A]);
    // The node drops `a` while another key is removed: the next removal waits for its drop, as always.
    let (result, named) = remove(&mut world, "b");
    assert_eq!((result, named.len()), (Ok(()), 1));
    let drops = Request::FetchDrops { dropped: vec![], limit: 1 };
    let Reply::Drops(first) = world.ask(ALICE, &drops) else { panic!("no drops") };
    assert_eq!(first.len(), 1);
    assert_eq!(remove(&mut world, "c").0, Ok(()));
    assert_eq!(record(&mut world), [], "it has not dropped `a` yet");
    world.ask(ALICE, &Request::FetchDrops { dropped: first, limit: 1 });
    world.check();
    assert!(world.meta.stats().tombstones >= 2);
    assert_eq!(record(&mut world), [Effect::CaughtUp(A)]);
    assert_eq!(world.start(BOB, "new", KIB).map(|_| ()), Ok(()));
}

#[test]
fn a_segment_that_is_unmounted_answers_for_its_removals_until_that_is_recorded() {
    let mut world = leader(&[]);
    mount(&mut world, A, true);
    let put = world.put("k", KIB).unwrap().what;
    let unmount = Request::UnmountSegment { id: A, grace_ms: 0, failure: "" };
    assert_eq!(world.ask(ALICE, &unmount), Reply::Done(Ok(())));
    // A master that dies now leaves a successor that may find the key on the segment.
    assert_eq!(remove(&mut world, "k"), (Ok(()), vec![put.version]));
    assert!(world.start(BOB, "new", KIB).is_err());
    assert_eq!(record(&mut world), [Effect::Strike(A)]);
    assert_eq!(remove(&mut world, "k").1, []);
    assert_eq!(world.meta.stats().segments, 0);
}

#[test]
fn a_node_that_unmounts_and_leaves_is_neither_listed_nor_out_of_sight_while_the_record_is_written()
{
    let mut world = leader(&[]);
    mount(&mut world, A, true);
    let unmount = Request::UnmountSegment { id: A, grace_ms: 0, failure: "" };
    assert_eq!(world.ask(ALICE, &unmount), Reply::Done(Ok(())));
    assert_eq!(world.meta.segments(), []);
    assert_eq!(world.ask(ALICE, &Request::Leave { reads: None }), Reply::Done(Ok(())));
    world.meta.handle_disconnect(world.now, ALICE);
    let notices = world.meta.take_notices();
    assert!(!notices.iter().any(|it| matches!(it, Notice::SightLost { .. })), "{notices:?}");
    assert_eq!(record(&mut world), [Effect::Strike(A)]);
}

/// Its connections break again and again before it can mount.
#[test]
pub(crate) fn a_member_whose_node_pings_is_waited_for_and_not_for_ever() {
    let strikes_b = |world: &mut World| record(world).contains(&Effect::Strike(B));
    for (pings_s, is_struck) in [(25, false), (200, true)] {
        let mut world = leader(&[A, B]);
        recover(&mut world, A, &[entry("on A", 0, KIB, 1)]);
        let mut was_struck = false;
        for _ in 0..pings_s {
            world.ping(ALICE, &[A]);
            assert!(world.ping(BOB, &[B]), "the master wants it");
            world.advance(1_000);
            was_struck |= strikes_b(&mut world);
        }
        assert_eq!(was_struck, is_struck, "after {pings_s} s");
        if !is_struck {
            // Once its node is silent, it is given up.
            for _ in 0..12 {
                world.ping(ALICE, &[A]);
                world.advance(1_000);
                was_struck |= strikes_b(&mut world);
            }
            assert!(was_struck);
        }
    }
}
