//! Repeated requests for the drops of a removal.

use mooncake_types::{
    CreateTask, ErrorCode, MountSegment, RangeDrop, Remains, Reply, Request, SegmentId, TaskKind,
    Version,
};

use crate::recovery::{A, B, EPOCH, chain, entry, leader, marked, mount, record, recover, version};
use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool};

/// The results of a reply, and the entries that nodes must drop.
fn named(reply: Reply) -> (Vec<Result<(), ErrorCode>>, Vec<RangeDrop>) {
    let ranges = |remains: &Remains| {
        let range = |it: &mooncake_types::RemainingRange| RangeDrop {
            segment: remains.segments[it.segment as usize].id,
            offset: it.offset,
            version: it.version,
            grant: it.grant,
        };
        remains.ranges.iter().map(range).collect()
    };
    match reply {
        Reply::Statuses(results) => (results, Vec::new()),
        Reply::Remaining { results, remains } => (results, ranges(&remains)),
        other => panic!("{other:?}"),
    }
}

fn remove(world: &mut World, key: &str) -> (Vec<Result<(), ErrorCode>>, Vec<RangeDrop>) {
    named(world.ask(BOB, &Request::Remove { keys: vec![key], force: true }))
}

fn retract(world: &mut World, keys: &[&str], ranges: &[RangeDrop]) -> Reply {
    let (keys, ranges) = (keys.to_vec(), ranges.to_vec());
    let reply = world.ask(BOB, &Request::Retract { keys, ranges });
    world.check();
    reply
}

fn old(segment: SegmentId, offset: u64, counter: u64) -> RangeDrop {
    let version = version(counter);
    RangeDrop { segment, offset, version, grant: Version { counter: 99, ..version } }
}

/// The node has not confirmed the drop yet, and another client puts the key meanwhile.
#[test]
fn a_removal_asked_for_again_takes_nothing_that_was_put_since() {
    for is_leased in [true, false] {
        let mut world = pool(1, 64 * KIB);
        world.put("k", KIB).unwrap();
        if is_leased {
            world.get("k").unwrap();
        }
        let (results, ranges) = remove(&mut world, "k");
        assert_eq!((results, ranges.len()), (vec![Ok(())], 1));
        // Takes the freed range, so that the newer version gets another one.
        world.start(BOB, "in between", KIB).unwrap();
        let newer = world.put("k", KIB).unwrap().what.version;
        let (results, again) = named(retract(&mut world, &["k"], &ranges));
        assert_eq!((results, again), (vec![Ok(())], ranges.clone()), "leased: {is_leased}");
        assert_eq!(world.version("k"), Some(newer));
        let dropped = Request::Dropped { dropped: ranges.clone() };
        assert_eq!(world.ask(BOB, &dropped), Reply::Done(Ok(())));
        assert_eq!(named(retract(&mut world, &["k"], &ranges)), (vec![Ok(())], vec![]));
        assert_eq!(world.version("k"), Some(newer));
    }
}

#[test]
fn another_leader_gives_up_what_it_found_of_a_removal() {
    let mut world = leader(&[A, B]);
    recover(&mut world, A, &[entry("k", 0, KIB, 1), entry("other", KIB, KIB, 2)]);
    recover(&mut world, B, &[entry("k", 0, KIB, 1)]);
    let (results, ranges) = named(retract(&mut world, &["k"], &[old(A, 0, 1)]));
    assert_eq!(results, vec![Ok(())]);
    let mut spots: Vec<_> = ranges.iter().map(|range| (range.segment, range.offset)).collect();
    spots.sort_unstable();
    assert_eq!(spots, [(A, 0), (B, 0)]);
    assert_eq!((chain(&mut world, "k"), chain(&mut world, "other")), (vec![], vec![2]));
    assert!(ranges.iter().all(|range| range.grant.epoch == EPOCH), "what is there is older");
}

