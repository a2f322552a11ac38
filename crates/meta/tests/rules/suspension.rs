//! A leader whose lease is over, and the one that may follow it.

use mooncake_meta::{Config, Effect, Member, Meta, Record};
use mooncake_types::{
    CreateTask, ErrorCode, InventoryPage, MountOutcome, MountSegment, PutEnd, PutRevoke, PutStart,
    Reply, Request, Scan, ScanAction, SegmentId, TaskKind, Tick,
};

use crate::KIB;
use crate::recovery::{A, B, EPOCH, entry, mount, mounted, record, recover, version};
use crate::world::{ALICE, BOB, World};

const LEASE_MS: u64 = 5_000;
const SUSPENSION_MS: u64 = 30_000;
const LATER: ErrorCode = ErrorCode::UnavailableInCurrentStatus;

/// A leader of these members, of which one may follow.
fn leader(members: &[SegmentId]) -> World {
    let members = members.iter().map(|&segment| Member { segment, behind: false }).collect();
    let record = Record { fresh: false, members };
    let config =
        Config { lease_ttl_ms: LEASE_MS, suspension_ms: SUSPENSION_MS, ..Config::default() };
    let now = Tick(1_000);
    World { meta: Meta::recover(config, EPOCH, now, &record), now }
}

/// A leader of one member that holds `a`, and pinged twice, a quarter of a second apart, the last time just now.
fn followed_leader() -> World {
    let mut world = leader(&[A]);
    recover(&mut world, A, &[entry("a", 0, KIB, 1)]);
    ping(&mut world, true);
    world.advance(250);
    ping(&mut world, true);
    world
}

fn ping(world: &mut World, again: bool) {
    world.ping(ALICE, &[A]);
    world.meta.note_ping(world.now, ALICE, again);
}

fn ask(world: &mut World, request: &Request<'_>) -> Reply {
    let reply = world.meta.handle_suspended(world.now, BOB, request, true);
    world.check();
    reply
}

/// The lease that a look-up grants, in milliseconds; zero if it is refused.
fn lease(world: &mut World) -> u64 {
    match ask(world, &Request::GetReplicaList { keys: vec!["a"] }) {
        Reply::Located { results, lease_ms, .. } => {
            assert_eq!(results[0].as_ref().map(|it| it.version), Ok(version(1)));
            lease_ms
        }
        Reply::Refused(LATER) => 0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn look_ups_are_answered_under_leases_that_count_from_when_the_members_followed() {
    let mut world = followed_leader();
    assert_eq!(lease(&mut world), LEASE_MS / 10 * 9 - 250);
    world.now = world.now.after_ms(1_000);
    assert_eq!(lease(&mut world), LEASE_MS / 10 * 9 - 1_250);
    ping(&mut world, true);
    // That ping shows that the one before was answered, no more.
    assert_eq!(lease(&mut world), LEASE_MS / 10 * 9 - 1_000);
    world.now = world.now.after_ms(LEASE_MS);
    assert_eq!(lease(&mut world), 0);
    let exist = ask(&mut world, &Request::ExistKey { keys: vec!["a"] });
    assert_eq!(exist, Reply::Refused(LATER));
}

#[test]
fn look_ups_are_refused_unless_all_members_follow() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 4] = [
        ("it connected anew", |world| ping(world, false)),
        ("its connection broke", |world| world.disconnect(ALICE)),
        ("another has joined and is not there", |world| {
            world.meta.handle_recorded(world.now, Effect::Join(B));
        }),
        ("it is behind", |world| {
            world.meta.handle_recorded(world.now, Effect::MarkBehind(A));
        }),
    ];
    for (what, change) in changes {
        let mut world = followed_leader();
        assert!(lease(&mut world) > 0, "{what}");
        change(&mut world);
        assert_eq!(lease(&mut world), 0, "{what}");
    }
    let mut world = followed_leader();
    let look_up = Request::GetReplicaList { keys: vec!["a"] };
    let reply = world.meta.handle_suspended(world.now, BOB, &look_up, false);
    assert_eq!(reply, Reply::Refused(LATER), "the record is not known");
}

