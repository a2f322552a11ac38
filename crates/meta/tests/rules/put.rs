//! Puts, leases and removal.

use mooncake_meta::Config;
use mooncake_types::{
    ErrorCode, PutEnd, PutItem, PutMode, PutStart, ReplicateConfig, Reply, Request, SegmentId,
    SoftPin, Tick, limits,
};

use crate::world::{ALICE, BOB};
use crate::{KIB, pool, soft};

#[test]
fn an_object_is_visible_only_after_its_put_ended() {
    let mut world = pool(1, 64 * KIB);
    let placed = world.start(ALICE, "k", 1000).unwrap();
    assert!(!world.exist("k"));
    assert_eq!(world.get("k"), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.end(ALICE, "k", &placed.what, 0), Ok(()));
    assert!(world.exist("k"));
    let found = world.get("k").unwrap();
    assert_eq!(found.what.version, placed.what.version);
    assert_eq!((found.what.len, found.what.placements), (1000, placed.what.placements));
    world.check();
}

#[test]
fn ending_a_put_twice_is_fine_and_only_its_client_may() {
    let mut world = pool(1, 64 * KIB);
    let placed = world.start(ALICE, "k", 1).unwrap();
    assert_eq!(world.end(BOB, "k", &placed.what, 0), Err(ErrorCode::IllegalClient));
    assert_eq!(world.revoke(BOB, "k", &placed.what), Err(ErrorCode::IllegalClient));
    assert_eq!(world.end(ALICE, "k", &placed.what, 0), Ok(()));
    assert_eq!(world.end(ALICE, "k", &placed.what, 0), Ok(()));
    assert_eq!(world.revoke(ALICE, "k", &placed.what), Err(ErrorCode::InvalidWrite));
    assert_eq!(world.end(ALICE, "other", &placed.what, 0), Err(ErrorCode::ObjectNotFound));
}

#[test]
fn a_taken_key_is_refused_and_a_revoked_one_is_free() {
    let mut world = pool(1, 64 * KIB);
    let placed = world.start(ALICE, "k", 1).unwrap();
    assert_eq!(world.start(BOB, "k", 1), Err(ErrorCode::ObjectAlreadyExists));
    assert_eq!(world.revoke(ALICE, "k", &placed.what), Ok(()));
    let again = world.start(BOB, "k", 1).unwrap();
    assert!(again.what.version > placed.what.version);
    assert_eq!(world.end(ALICE, "k", &placed.what, 0), Err(ErrorCode::ObjectNotFound));
    assert_eq!(world.end(BOB, "k", &again.what, 0), Ok(()));
    assert_eq!(world.start(ALICE, "k", 1), Err(ErrorCode::ObjectAlreadyExists));
    world.check();
}

#[test]
fn a_put_that_nobody_ends_loses_its_key_after_30_s_and_its_range_after_600_s() {
    let mut world = pool(1, 64 * KIB);
    let placed = world.start(ALICE, "k", 40 * KIB).unwrap();
    for _ in 0..3 {
        world.advance(9_999);
        world.ping(ALICE, &[]);
        assert_eq!(world.start(BOB, "k", 1), Err(ErrorCode::ObjectAlreadyExists));
    }
    world.advance(3);
    assert_eq!(world.meta.stats().counters.puts_discarded, 1);
    assert_eq!(world.end(ALICE, "k", &placed.what, 0), Err(ErrorCode::ObjectNotFound));
    assert_eq!(world.start(BOB, "k", 40 * KIB), Err(ErrorCode::NoAvailableHandle));
    for _ in 0..58 {
        world.advance(9_800);
        world.ping(ALICE, &[]);
    }
    assert_eq!(world.start(BOB, "k", 40 * KIB), Err(ErrorCode::NoAvailableHandle));
    world.advance(1_600);
    assert_eq!(world.meta.stats().counters.puts_released, 1);
    assert!(world.start(BOB, "k", 40 * KIB).is_ok());
    world.check();
}

