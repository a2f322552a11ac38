//! A leader whose lease has ended, and its successor.

use mooncake_meta::{Config, Member, Meta, RecordedMembers};
use mooncake_types::{
    CreateTask, ErrorCode, InventoryPage, MountSegment, Pong, PutEnd, PutRevoke, PutStart, Reply,
    Request, Scan, ScanAction, SegmentId, TaskKind, Tick,
};

use crate::KIB;
use crate::recovery::{A, B, EPOCH, entry, marked, record, recover, version};
use crate::world::{ALICE, BOB, World};

const ROUTES_MS: u64 = 1_500;
const LATER: ErrorCode = ErrorCode::UnavailableInCurrentStatus;

/// A leader of these members. The lease of its predecessor may last this much longer.
fn leader(members: &[SegmentId], former_lease_ms: u64) -> World {
    let members =
        members.iter().map(|&segment| Member { segment, behind: None, is_disk: false }).collect();
    let record = RecordedMembers { fresh: false, members, ..RecordedMembers::default() };
    let config = Config {
        lease_ttl_ms: 60_000,
        routes_last_ms: ROUTES_MS,
        former_lease_ms,
        ..Config::default()
    };
    let now = Tick(1_000);
    World { meta: Meta::recover(config, EPOCH, now, &record), now }
}

fn ask(world: &mut World, request: &Request<'_>) -> Reply {
    let reply = world.meta.handle_suspended(world.now, BOB, request);
    world.check();
    reply
}

/// How long after a ping reads may begin through cached routes, if the leader leads or is suspended.
fn routes_ms(world: &mut World, leads: bool) -> u64 {
    let ping = Request::Ping { segments: vec![], unreachable: vec![], reads: None };
    let reply = match leads {
        true => world.meta.handle(world.now, ALICE, &ping),
        false => world.meta.handle_suspended(world.now, ALICE, &ping),
    };
    let Reply::Pong(Pong { routes_ms, .. }) = reply else { panic!("{reply:?}") };
    routes_ms
}

#[test]
fn routes_may_be_used_until_the_next_leader_may_change_something() {
    let mut world = leader(&[], 0);
    let alone_ms = ROUTES_MS / 10 * 9;
    assert_eq!(routes_ms(&mut world, true), alone_ms);
    assert_eq!(routes_ms(&mut world, false), 0, "another may lead by now");
    world.meta.set_lease_end(Some(world.now.after_ms(4_000)));
    let said_ms = [0, 3_000, 1_000, alone_ms, 1].map(|later_ms| {
        world.advance(later_ms);
        let leads = world.now < Tick(5_000);
        routes_ms(&mut world, leads)
    });
    assert_eq!(said_ms, [4_000 + alone_ms, 1_000 + alone_ms, alone_ms, 0, 0]);
}

#[test]
fn nothing_is_named_granted_ended_removed_or_mounted() {
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
    let page = InventoryPage { segment: A, run: 1, page: 0, last: true, entries: vec![] };
    let scan = Scan {
        tenant: Some("default"),
        pattern: None,
        action: ScanAction::Remove { force: true },
        cursor: 0,
        limit: 10,
    };
    let task = CreateTask { key: "a", kind: TaskKind::Copy, source: "", targets: vec!["b"] };
    let list = Scan { action: ScanAction::List, ..scan };
    let keys = || vec!["a"];
    let end = PutEnd { key: "a", version: version(1), failed_replicas: 0, held_replicas: 0 };
    let revoked = PutRevoke::new("a", version(1));
    let requests = [
        (Request::GetReplicaList { keys: keys() }, Reply::Refused(LATER)),
        (Request::RenewRoutes { keys: keys(), uses: vec![1] }, Reply::Refused(LATER)),
        (Request::exist(keys()), Reply::Refused(LATER)),
        (Request::prefix_len(keys()), Reply::Refused(LATER)),
        (Request::Scan(list), Reply::Refused(LATER)),
        (Request::MountSegment(segment), Reply::Done(Err(LATER))),
        (Request::ReportInventory(page), Reply::Done(Err(LATER))),
        (Request::UnmountSegment { id: A, grace_ms: 0, failure: "" }, Reply::Refused(LATER)),
        (Request::PutStart(PutStart::default()), Reply::Refused(LATER)),
        (Request::PutEnd { puts: vec![end] }, Reply::Refused(LATER)),
        (Request::PutRevoke { puts: vec![revoked] }, Reply::Refused(LATER)),
        (Request::Remove { keys: keys(), force: true }, Reply::Refused(LATER)),
        (Request::Scan(scan), Reply::Refused(LATER)),
        (Request::ClearReplicas { keys: keys(), segment: "" }, Reply::Refused(LATER)),
        (Request::CreateTask(task), Reply::Refused(LATER)),
        (Request::DrainSegments { segments: vec![A] }, Reply::Refused(LATER)),
        (Request::FetchTasks { limit: 1, wait_ms: 0 }, Reply::Refused(LATER)),
    ];
    let mut world = leader(&[A], 0);
    recover(&mut world, A, &[entry("a", 0, KIB, 1)]);
    for (request, expected) in requests {
        assert_eq!(ask(&mut world, &request), expected, "{request:?}");
    }
    assert!(!world.meta.has_effects());
    let look_up = Request::GetReplicaList { keys: keys() };
    let Reply::Located { results, .. } = world.meta.handle(world.now, BOB, &look_up) else {
        panic!("it leads on")
    };
    assert!(results[0].is_ok());
}

#[test]
fn who_follows_waits_for_routes_of_before_and_no_longer() {
    for former_lease_ms in [0, 5_000] {
        let mut world = leader(&[A, B], former_lease_ms);
        world.advance(500);
        recover(&mut world, A, &[]);
        world.advance(former_lease_ms + ROUTES_MS - 501);
        world.ping(ALICE, &[A]);
        assert!(!world.meta.has_effects() && !world.meta.serves());
        world.advance(1);
        assert_eq!(record(&mut world), [marked(B)]);
        assert!(world.meta.serves());
    }
}

/// All members may be dead: a cluster that was killed and restarts empty must not wait longer.
#[test]
fn who_follows_waits_no_longer_if_no_member_comes() {
    let mut world = leader(&[A, B], 0);
    world.advance(ROUTES_MS);
    assert_eq!(record(&mut world), [marked(A), marked(B)]);
    assert!(world.meta.serves());
}