#[test]
fn nothing_is_granted_ended_removed_or_mounted() {
    let segment = MountSegment {
        id: B,
        name: "b",
        endpoint: "b:1",
        len: 256 * KIB,
        seen_epoch: EPOCH,
        is_empty: true,
        run: 1,
    };
    let page = InventoryPage { segment: A, run: 1, page: 0, last: true, entries: vec![] };
    let scan =
        Scan { pattern: None, action: ScanAction::Remove { force: true }, cursor: 0, limit: 10 };
    let task = CreateTask { key: "a", kind: TaskKind::Copy, source: "", targets: vec!["b"] };
    let keys = || vec!["a"];
    let end = PutEnd { key: "a", version: version(1), failed_replicas: 0, held_replicas: 0 };
    let revoked = PutRevoke::new("a", version(1));
    let requests = [
        (Request::MountSegment(segment), Reply::Done(Err(LATER))),
        (Request::ReportInventory(page), Reply::Done(Err(LATER))),
        (Request::UnmountSegment { id: A, grace_ms: 0 }, Reply::Refused(LATER)),
        (Request::PutStart(PutStart::default()), Reply::Refused(LATER)),
        (Request::PutEnd { puts: vec![end] }, Reply::Refused(LATER)),
        (Request::PutRevoke { puts: vec![revoked] }, Reply::Refused(LATER)),
        (Request::Remove { keys: keys(), force: true }, Reply::Refused(LATER)),
        (Request::Scan(scan), Reply::Refused(LATER)),
        (Request::ClearReplicas { keys: keys(), segment: "" }, Reply::Refused(LATER)),
        (Request::CreateTask(task), Reply::Refused(LATER)),
        (Request::DrainSegments { segments: vec![A] }, Reply::Refused(LATER)),
        (Request::FetchTasks { limit: 1 }, Reply::Refused(LATER)),
    ];
    let mut world = followed_leader();
    for (request, expected) in requests {
        assert_eq!(ask(&mut world, &request), expected, "{request:?}");
    }
    assert!(!world.meta.has_effects());
    assert!(lease(&mut world) > 0);
}

#[test]
fn who_follows_serves_without_the_others_a_lease_after_the_first_has_come() {
    let mut world = leader(&[A, B]);
    world.advance(4_000);
    recover(&mut world, A, &[]);
    world.advance(LEASE_MS - 1);
    world.ping(ALICE, &[A]);
    assert!(!world.meta.has_effects() && !world.meta.serves());
    world.advance(1);
    assert_eq!(record(&mut world), [Effect::MarkBehind(B)]);
    assert!(world.meta.serves());
    // Those who stayed with the leader before have their time to come.
    world.advance(SUSPENSION_MS);
    assert_eq!(record(&mut world), []);
}

#[test]
fn who_follows_waits_for_the_leader_before_if_nobody_comes() {
    let mut world = leader(&[A, B]);
    world.advance(SUSPENSION_MS + LEASE_MS - 1);
    assert!(!world.meta.has_effects() && !world.meta.serves());
    world.advance(1);
    assert_eq!(record(&mut world), [Effect::MarkBehind(A), Effect::MarkBehind(B)]);
    assert!(world.meta.serves());
}

/// The next leader would take it for one that has left the leader before this one.
#[test]
fn who_joins_a_leader_that_waits_is_behind_until_it_serves() {
    const NEW: SegmentId = SegmentId(3);
    let mut world = leader(&[A]);
    assert_eq!(mount(&mut world, NEW, true), mounted(MountOutcome::Ready));
    assert_eq!((record(&mut world), world.meta.segments()[0].behind), (vec![], true));
    world.ping(ALICE, &[NEW]);
    assert_eq!(record(&mut world), []);
    recover(&mut world, A, &[]);
    assert!(world.meta.serves());
    assert_eq!(record(&mut world), [Effect::CaughtUp(NEW)]);
    assert!(world.put("b", KIB).is_ok());
}