#[test]
fn bad_keys_and_lengths_are_refused_one_by_one() {
    let mut world = pool(1, 64 * KIB);
    let long = "k".repeat(limits::MAX_KEY_BYTES + 1);
    let longest = "k".repeat(limits::MAX_KEY_BYTES);
    let cases = [
        ("", 1, Err(ErrorCode::InvalidKey)),
        (long.as_str(), 1, Err(ErrorCode::InvalidKey)),
        (longest.as_str(), 1, Ok(())),
        ("zero", 0, Err(ErrorCode::InvalidParams)),
        ("huge", u64::MAX, Err(ErrorCode::InvalidParams)),
        ("too large for the pool", 65 * KIB, Err(ErrorCode::NoAvailableHandle)),
        ("same", 1, Ok(())),
        ("same", 1, Err(ErrorCode::ObjectAlreadyExists)),
    ];
    let puts = cases.iter().map(|&(key, len, _)| PutItem::new(key, len)).collect();
    let start = PutStart { puts, config: ReplicateConfig::default(), mode: PutMode::Insert };
    let Reply::Granted { results, .. } = world.ask(ALICE, &Request::PutStart(start)) else {
        panic!("a batch is answered one by one");
    };
    let results: Vec<_> = results.into_iter().map(|result| result.map(|_| ())).collect();
    assert_eq!(results, cases.map(|(_, _, result)| result));
    assert_eq!(world.get(""), Err(ErrorCode::InvalidKey));
    world.check();
}

#[test]
fn settings_of_a_put_that_make_no_sense_are_refused() {
    let mut world = pool(1, 64 * KIB);
    let too_long = Some(Config::default().max_soft_pin_ttl_ms + 1);
    for config in [
        ReplicateConfig { replica_num: 0, ..ReplicateConfig::default() },
        ReplicateConfig { replica_num: limits::MAX_REPLICAS + 1, ..ReplicateConfig::default() },
        soft(SoftPin::Enable { ttl_ms: too_long }),
    ] {
        assert_eq!(world.start_with(ALICE, "k", 1, config), Err(ErrorCode::InvalidParams));
    }
    let keys = vec!["k"; limits::MAX_BATCH_KEYS + 1];
    let reply = world.ask(BOB, &Request::exist(keys));
    assert_eq!(reply, Reply::Refused(ErrorCode::InvalidParams));
}

#[test]
fn replicas_lie_on_distinct_segments_as_many_as_there_are() {
    let mut world = pool(3, 64 * KIB);
    let config = ReplicateConfig { replica_num: 5, ..ReplicateConfig::default() };
    let placed = world.put_with(ALICE, "k", 1000, config).unwrap();
    let mut segments: Vec<SegmentId> =
        placed.what.placements.iter().map(|p| placed.segments[p.segment as usize].id).collect();
    segments.sort_unstable();
    assert_eq!(segments, [SegmentId(1), SegmentId(2), SegmentId(3)]);
    assert_eq!(world.meta.stats().counters.partial_allocations, 1);
    world.check();
}

#[test]
fn a_replica_that_failed_is_dropped_and_a_put_without_any_is_gone() {
    let mut world = pool(2, 64 * KIB);
    let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    let placed = world.start_with(ALICE, "k", 1000, config.clone()).unwrap();
    assert_eq!(world.end(ALICE, "k", &placed.what, 0b01), Ok(()));
    let found = world.get("k").unwrap().what.placements;
    assert_eq!(found.iter().map(|p| p.replica).collect::<Vec<_>>(), [1]);
    let placed = world.start_with(ALICE, "j", 1000, config).unwrap();
    assert_eq!(world.end(ALICE, "j", &placed.what, 0b11), Err(ErrorCode::ObjectNotFound));
    assert!(!world.exist("j"));
    world.check();
}