/// More versions of the key leave than may be retained; none of them has to be retained for a reader.
#[test]
fn a_version_beside_many_that_leave_is_given_up_too() {
    let mut world = leader(&[A]);
    let entries: Vec<_> = (1..=12).map(|it| entry("k", it * KIB, KIB, it)).collect();
    recover(&mut world, A, &entries);
    assert_eq!(chain(&mut world, "k").len(), 12);
    let (results, ranges) = named(retract(&mut world, &["k"], &[old(A, 12 * KIB, 12)]));
    assert_eq!(results, [Ok(())]);
    assert!(ranges.iter().any(|range| range.version == version(12)));
    assert_eq!(chain(&mut world, "k"), []);
}

/// The first node dropped the entry under the earlier leader. The copy that this leader made of it still exists.
#[test]
fn copies_that_another_leader_made_go_with_what_it_found() {
    let mut world = leader(&[A, B]);
    recover(&mut world, A, &[entry("k", 0, KIB, 1)]);
    recover(&mut world, B, &[]);
    let targets = vec!["node-2:12345"];
    let task = CreateTask { key: "k", kind: TaskKind::Copy, source: "", targets };
    let id = world.create_task(task).expect("there is room");
    let order = world.fetch_tasks(ALICE).orders.remove(0);
    assert_eq!(world.end_task(ALICE, id, Ok(())), Ok(()));
    let (_, ranges) = named(retract(&mut world, &["k"], &[old(A, 0, 1)]));
    let mut spots: Vec<_> = ranges.iter().map(|range| (range.segment, range.offset)).collect();
    spots.sort_unstable();
    assert_eq!(spots, [(A, 0), (B, order.targets[0].offset)]);
    assert_eq!(chain(&mut world, "k"), []);
}

#[test]
fn without_keys_only_the_leader_that_named_the_ranges_can_say_something() {
    let mut world = leader(&[A]);
    recover(&mut world, A, &[entry("k", 0, KIB, 1)]);
    let refusal = Reply::Refused(ErrorCode::InvalidVersion);
    assert_eq!(retract(&mut world, &[], &[old(A, 0, 1)]), refusal);
    let (_, ranges) = remove(&mut world, "k");
    assert_eq!(named(retract(&mut world, &[], &ranges)), (vec![], ranges));
    let bad = retract(&mut world, &[""], &[]);
    assert_eq!(bad, Reply::Refused(ErrorCode::InvalidKey));
}

/// The adopted segment may hold versions that were replaced before its node was known.
#[test]
fn a_segment_that_is_adopted_is_behind_until_all_that_it_told_is_settled() {
    let mut world = leader(&[]);
    world.meta = mooncake_meta::Meta::recover(
        mooncake_meta::Config::default(),
        EPOCH,
        world.now,
        &mooncake_meta::RecordedMembers {
            fresh: true,
            members: vec![],
            ..mooncake_meta::RecordedMembers::default()
        },
    );
    let unknown = MountSegment {
        id: A,
        name: "node-1:12345",
        endpoint: "node-1:12345",
        len: 256 * KIB,
        seen_epoch: EPOCH,
        is_empty: false,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    use mooncake_meta::Effect::{CaughtUp, Join};
    assert_eq!(world.meta.effects_before(&unknown), [Join(A), marked(A)]);
    let empty = MountSegment { is_empty: true, ..unknown };
    assert_eq!(world.meta.effects_before(&empty), [Join(A)]);
    mount(&mut world, B, true);
    let newer = world.put("k", KIB).unwrap().what.version;
    recover(&mut world, A, &[entry("k", 0, KIB, 1), entry("other", KIB, KIB, 2)]);
    assert_eq!(world.version("k"), Some(newer));
    assert_eq!(record(&mut world), [], "the node holds an old version of k");
    assert_eq!(world.fetch_drops(ALICE).len(), 1);
    assert_eq!(record(&mut world), [CaughtUp(A)]);
    assert_eq!(chain(&mut world, "other"), [2]);
}
