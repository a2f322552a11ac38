//! Clearing replicas.

use mooncake_meta::{Config, EvictionPolicy};
use mooncake_types::{ClientId, CreateTask, ErrorCode, ReplicateConfig, TaskKind};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool, pool_with};

/// Objects that Alice put on two segments; their leases have ended.
fn world() -> World {
    let mut world = pool(3, 64 * KIB);
    let two = ReplicateConfig {
        replica_num: 2,
        preferred_segments: vec!["node-1:12345", "node-2:12345"],
        ..ReplicateConfig::default()
    };
    for key in ["both", "leased", "tasked"] {
        world.put_with(ALICE, key, KIB, two.clone()).unwrap();
    }
    world.advance(5_000);
    world.get("leased").unwrap();
    world.put("young", KIB).unwrap();
    world.start(ALICE, "running", KIB).unwrap();
    let copy = CreateTask {
        key: "tasked",
        kind: TaskKind::Copy,
        source: "",
        targets: vec!["node-3:12345"],
    };
    world.create_task(copy).unwrap();
    world
}

#[test]
fn who_may_clear_what() {
    let cases: [(ClientId, &str, &str, Result<(), ErrorCode>); 9] = [
        (ALICE, "", "", Err(ErrorCode::InvalidKey)),
        (ALICE, "missing", "", Err(ErrorCode::ObjectNotFound)),
        (BOB, "both", "", Err(ErrorCode::IllegalClient)),
        (ALICE, "running", "", Err(ErrorCode::ReplicaIsNotReady)),
        (ALICE, "leased", "", Err(ErrorCode::ObjectHasLease)),
        (ALICE, "young", "", Err(ErrorCode::ObjectHasLease)),
        (ALICE, "tasked", "", Err(ErrorCode::ObjectHasReplicationTask)),
        (ALICE, "both", "node-3:12345", Err(ErrorCode::ReplicaNotFound)),
        (ALICE, "both", "nobody:1", Err(ErrorCode::ReplicaNotFound)),
    ];
    for (from, key, segment, expected) in cases {
        let mut world = world();
        let before = world.meta.stats().used_bytes;
        assert_eq!(world.clear(from, key, segment), expected, "{key} {segment}");
        assert_eq!(world.meta.stats().used_bytes, before);
    }
}

#[test]
fn an_object_is_gone_with_its_last_replica() {
    let mut world = world();
    assert_eq!(world.clear(ALICE, "both", "node-1:12345"), Ok(()));
    assert_eq!(world.holders("both"), ["node-2:12345"]);
    assert_eq!(world.clear(ALICE, "both", "node-1:12345"), Err(ErrorCode::ReplicaNotFound));
    assert_eq!(world.clear(ALICE, "both", "node-2:12345"), Ok(()));
    assert_eq!(world.version("both"), None);
    world.check();
    world.advance(5_000);
    assert_eq!(world.clear(ALICE, "leased", ""), Ok(()));
    assert_eq!(world.version("leased"), None);
    world.check();
}

#[test]
fn what_was_just_put_is_left_until_a_lease_would_be_over() {
    let mut world = world();
    world.advance(4_999);
    assert_eq!(world.clear(ALICE, "young", ""), Err(ErrorCode::ObjectHasLease));
    world.advance(1);
    assert_eq!(world.clear(ALICE, "young", ""), Ok(()));
}

#[test]
fn what_was_read_can_be_cleared_once_its_lease_is_over_whatever_the_pin_and_the_policy() {
    for policy in EvictionPolicy::ALL {
        for hard_pin in [false, true] {
            let config = Config { eviction_policy: policy, ..Config::default() };
            let mut world = pool_with(1, 64 * KIB, config);
            let config = ReplicateConfig { hard_pin, ..ReplicateConfig::default() };
            world.put_with(ALICE, "k", KIB, config).unwrap();
            world.advance(1_000);
            world.get("k").unwrap();
            world.advance(4_999);
            let what = format!("{policy:?}, hard-pinned: {hard_pin}");
            assert_eq!(world.clear(ALICE, "k", ""), Err(ErrorCode::ObjectHasLease), "{what}");
            world.advance(1);
            assert_eq!(world.clear(ALICE, "k", ""), Ok(()), "{what}");
        }
    }
}