#[test]
fn a_lease_protects_from_removal_until_it_ends() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 1).unwrap();
    assert!(world.exist("k"));
    assert_eq!(world.remove("k", false), Err(ErrorCode::ObjectHasLease));
    world.advance(4_999);
    assert_eq!(world.remove("k", false), Err(ErrorCode::ObjectHasLease));
    world.advance(1);
    assert_eq!(world.remove("k", false), Ok(()));
    assert_eq!(world.remove("k", false), Err(ErrorCode::ObjectNotFound));
    world.put("k", 1).unwrap();
    world.get("k").unwrap();
    assert_eq!(world.remove("k", true), Ok(()));
    let running = world.start(ALICE, "k", 1).unwrap();
    assert_eq!(world.remove("k", true), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.end(ALICE, "k", &running.what, 0), Ok(()));
    assert_eq!(world.remove("k", false), Ok(()), "a put grants no lease");
}

#[test]
fn time_that_goes_back_changes_nothing() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 1).unwrap();
    world.exist("k");
    world.now = Tick(0);
    assert_eq!(world.remove("k", false), Err(ErrorCode::ObjectHasLease));
    world.check();
}

/// In a pool of this size, batches prefetch the memory that their lookups read.
#[test]
fn batches_in_a_large_pool_are_answered_key_by_key() {
    const OBJECTS: usize = 70_000;
    let mut world = pool(1, OBJECTS as u64 * KIB);
    let keys: Vec<String> = (0..OBJECTS).map(|number| format!("{number:05}")).collect();
    let long = "x".repeat(limits::MAX_KEY_BYTES + 1);
    for keys in keys.chunks(1_000) {
        let puts = keys.iter().map(|key| PutItem::new(key, 1)).collect();
        let start = PutStart { puts, config: ReplicateConfig::default(), mode: PutMode::Insert };
        let Reply::Granted { results, .. } = world.ask(ALICE, &Request::PutStart(start)) else {
            panic!("a wrong kind of reply");
        };
        let ends = keys.iter().zip(results).map(|(key, grant)| PutEnd {
            key,
            version: grant.unwrap().version,
            failed_replicas: 0,
            held_replicas: 0,
        });
        let puts = ends.collect::<Vec<_>>();
        let statuses = world.ask(ALICE, &Request::PutEnd { puts });
        assert_eq!(statuses, Reply::Statuses(vec![Ok(()); 1_000]));
    }
    let mut asked = vec!["", "nobody's", &long];
    let mut expected = vec![Err(ErrorCode::InvalidKey), Ok(false), Err(ErrorCode::InvalidKey)];
    asked.extend(keys.iter().step_by(25).map(String::as_str));
    expected.resize(asked.len(), Ok(true));
    let exist = world.ask(BOB, &Request::exist(asked.clone()));
    assert_eq!(exist, Reply::Exist(expected.clone()));
    let Reply::Located { results, .. } = world.ask(BOB, &Request::GetReplicaList { keys: asked })
    else {
        panic!("a wrong kind of reply");
    };
    let found: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(found, expected.iter().map(|exists| *exists == Ok(true)).collect::<Vec<_>>());
}

/// A master that was delayed may receive a call for a key before it has discarded older overdue puts of other keys.
#[test]
fn a_put_that_is_overdue_is_given_up_for_its_key_whatever_else_is_overdue() {
    let mut world = pool(1, 64 * KIB);
    for key in ["older", "newer"] {
        world.start(ALICE, key, KIB).expect("there is room");
        world.now = world.now.after_ms(1);
    }
    world.now = world.now.after_ms(Config::default().put_discard_ms);
    world.start(BOB, "newer", KIB).expect("the first put of it is given up");
    world.check();
    assert_eq!(world.meta.stats().counters.puts_discarded, 1);
    world.timeouts();
    world.check();
    assert_eq!(world.meta.stats().counters.puts_discarded, 2);
}
