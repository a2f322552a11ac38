//! Members that lack changes of one leader, and come back to a later one.

use std::collections::BTreeMap;

use mooncake_meta::{Config, Effect, Member, Meta, RecordedMembers};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, InventoryEntry, InventoryPage, MountOutcome, MountSegment,
    OverruledKeys, PutEnd, RangeDrop, ReplicateConfig, Reply, Request, Scan, ScanAction, SegmentId,
    Tick, Version, limits,
};

use crate::KIB;
use crate::recovery::{A, B, EARLY, EPOCH, answer, mounted, page, record};
use crate::world::{ALICE, BOB, World};

const CAROL: ClientId = ClientId(33);
const LATER_EPOCH: Epoch = Epoch(EPOCH.0 + 1);

/// A client mounts a segment, under the epoch of the leader.
fn mount(world: &mut World, (from, id): (ClientId, SegmentId), is_empty: bool) -> Reply {
    let name = format!("node-{}:12345", id.0);
    let mount = MountSegment {
        id,
        name: &name,
        endpoint: &name,
        len: 256 * KIB,
        seen_epoch: world.meta.epoch(),
        is_empty,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    for effect in world.meta.effects_before(&mount) {
        world.meta.handle_recorded(world.now, effect);
    }
    world.ask(from, &Request::MountSegment(mount))
}

/// The record of a leader, as the next one finds it.
#[derive(Default)]
struct Record {
    members: BTreeMap<SegmentId, Option<Version>>,
    overruled: OverruledKeys,
}

impl Record {
    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Join(id) | Effect::JoinDisk(id) | Effect::CaughtUp(id) => {
                    _ = self.members.insert(id, None);
                }
                Effect::Strike(id) => _ = self.members.remove(&id),
                Effect::MarkBehind(id, since) => {
                    let behind = self.members.entry(id).or_default();
                    *behind = Some(behind.map_or(since, |before| before.min(since)));
                }
                Effect::Overrule(hash, key) => self.overruled.add(hash, key),
            }
        }
    }

    /// The next leader.
    fn succeed(&self, now: Tick) -> World {
        let member = |(&segment, &behind): (&SegmentId, &Option<Version>)| Member {
            segment,
            behind,
            is_disk: false,
        };
        let members = self.members.iter().map(member).collect();
        let record = RecordedMembers { fresh: false, members, overruled: self.overruled.clone() };
        World { meta: Meta::recover(Config::default(), LATER_EPOCH, now, &record), now }
    }
}

fn on(segment: SegmentId) -> ReplicateConfig<'static> {
    let names = ["", "node-1:12345", "node-2:12345"];
    let name = names[segment.0 as usize];
    ReplicateConfig { preferred_segments: vec![name], ..ReplicateConfig::default() }
}

/// A leader with A, whose client is Alice, and B, whose client is Bob.
fn pool() -> (World, Record) {
    pool_with(Config::default())
}

fn pool_with(config: Config) -> (World, Record) {
    let now = Tick(1_000);
    let none = RecordedMembers { fresh: false, ..RecordedMembers::default() };
    let mut world = World { meta: Meta::recover(config, EPOCH, now, &none), now };
    for member in [(ALICE, A), (BOB, B)] {
        assert_eq!(mount(&mut world, member, true), mounted(MountOutcome::Ready));
    }
    let members = BTreeMap::from([(A, None), (B, None)]);
    (world, Record { members, ..Record::default() })
}

/// Removes an object on A, whose node cannot be asked to drop it. Returns what that node still holds.
fn remove_on_a(world: &mut World, key: &str) -> [RangeDrop; 1] {
    let reply = world.ask(CAROL, &Request::Remove { keys: vec![key], force: true });
    let Reply::Remaining { remains, .. } = reply else { panic!("{reply:?}") };
    let left = &remains.ranges[0];
    let (offset, version, grant) = (left.offset, left.version, left.grant);
    [RangeDrop { segment: A, offset, version, grant }]
}

/// Asks again about ranges that a node did not drop.
fn retract(world: &mut World, key: &str, ranges: &[RangeDrop]) -> Reply {
    let request = Request::Retract { keys: vec![key], ranges: ranges.to_vec() };
    let reply = world.ask(CAROL, &request);
    world.check();
    reply
}

