//! Eviction and pins.

use mooncake_meta::{Config, EvictionPolicy};
use mooncake_types::{
    ErrorCode, PutEnd, PutItem, PutMode, PutStart, ReplicateConfig, Reply, Request, SegmentId,
    SoftPin,
};

use crate::world::{ALICE, World};
use crate::{KIB, pool, pool_with, soft};

#[test]
fn a_full_pool_evicts_the_least_recently_used() {
    let mut world = pool(1, 64 * KIB);
    for key in ["a", "b", "c", "d"] {
        world.put(key, 16 * KIB).unwrap();
        world.advance(1);
    }
    world.get("a").unwrap();
    world.advance(5_001);
    world.put("e", 16 * KIB).unwrap();
    assert_eq!(world.keys(), ["a", "c", "d", "e"]);
    world.put("f", 32 * KIB).unwrap();
    assert_eq!(world.keys(), ["a", "e", "f"]);
    let counters = world.meta.stats().counters;
    assert_eq!((counters.evicted_keys, counters.evicted_bytes), (3, 48 * KIB));
    world.check();
}

#[test]
fn a_batch_loses_its_last_blocks_first_however_it_was_used() {
    let exists = |keys| Request::exist(keys);
    let prefix = |keys| Request::prefix_len(keys);
    let places = |keys| Request::GetReplicaList { keys };
    type Read = fn(Vec<&'static str>) -> Request<'static>;
    for read in [None, Some(exists as Read), Some(prefix), Some(places)] {
        let mut world = pool(1, 64 * KIB);
        let keys = ["a", "b", "c", "d"];
        let start = PutStart {
            puts: keys.map(|key| PutItem::new(key, 16 * KIB)).to_vec(),
            config: ReplicateConfig::default(),
            mode: PutMode::Insert,
        };
        let Reply::Granted { results, .. } = world.ask(ALICE, &Request::PutStart(start)) else {
            panic!("a wrong kind of reply");
        };
        let end = |(key, grant): (&'static str, Result<mooncake_types::Grant, ErrorCode>)| PutEnd {
            key,
            version: grant.unwrap().version,
            failed_replicas: 0,
            held_replicas: 0,
        };
        let puts = keys.into_iter().zip(results).map(end).collect();
        world.ask(ALICE, &Request::PutEnd { puts });
        let keys = keys.to_vec();
        if let Some(read) = read {
            world.ask(ALICE, &read(keys));
        }
        world.advance(5_001);
        for (new, left) in
            [("e", ["a", "b", "c", "e"]), ("f", ["a", "b", "e", "f"]), ("g", ["a", "e", "f", "g"])]
        {
            world.put(new, 16 * KIB).unwrap();
            assert_eq!(world.keys(), left, "read: {read:?}");
        }
        world.check();
    }
}

#[test]
fn what_is_leased_unfinished_or_hard_pinned_is_never_evicted() {
    let mut world = pool(1, 64 * KIB);
    let hard = ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    world.put_with(ALICE, "hard", 16 * KIB, hard).unwrap();
    world.put("leased", 16 * KIB).unwrap();
    let running = world.start(ALICE, "running", 16 * KIB).unwrap();
    world.put("plain", 16 * KIB).unwrap();
    world.get("leased").unwrap();
    assert_eq!(world.put("large", 32 * KIB), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(world.keys(), ["hard", "leased", "plain"], "what makes no room stays");
    assert!(world.put("new", 16 * KIB).is_ok());
    assert!(world.exist("new"));
    assert_eq!(world.put("one more", 16 * KIB), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(world.end(ALICE, "running", &running.what, 0), Ok(()));
    assert_eq!(world.keys(), ["hard", "leased", "new", "running"]);
    world.check();
}

#[test]
fn soft_pinned_objects_go_last() {
    let mut world = pool(1, 64 * KIB);
    world.put_with(ALICE, "pinned", 16 * KIB, soft(SoftPin::Enable { ttl_ms: None })).unwrap();
    for key in ["a", "b", "c"] {
        world.advance(1);
        world.put(key, 16 * KIB).unwrap();
    }
    world.put("d", 48 * KIB).unwrap();
    assert_eq!(world.keys(), ["d", "pinned"]);
    assert_eq!(world.meta.stats().soft_pinned_keys, 1);
    world.put("e", 64 * KIB).unwrap();
    assert_eq!(world.keys(), ["e"]);
    world.check();
}

#[test]
fn soft_pinned_objects_stay_where_the_master_says_so() {
    let config = Config {
        allow_evict_soft_pinned: false,
        eviction_high_watermark_ratio: 1.0,
        ..Config::default()
    };
    let mut world = pool_with(1, 64 * KIB, config);
    world.put_with(ALICE, "pinned", 64 * KIB, soft(SoftPin::Sliding)).unwrap();
    assert_eq!(world.put("k", 1), Err(ErrorCode::NoAvailableHandle));
}

#[test]
fn an_object_is_soft_pinned_and_unpinned_after_its_put() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 16 * KIB).unwrap();
    let pinned = |world: &World| world.meta.stats().soft_pinned_keys;
    let pin = |world: &mut World, key: &str, ttl_ms| world.meta.soft_pin(world.now, key, ttl_ms);
    assert_eq!(pin(&mut world, "other", 1), Err(ErrorCode::ObjectNotFound));
    let too_long = Config::default().max_soft_pin_ttl_ms + 1;
    assert_eq!(pin(&mut world, "k", too_long), Err(ErrorCode::InvalidParams));
    assert_eq!(pin(&mut world, "k", 0), Ok(()), "nothing is to be ended");
    assert_eq!(pinned(&world), 0);
    assert_eq!(pin(&mut world, "k", 60_000), Ok(()));
    assert_eq!(pinned(&world), 1);
    world.check();
    for number in 0..8 {
        world.put(&format!("filler {number}"), 16 * KIB).unwrap();
        world.pass(6_000);
    }
    assert!(world.exist("k"), "it lies longest, and others went");
    world.ping(ALICE, &[SegmentId(1)]);
    // It is leased now: the pin ends with the lease.
    assert_eq!(pin(&mut world, "k", 0), Ok(()));
    world.check();
    world.pass(6_000);
    assert_eq!(pinned(&world), 0);
    world.ping(ALICE, &[SegmentId(1)]);
    assert_eq!(pin(&mut world, "k", 60_000), Ok(()), "it can be pinned again");
    assert_eq!(pin(&mut world, "k", 5_500), Ok(()), "and for a shorter time");
    world.check();
    world.pass(6_000);
    assert_eq!(pinned(&world), 0);
    world.check();
}

#[test]
fn a_soft_pin_leaves_a_hard_pin_and_ends_a_sliding_one() {
    let mut world = pool(1, 64 * KIB);
    let hard = ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    world.put_with(ALICE, "hard", 1, hard).unwrap();
    world.put_with(ALICE, "sliding", 1, soft(SoftPin::Sliding)).unwrap();
    for key in ["hard", "sliding"] {
        assert_eq!(world.meta.soft_pin(world.now, key, 0), Ok(()));
    }
    assert_eq!(world.meta.stats().soft_pinned_keys, 0);
    assert!(world.exist("sliding"), "and this read does not pin it again");
    assert_eq!(world.meta.soft_pin(world.now, "hard", 1_000), Ok(()));
    assert_eq!(world.meta.stats().soft_pinned_keys, 0);
    world.check();
}

#[test]
fn a_fixed_soft_pin_ends_whatever_is_read_and_a_sliding_one_does_not() {
    let config = Config { soft_pin_ttl_ms: 20_000, ..Config::default() };
    let mut world = pool_with(1, 64 * KIB, config);
    world.put_with(ALICE, "fixed", 1, soft(SoftPin::Enable { ttl_ms: None })).unwrap();
    world.put_with(ALICE, "sliding", 1, soft(SoftPin::Sliding)).unwrap();
    world.put_with(ALICE, "not at all", 1, soft(SoftPin::Enable { ttl_ms: Some(0) })).unwrap();
    for _ in 0..5 {
        world.advance(5_000);
        world.ping(ALICE, &[]);
        assert!(world.exist("fixed") && world.exist("sliding"));
        world.check();
    }
    world.advance(9_000);
    assert_eq!(world.meta.stats().soft_pinned_keys, 1, "the fixed one has ended");
    world.ping(ALICE, &[]);
    world.advance(9_000);
    world.ping(ALICE, &[]);
    world.advance(9_000);
    assert_eq!(world.meta.stats().soft_pinned_keys, 0, "nobody read the sliding one");
    assert!(world.exist("sliding"));
    assert_eq!(world.meta.stats().soft_pinned_keys, 1, "a read pins it again");
    world.check();
}

#[test]
fn a_crowded_segment_is_relieved_to_the_low_watermark_sparing_pins() {
    let config =
        Config { eviction_high_watermark_ratio: 0.75, eviction_ratio: 0.25, ..Config::default() };
    let mut world = pool_with(1, 64 * KIB, config);
    world.put_with(ALICE, "0 pinned", 8 * KIB, soft(SoftPin::Sliding)).unwrap();
    for i in 1..=5 {
        world.advance(1);
        world.put(&format!("{i}"), 8 * KIB).unwrap();
    }
    world.timeouts();
    assert_eq!(world.meta.stats().used_bytes, 48 * KIB, "the watermark is reached, not passed");
    world.put("6", 8 * KIB).unwrap();
    world.timeouts();
    assert_eq!(world.keys(), ["0 pinned", "4", "5", "6"]);
    world.check();
}

/// A pool with room for ten objects of 16 KiB. The tests let more than a lease pass between puts and reads.
fn pool_under(eviction_policy: EvictionPolicy) -> crate::world::World {
    pool_with(1, 160 * KIB, Config { eviction_policy, ..Config::default() })
}

#[test]
fn what_is_used_often_outlasts_a_scan_that_an_lru_would_lose_it_to() {
    for (policy, kept) in [
        (EvictionPolicy::Lru, false),
        (EvictionPolicy::S3Fifo, true),
        (EvictionPolicy::Sieve, true),
    ] {
        let mut world = pool_under(policy);
        let mut is_kept = true;
        for round in 0..6 {
            if world.get("hot").is_err() {
                is_kept = round == 0;
                world.put("hot", 16 * KIB).unwrap();
            }
            world.advance(5_001);
            // Two more reads, so that the object does not count as read once.
            for _ in 0..2 {
                world.get("hot").unwrap();
                world.advance(5_001);
            }
            for number in 0..12 {
                world.put(&format!("{round}-{number}"), 16 * KIB).unwrap();
                world.advance(1);
            }
            world.check();
        }
        assert_eq!(is_kept, kept, "{policy:?}");
    }
}

#[test]
fn s3_fifo_knows_what_comes_back() {
    let mut world = pool_under(EvictionPolicy::S3Fifo);
    let fill = |world: &mut crate::world::World, name: &str| {
        for number in 0..10 {
            world.put(&format!("{name}-{number}"), 16 * KIB).unwrap();
            world.advance(1);
        }
    };
    world.put("back", 16 * KIB).unwrap();
    fill(&mut world, "first");
    assert!(world.get("back").is_err());
    world.put("back", 16 * KIB).unwrap();
    // The object is in the main queue now, which new objects do not enter.
    fill(&mut world, "second");
    assert!(world.get("back").is_ok());
    world.check();
}

#[test]
fn under_every_policy_leased_objects_stay_and_what_is_not_leased_goes() {
    for policy in EvictionPolicy::ALL {
        let mut world = pool_under(policy);
        for number in 0..10 {
            world.put(&number.to_string(), 16 * KIB).unwrap();
        }
        for number in (0..10).filter(|&number| number != 7) {
            world.get(&number.to_string()).unwrap();
        }
        world.put("new", 16 * KIB).unwrap();
        assert!(world.get("7").is_err(), "{policy:?}");
        world.get("new").unwrap();
        assert_eq!(world.put("more", 16 * KIB).unwrap_err(), ErrorCode::NoAvailableHandle);
        world.check();
        world.advance(5_001);
        world.put("more", 16 * KIB).unwrap();
        world.check();
    }
}

#[test]
fn under_sieve_the_oldest_of_two_segments_goes_wherever_their_hands_are() {
    let config =
        Config { eviction_policy: EvictionPolicy::Sieve, lease_ttl_ms: 10, ..Config::default() };
    let mut world = pool_with(2, 32 * KIB, config);
    let put_on = |world: &mut World, segment: &'static str, key: &str| {
        let config =
            ReplicateConfig { preferred_segments: vec![segment], ..ReplicateConfig::default() };
        world.put_with(ALICE, key, 16 * KIB, config).unwrap();
    };
    for (key, segment) in [("a", 1), ("b", 2), ("c", 1), ("d", 2)] {
        put_on(&mut world, ["node-1:12345", "node-2:12345"][segment - 1], key);
    }
    world.get("a").unwrap();
    world.get("c").unwrap();
    world.advance(20);
    // The hand of segment 1 clears the marks of both its objects and then stops at "a". The hand of segment 2 has not
    // moved.
    put_on(&mut world, "node-1:12345", "e");
    assert!(!world.holds("a"));
    world.put("f", 16 * KIB).unwrap();
    assert_eq!(world.keys(), ["c", "d", "e", "f"]);
    world.check();
}