fn entry(key: &str, offset: u64, version: Version) -> InventoryEntry<'_> {
    InventoryEntry {
        offset,
        len: KIB,
        key,
        version,
        grant: version,
        object_len: KIB,
        ..InventoryEntry::default()
    }
}

fn tell(world: &mut World, from: ClientId, id: SegmentId, entries: &[InventoryEntry<'_>]) {
    let reply = world.ask(from, &Request::ReportInventory(page(id, 0, entries)));
    assert_eq!(reply, Reply::Done(Ok(())));
    world.check();
}

/// A falls out of sight. Then a key on it is removed and another one replaced, and its leader dies.
fn left_behind() -> (World, Record, [Version; 4]) {
    let (mut world, mut known) = pool();
    let put = |world: &mut World, key| world.put_with(ALICE, key, KIB, on(A)).unwrap().what.version;
    let [kept, gone, old] = ["kept", "gone", "changed"].map(|key| put(&mut world, key));
    world.disconnect(ALICE);
    let left = remove_on_a(&mut world, "gone");
    known.take(record(&mut world));
    // The record does not name the key yet, so a later leader would read it.
    assert_eq!(retract(&mut world, "gone", &left), Reply::Refused(EARLY.unwrap_err()));
    known.take(record(&mut world));
    assert_eq!(answer(retract(&mut world, "gone", &left)), (Ok(()), vec![]));
    // What replaced a version on a segment in step needs no such note.
    let new = replace_on_b(&mut world, &mut known, ("changed", old));
    assert_eq!(known.overruled.len(), 1);
    (world, known, [kept, gone, old, new])
}

/// Puts a version on B in the place of one on A, which is out of sight.
fn replace_on_b(world: &mut World, known: &mut Record, (key, old): (&str, Version)) -> Version {
    let version = world.start_with(CAROL, key, KIB, on(B)).unwrap().what.version;
    for named in [vec![old], vec![]] {
        let put = PutEnd { key, version, failed_replicas: 0, held_replicas: 0 };
        let ended = answer(world.ask(CAROL, &Request::PutEnd { puts: vec![put] }));
        assert!(ended == (Ok(()), named) || ended == (Ok(()), vec![]), "{ended:?}");
        known.take(record(world));
    }
    version
}

#[test]
fn who_fell_behind_comes_back_to_a_later_leader_with_all_that_did_not_change() {
    let (before, known, [kept, gone, old, new]) = left_behind();
    let mut world = known.succeed(before.now);
    // B knows what A lacks, and reports first.
    let not_yet = Reply::Done(Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(mount(&mut world, (ALICE, A), false), not_yet);
    assert_eq!(mount(&mut world, (BOB, B), false), mounted(MountOutcome::WantsInventory));
    tell(&mut world, BOB, B, &[entry("changed", 0, new)]);
    assert_eq!(mount(&mut world, (ALICE, A), false), mounted(MountOutcome::WantsInventory));
    let held = [entry("kept", 0, kept), entry("gone", KIB, gone), entry("changed", 2 * KIB, old)];
    tell(&mut world, ALICE, A, &held);
    let read = |world: &World, key| world.meta.peek(key).map(|known| known.located.version);
    assert_eq!(read(&world, "kept"), Some(kept));
    assert_eq!(read(&world, "gone"), None);
    world.advance(1_000);
    assert_eq!(read(&world, "changed"), Some(new));
    // It drops what changed, and is in step again.
    assert_eq!(world.fetch_drops(ALICE).len(), 2);
    assert_eq!(record(&mut world), [Effect::CaughtUp(A)]);
}

#[test]
pub(crate) fn who_alone_could_tell_what_another_lacks_takes_it_along() {
    let (before, known, _) = left_behind();
    let mut world = known.succeed(before.now);
    assert_eq!(
        mount(&mut world, (ALICE, A), false),
        Reply::Done(Err(ErrorCode::ReplicaIsNotReady))
    );
    // B does not come. A asks all the time, and is not given up before B is.
    for _ in 0..70 {
        world.ping(ALICE, &[A]);
        mount(&mut world, (ALICE, A), false);
        world.advance(200);
        record(&mut world);
    }
    assert_eq!(
        mount(&mut world, (ALICE, A), false),
        Reply::Done(Err(ErrorCode::ReplicaIsNotReady))
    );
    world.advance(1_000);
    assert_eq!(mount(&mut world, (ALICE, A), false), mounted(MountOutcome::StartEmpty));
    let mut struck = record(&mut world);
    struck.sort_unstable();
    assert_eq!(struck, [Effect::Strike(A), Effect::Strike(B)]);
}

#[test]
fn what_was_put_since_a_segment_fell_behind_is_evicted_once_the_record_names_it() {
    let (mut world, mut known) = pool();
    world.put_with(ALICE, "on A", KIB, on(A)).unwrap();
    world.disconnect(ALICE);
    let _ = world.ask(CAROL, &Request::Remove { keys: vec!["on A"], force: true });
    known.take(record(&mut world));
    assert!(known.members[&A].is_some());
    // B is full of what was put since: an older version of it may lie on A, which no later leader would know.
    let first = world.put_with(CAROL, "first", 200 * KIB, on(B)).unwrap().what.version;
    let full = world.start_with(CAROL, "second", 200 * KIB, on(B)).map(|_| ());
    assert_eq!(full, Err(ErrorCode::NoAvailableHandle));
    let [Effect::Overrule(hash, key)] = record(&mut world)[..] else { panic!("not written") };
    assert_eq!(key.until, first);
    known.take(vec![Effect::Overrule(hash, key)]);
    assert_eq!(world.start_with(CAROL, "second", 200 * KIB, on(B)).map(|_| ()), Ok(()));
}

/// Objects on A that nobody removed.
const KEPT: usize = 100;

/// A leader that lost sight of A, then removed "on A" and `count` objects of another segment. Also the versions of
/// the objects that are on A still, and of "on A".
fn after_removals(count: usize, config: Config) -> (World, Record, Vec<Version>) {
    let (mut world, mut known) = pool_with(config);
    let names = (0..KEPT).map(|number| format!("kept {number}")).chain(["on A".to_owned()]);
    let put = |key: String| world.put_with(ALICE, &key, KIB, on(A)).unwrap().what.version;
    let versions = names.map(put).collect();
    world.disconnect(ALICE);
    let left = remove_on_a(&mut world, "on A");
    known.take(record(&mut world));
    while retract(&mut world, "on A", &left) == Reply::Refused(EARLY.unwrap_err()) {
        known.take(record(&mut world));
    }
    for number in 0..count {
        let key = number.to_string();
        world.put_with(CAROL, &key, 16, on(B)).unwrap();
        let request = Request::Remove { keys: vec![&key], force: true };
        while world.ask(CAROL, &request) == Reply::Refused(EARLY.unwrap_err()) {
            known.take(record(&mut world));
        }
        world.fetch_drops(BOB);
    }
    (world, known, versions)
}

#[test]
fn many_removals_cost_a_segment_that_was_away_few_objects_under_later_leaders() {
    let (world, known, versions) =
        after_removals(4 * limits::MAX_OVERRULED_KEYS, Config::default());
    assert_ne!(known.members[&A], Some(Version::default()));
    let mut world = known.succeed(world.now);
    assert_eq!(mount(&mut world, (BOB, B), false), mounted(MountOutcome::WantsInventory));
    tell(&mut world, BOB, B, &[]);
    assert_eq!(mount(&mut world, (ALICE, A), false), mounted(MountOutcome::WantsInventory));
    let names: Vec<String> = (0..KEPT).map(|number| format!("kept {number}")).collect();
    let keys = names.iter().map(String::as_str).chain(["on A"]);
    let held =
        keys.zip(&versions).zip(0..).map(|((key, &version), at)| entry(key, at * KIB, version));
    tell(&mut world, ALICE, A, &held.collect::<Vec<_>>());
    assert!(world.meta.peek("on A").is_none());
    let back = names.iter().filter(|name| world.meta.peek(name).is_some()).count();
    assert!((KEPT - 4..=KEPT).contains(&back), "{back} of {KEPT}");
}

#[test]
fn more_removals_than_the_record_has_room_for_cost_only_later_leaders_their_knowledge() {
    let few = || Config { max_overruled_keys: 40, max_filtered_keys: 60, ..Config::default() };
    // "on A" is one more.
    let (_, known, _) = after_removals(99, few());
    assert_ne!(known.members[&A], Some(Version::default()));
    let (mut world, known, _) = after_removals(100, few());
    assert_eq!(known.members[&A], Some(Version::default()));
    // This leader knows all of it.
    world.ping(ALICE, &[A]);
    world.fetch_drops(ALICE);
    assert_eq!(record(&mut world), [Effect::CaughtUp(A)]);
    assert!(world.meta.peek("kept 0").is_some());
    // The next one does not.
    let mut world = known.succeed(world.now);
    assert_eq!(mount(&mut world, (ALICE, A), false), mounted(MountOutcome::StartEmpty));
}

fn removal(pattern: Option<&'static str>, cursor: u64) -> Request<'static> {
    let action = ScanAction::Remove { force: true };
    let tenant = pattern.map(|_| "default");
    Request::Scan(Scan { tenant, pattern, action, cursor, limit: 9 })
}

#[test]
fn a_removal_of_all_waits_until_the_record_says_that_who_is_behind_starts_empty() {
    let (mut world, mut known) = pool();
    world.put_with(ALICE, "on A", KIB, on(A)).unwrap();
    world.put_with(ALICE, "on B", KIB, on(B)).unwrap();
    world.disconnect(ALICE);
    let _ = world.ask(CAROL, &Request::Remove { keys: vec!["on A"], force: true });
    known.take(record(&mut world));
    let scan = removal(None, 0);
    assert_eq!(world.ask(CAROL, &scan), Reply::Refused(EARLY.unwrap_err()));
    known.take(record(&mut world));
    assert_eq!(known.members[&A], Some(Version::default()));
    assert!(matches!(world.ask(CAROL, &scan), Reply::Scanned(_)));
}

/// Removes what a pattern matches as clients do: each page is asked for until the master answers it, and then what nodes
/// did not drop.
fn remove_by_pattern(world: &mut World, known: &mut Record, pattern: &'static str) -> u64 {
    let (mut removed, mut cursor, mut asked) = (0, Some(0), 0);
    while let Some(at) = cursor {
        asked += 1;
        assert!(asked < 20, "it does not end");
        let page = match world.ask(CAROL, &removal(Some(pattern), at)) {
            Reply::Scanned(page) => page,
            reply => {
                assert_eq!(reply, Reply::Refused(EARLY.unwrap_err()));
                known.take(record(world));
                continue;
            }
        };
        known.take(record(world));
        let segments = &page.remains.segments;
        let left = page.remains.ranges.iter().map(|range| RangeDrop {
            segment: segments[range.segment as usize].id,
            offset: range.offset,
            version: range.version,
            grant: range.grant,
        });
        let mut left: Vec<RangeDrop> = left.filter(|range| range.segment == A).collect();
        world.fetch_drops(BOB);
        for _ in 0..9 {
            let request = Request::Retract { keys: vec![], ranges: left.clone() };
            match world.ask(CAROL, &request) {
                Reply::Remaining { remains, .. } if !remains.ranges.is_empty() => {}
                Reply::Refused(_) => {}
                _ => left.clear(),
            }
            world.check();
            known.take(record(world));
        }
        assert_eq!(left, []);
        (removed, cursor) = (removed + page.removed, page.next_cursor);
    }
    removed
}

/// The next leader hears B, which holds nothing, and then all that A holds. Returns which of the keys are there.
fn found_again(known: &Record, before: &World, held: &[InventoryEntry<'_>]) -> Vec<bool> {
    found_by(&mut known.succeed(before.now), held)
}

/// As [`found_again`], of a leader that has just begun.
fn found_by(world: &mut World, held: &[InventoryEntry<'_>]) -> Vec<bool> {
    assert_eq!(mount(world, (BOB, B), false), mounted(MountOutcome::WantsInventory));
    tell(world, BOB, B, &[]);
    assert_eq!(mount(world, (ALICE, A), false), mounted(MountOutcome::WantsInventory));
    tell(world, ALICE, A, held);
    held.iter().map(|entry| world.meta.peek(entry.key).is_some()).collect()
}

#[test]
fn a_removal_by_pattern_costs_a_segment_that_was_away_what_matches_and_nothing_else() {
    for (is_behind_before, is_seen_before) in [(true, false), (false, false), (false, true)] {
        let (mut world, mut known) = pool();
        let keys = ["kept", "gone 1", "gone 2", "kept too", "alone"];
        let put = |key: &&str| world.put_with(ALICE, key, KIB, on(A)).unwrap().what.version;
        let versions: Vec<Version> = keys.iter().map(put).collect();
        if !is_seen_before {
            world.disconnect(ALICE);
        }
        if is_behind_before {
            let left = remove_on_a(&mut world, "alone");
            known.take(record(&mut world));
            while retract(&mut world, "alone", &left) == Reply::Refused(EARLY.unwrap_err()) {
                known.take(record(&mut world));
            }
        }
        if is_seen_before {
            // The node falls silent between the answer of the master and the request of the client.
            let Reply::Scanned(_) = world.ask(CAROL, &removal(Some("^gone"), 0)) else {
                panic!("no page")
            };
            world.disconnect(ALICE);
        }
        let expected = if is_seen_before { 0 } else { 2 };
        assert_eq!(remove_by_pattern(&mut world, &mut known, "^gone"), expected);
        assert!(known.members[&A].is_some_and(|since| since != Version::default()));
        let held: Vec<_> = (0..).zip(keys).zip(&versions).collect();
        let held = held.iter().map(|&((at, key), &version)| entry(key, at * KIB, version));
        let held: Vec<InventoryEntry<'_>> = held.collect();
        let there = found_again(&known, &world, &held);
        assert_eq!(there, [true, false, false, true, !is_behind_before]);
    }
}

/// B knows what A lacks, and takes long to tell it. Meanwhile A is told to ask again later.
#[test]
fn a_removal_by_pattern_waits_for_a_segment_that_is_to_report_after_another() {
    let (before, known, [kept, _, old, new]) = left_behind();
    let mut world = known.succeed(before.now);
    assert_eq!(mount(&mut world, (BOB, B), false), mounted(MountOutcome::WantsInventory));
    let later = Reply::Done(Err(ErrorCode::ReplicaIsNotReady));
    for number in 0..70 {
        let key = if number == 0 { "changed".to_owned() } else { format!("{number} on B") };
        let version = Version { counter: new.counter + u64::from(number), ..new };
        let held = [entry(&key, u64::from(number) * KIB, version)];
        let page = InventoryPage { last: number == 69, ..page(B, number, &held) };
        assert_eq!(mount(&mut world, (ALICE, A), false), later);
        assert_eq!(world.ask(CAROL, &removal(Some("e"), 0)), Reply::Refused(EARLY.unwrap_err()));
        assert_eq!(world.ask(BOB, &Request::ReportInventory(page)), Reply::Done(Ok(())));
        world.advance(300);
    }
    assert_eq!(record(&mut world), [], "no node is given up");
    assert_eq!(mount(&mut world, (ALICE, A), false), mounted(MountOutcome::WantsInventory));
    tell(&mut world, ALICE, A, &[entry("kept", 0, kept), entry("changed", KIB, old)]);
    let page = loop {
        match world.ask(CAROL, &removal(Some("e"), 0)) {
            Reply::Scanned(page) => break page,
            reply => assert_eq!(reply, Reply::Refused(EARLY.unwrap_err())),
        }
        assert!(!record(&mut world).is_empty(), "it waits for the record alone");
    };
    assert_eq!(page.removed, 1);
    assert!(world.meta.peek("changed").is_none());
}

/// No reader may see the older version after the newer one, which the removal takes away.
#[test]
fn what_a_removed_version_hid_on_a_segment_that_was_away_stays_hidden() {
    let (mut world, mut known) = pool();
    let [kept, old] =
        ["kept", "k"].map(|key| world.put_with(ALICE, key, KIB, on(A)).unwrap().what.version);
    world.disconnect(ALICE);
    assert!(replace_on_b(&mut world, &mut known, ("k", old)) > old);
    let before = known.overruled.len();
    let scan = removal(Some("^k$"), 0);
    assert_eq!(world.ask(CAROL, &scan), Reply::Refused(EARLY.unwrap_err()));
    known.take(record(&mut world));
    assert_eq!(known.overruled.len(), before + 1);
    assert_eq!(remove_by_pattern(&mut world, &mut known, "^k$"), 1);
    let held = [entry("kept", 0, kept), entry("k", KIB, old)];
    assert_eq!(found_again(&known, &world, &held), [true, false]);
}

/// Under an equal mark, each might come back before the other told what it knows.
#[test]
fn a_segment_that_falls_behind_after_another_is_marked_with_a_newer_version() {
    let (mut world, mut known) = pool();
    world.put_with(ALICE, "on A", KIB, on(A)).unwrap();
    world.put_with(BOB, "on B", KIB, on(B)).unwrap();
    for (client, key) in [(ALICE, "on A"), (BOB, "on B")] {
        world.disconnect(client);
        let remove = Request::Remove { keys: vec![key], force: true };
        while world.ask(CAROL, &remove) == Reply::Refused(EARLY.unwrap_err()) {
            known.take(record(&mut world));
        }
        known.take(record(&mut world));
    }
    assert!(known.members[&A] < known.members[&B], "{:?}", known.members);
}

/// A leader after this one might believe what A still holds, and readers would see the older version after the newer.
#[test]
fn what_replaced_a_version_on_a_segment_that_is_behind_is_hidden_until_the_record_says_so() {
    let (mut before, mut known) = pool();
    before.put("k", KIB).unwrap();
    let newer = before.upsert(BOB, "k", KIB).unwrap().what;
    let marks = [(A, before.meta.epoch()), (B, LATER_EPOCH)];
    known.members.extend(marks.map(|(id, epoch)| (id, Some(Version { epoch, counter: 1 }))));
    let mut world = known.succeed(before.now);
    assert_eq!(mount(&mut world, (BOB, B), false), mounted(MountOutcome::WantsInventory));
    let held = InventoryEntry { attributes: &newer.attributes, ..entry("k", 0, newer.version) };
    tell(&mut world, BOB, B, &[held]);
    world.advance(5_000);
    assert!(world.meta.serves());
    let not_caught_up = world.meta.take_effects();
    let look_up = Request::GetReplicaList { keys: vec!["k"] };
    let found = |world: &mut World| {
        let Reply::Located { results, .. } = world.ask(CAROL, &look_up) else {
            panic!("no answer")
        };
        results[0].clone().map(|it| it.version)
    };
    assert_eq!(found(&mut world), Err(ErrorCode::ObjectNotFound));
    let [Effect::Overrule(..)] = record(&mut world)[..] else { panic!("it is not written") };
    assert_eq!(found(&mut world), Ok(newer.version));
    assert_eq!(not_caught_up, [Effect::CaughtUp(B)]);
}

/// It was in step when this leader began, so it knows what others lack.
#[test]
fn a_missing_member_is_waited_for_also_once_later_leaders_will_not_believe_it() {
    let (mut before, mut known) = pool();
    before.put("k", KIB).unwrap();
    let since = Version { epoch: before.meta.epoch(), counter: 1 };
    known.members.insert(A, Some(since));
    let mut world = known.succeed(before.now);
    world.advance(5_000);
    let first = Version { epoch: LATER_EPOCH, counter: 0 };
    assert_eq!(record(&mut world), [Effect::MarkBehind(B, first)]);
    let action = ScanAction::Remove { force: true };
    let scan = Request::Scan(Scan {
        tenant: Some("default"),
        pattern: None,
        action,
        cursor: 0,
        limit: 100,
    });
    world.ask(CAROL, &scan);
    let not_yet = Reply::Done(Err(ErrorCode::ReplicaIsNotReady));
    record(&mut world);
    assert_eq!(mount(&mut world, (ALICE, A), false), not_yet);
}

/// Each of them could tell what all those lack that are behind for longer.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the time that the owner thread takes is what is tested"
)]
fn ten_thousand_silent_members_are_given_up_in_a_moment() {
    let since = |number: u64| (!number.is_multiple_of(2)).then(|| version_at(number));
    let member = |number: u64| Member {
        segment: SegmentId(u128::from(number) + 1),
        behind: since(number),
        is_disk: false,
    };
    let members: Vec<Member> = (0..10_000).map(member).collect();
    let record = RecordedMembers { fresh: false, members, ..RecordedMembers::default() };
    let now = Tick(1_000);
    let mut world = World { meta: Meta::recover(Config::default(), EPOCH, now, &record), now };
    let begun = std::time::Instant::now();
    // Twice the window, since nobody at all was heard of.
    let mut struck = 0;
    for _ in 0..40 {
        world.advance(1_000);
        for effect in world.meta.take_effects() {
            struck += usize::from(matches!(effect, Effect::Strike(_)));
            world.meta.handle_recorded(world.now, effect);
        }
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(struck, 10_000);
}

fn version_at(counter: u64) -> Version {
    Version { epoch: Epoch(EPOCH.0 - 1), counter }
}

/// B lost the version that replaced the one on A, and its leader died before it heard of that.
#[test]
fn what_a_lost_version_replaced_stays_hidden_from_the_next_leader_and_the_one_after_it() {
    let (before, mut known, [_, _, old, new]) = left_behind();
    let lost = RangeDrop { segment: B, offset: 0, version: new, grant: new };
    let report = Request::ReportLosses { keys: vec!["changed"], ranges: vec![lost] };
    let mut world = known.succeed(before.now);
    assert_eq!(world.ask(BOB, &report), Reply::Done(EARLY), "the record does not say so yet");
    let written = record(&mut world);
    assert!(matches!(written[..], [Effect::Overrule(..)]), "{written:?}");
    known.take(written);
    assert_eq!(world.ask(BOB, &report), Reply::Done(Ok(())));
    assert_eq!(found_by(&mut world, &[entry("changed", 0, old)]), [false]);
    assert_eq!(found_again(&known, &world, &[entry("changed", 0, old)]), [false]);
}

/// A node that tells of losses on segments of others, or of versions that nobody granted, hides nothing.
#[test]
fn only_versions_of_earlier_leaders_on_members_that_have_not_reported_hide_others() {
    let (before, known, [kept, ..]) = left_behind();
    let later = Version { epoch: LATER_EPOCH, counter: 1 };
    let lost = RangeDrop { segment: B, offset: 0, version: later, grant: later };
    let stranger = RangeDrop { segment: SegmentId(77), version: kept, ..lost };
    for (key, lost) in
        [("kept", lost), ("kept", stranger), ("", RangeDrop { version: kept, ..lost })]
    {
        let mut world = known.succeed(before.now);
        let report = Request::ReportLosses { keys: vec![key], ranges: vec![lost] };
        assert_eq!(world.ask(BOB, &report), Reply::Done(Ok(())), "{lost:?}");
        assert_eq!(found_by(&mut world, &[entry("kept", 0, kept)]), [true], "{lost:?}");
    }
}

/// Otherwise a later leader would serve what the lost version replaced.
#[test]
fn a_lost_version_goes_once_the_record_has_what_it_hid_on_a_segment_that_was_away() {
    let (mut world, mut known) = pool();
    let old = world.put_with(ALICE, "k", KIB, on(A)).unwrap().what.version;
    world.disconnect(ALICE);
    let version = replace_on_b(&mut world, &mut known, ("k", old));
    let lost = RangeDrop { segment: B, offset: 0, version, grant: version };
    let report = Request::ReportLosses { keys: vec!["k"], ranges: vec![lost] };
    assert_eq!(world.ask(BOB, &report), Reply::Done(EARLY));
    assert!(world.meta.peek("k").is_some());
    known.take(record(&mut world));
    assert_eq!(world.ask(BOB, &report), Reply::Done(Ok(())));
    assert!(world.meta.peek("k").is_none());
    assert_eq!(found_again(&known, &world, &[entry("k", 0, old)]), [false]);
}
