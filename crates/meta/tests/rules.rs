//! The master's rules, one by one.

mod world;

use mooncake_meta::{AllocatorKind, Config, Strategy};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, MountSegment, PutItem, PutStart, ReplicateConfig, Reply, Request,
    Scan, ScanAction, SegmentId, SegmentState, SoftPin, limits,
};
use world::{ALICE, BOB, World};

const KIB: u64 = 1024;

fn pool(segments: u128, len: u64) -> World {
    pool_with(segments, len, Config { eviction_high_watermark_ratio: 1.0, ..Config::default() })
}

fn pool_with(segments: u128, len: u64, config: Config) -> World {
    let mut world = World::new(config);
    for id in 1..=segments {
        world.mount(ALICE, id, len).expect("the segment is a new one");
    }
    world
}

fn soft(soft_pin: SoftPin) -> ReplicateConfig<'static> {
    ReplicateConfig { soft_pin, ..ReplicateConfig::default() }
}

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
    let puts = cases.iter().map(|&(key, len, _)| PutItem { key, len }).collect();
    let start = PutStart { puts, config: ReplicateConfig::default() };
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
    let reply = world.ask(BOB, &Request::ExistKey { keys });
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
fn what_is_leased_unfinished_or_hard_pinned_is_never_evicted() {
    let mut world = pool(1, 64 * KIB);
    let hard = ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    world.put_with(ALICE, "hard", 16 * KIB, hard).unwrap();
    world.put("leased", 16 * KIB).unwrap();
    let running = world.start(ALICE, "running", 16 * KIB).unwrap();
    world.put("plain", 16 * KIB).unwrap();
    world.get("leased").unwrap();
    assert_eq!(world.put("large", 32 * KIB), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(world.keys(), ["hard", "leased"], "what could be evicted was");
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

#[test]
fn preferred_segments_come_first_and_excluded_ones_never() {
    let mut world = pool(3, 64 * KIB);
    let prefer = |names: &[&'static str]| ReplicateConfig {
        preferred_segments: names.to_vec(),
        ..ReplicateConfig::default()
    };
    for i in 0..4 {
        let key = format!("p{i}");
        let config = prefer(&["nobody:1", "node-2:12345"]);
        let placed = world.put_with(ALICE, &key, 16 * KIB, config).unwrap();
        assert_eq!(placed.segments[0].id, SegmentId(2));
    }
    let placed = world.put_with(ALICE, "full", 16 * KIB, prefer(&["node-2:12345"])).unwrap();
    assert_ne!(placed.segments[0].id, SegmentId(2), "a full preference is no reason to evict");
    for i in 0..8 {
        let config = ReplicateConfig {
            excluded_segments: vec![SegmentId(1), SegmentId(99)],
            ..ReplicateConfig::default()
        };
        let placed = world.put_with(ALICE, &format!("e{i}"), 1, config).unwrap();
        assert_ne!(placed.segments[0].id, SegmentId(1));
    }
}

#[test]
fn free_ratio_first_fills_segments_evenly() {
    let config = Config {
        strategy: Strategy::FreeRatioFirst,
        eviction_high_watermark_ratio: 1.0,
        ..Config::default()
    };
    let mut world = pool_with(4, 256 * KIB, config);
    for i in 0..100 {
        world.put(&format!("{i}"), 8 * KIB).unwrap();
    }
    let used: Vec<u64> = world.meta.segments().iter().map(|s| s.used / (8 * KIB)).collect();
    assert_eq!(used, [25, 25, 25, 25]);
}

#[test]
fn objects_over_the_threshold_are_striped_and_so_are_those_that_fit_no_segment() {
    let config = Config {
        stripe_threshold_bytes: 256 * KIB,
        eviction_high_watermark_ratio: 1.0,
        ..Config::default()
    };
    let mut world = pool_with(4, 512 * KIB, config);
    let lens = |placed: &world::Placed<mooncake_types::Grant>| -> Vec<u64> {
        placed.what.placements.iter().map(|p| p.len).collect()
    };
    let placed = world.put("striped", 600 * KIB + 1).unwrap();
    let stripe = (600 * KIB + 1).div_ceil(3);
    assert_eq!(lens(&placed), [stripe, stripe, 600 * KIB + 1 - 2 * stripe]);
    assert_eq!(placed.segments.len(), 3);
    world.check();
    let placed = world.put("larger than any segment", 1500 * KIB).unwrap();
    assert_eq!(lens(&placed).iter().sum::<u64>(), 1500 * KIB);
    world.check();
    assert_eq!(world.put("larger than the pool", 3000 * KIB), Err(ErrorCode::NoAvailableHandle));
    world.check();
}

#[test]
fn a_put_that_can_never_fit_evicts_nobody() {
    let mut world = pool(2, 1 << 20);
    for i in 0..16 {
        world.put(&format!("{i}"), 128 * KIB).unwrap();
    }
    let before = world.keys();
    assert_eq!(world.put("larger than the pool", 3 << 20), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(world.keys(), before);
}

#[test]
fn a_second_replica_that_fits_no_segment_clears_none() {
    let mut world = pool(1, 4 << 20);
    world.mount(BOB, 2, 1 << 20).unwrap();
    let small =
        ReplicateConfig { preferred_segments: vec!["node-2:12345"], ..ReplicateConfig::default() };
    for i in 0..8 {
        world.put_with(ALICE, &format!("{i}"), 128 * KIB, small.clone()).unwrap();
    }
    let two = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    world.put_with(ALICE, "large", 2 << 20, two).unwrap();
    assert_eq!(world.keys().len(), 9);
    world.check();
}

#[test]
fn what_is_free_in_a_few_pieces_is_used_before_anybody_is_evicted() {
    let mut world = pool(2, 1 << 20);
    let hard = ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    for i in 0..3 {
        world.put_with(ALICE, &format!("pinned {i}"), 256 * KIB, hard.clone()).unwrap();
        world.put(&format!("plain {i}"), 128 * KIB).unwrap();
    }
    let free = world.meta.stats().capacity_bytes - world.meta.stats().used_bytes;
    let placed = world.put("in pieces", free - 64 * KIB).unwrap();
    assert!(placed.what.placements.len() > 1);
    assert_eq!(world.keys().len(), 7, "nobody was evicted");
    world.check();
}

#[test]
fn room_is_found_behind_any_number_of_full_segments() {
    let mut world = pool(250, 64 * KIB);
    let hard = ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    for i in 0..250 {
        let config = hard.clone();
        assert!(world.put_with(ALICE, &format!("{i}"), 64 * KIB, config).is_ok(), "put {i}");
    }
    assert_eq!(world.put("one more", 1), Err(ErrorCode::NoAvailableHandle));
}

#[test]
fn an_unmounted_segment_takes_its_objects_along() {
    let mut world = pool(1, 64 * KIB);
    world.mount(BOB, 2, 64 * KIB).unwrap();
    let two = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    world.put_with(ALICE, "both", 1, two.clone()).unwrap();
    let running = world.start_with(ALICE, "running", 1, two).unwrap();
    let only =
        ReplicateConfig { preferred_segments: vec!["node-2:12345"], ..ReplicateConfig::default() };
    world.put_with(ALICE, "only", 1, only).unwrap();
    assert_eq!(world.unmount(ALICE, 2, 0), Err(ErrorCode::IllegalClient));
    assert_eq!(world.unmount(BOB, 9, 0), Err(ErrorCode::SegmentNotFound));
    assert_eq!(world.unmount(BOB, 2, 0), Ok(()));
    assert_eq!(world.get("only"), Err(ErrorCode::ObjectNotFound), "at once, before any timeout");
    assert_eq!(world.get("both").unwrap().segments[0].id, SegmentId(1));
    world.timeouts();
    world.check();
    assert_eq!(world.end(ALICE, "running", &running.what, 0), Ok(()));
    assert_eq!(world.get("running").unwrap().what.placements.len(), 1);
    assert_eq!(world.mount(BOB, 2, 64 * KIB), Ok(()), "it may come back");
    world.check();
}

#[test]
fn a_graceful_unmount_serves_gets_until_its_time_is_over() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 1).unwrap();
    assert_eq!(world.unmount(ALICE, 1, 3_000), Ok(()));
    assert_eq!(world.meta.segments()[0].state, SegmentState::GracefullyUnmounting);
    assert_eq!(world.put("j", 1), Err(ErrorCode::NoAvailableHandle));
    world.advance(2_999);
    assert!(world.exist("k"));
    world.advance(1);
    assert!(!world.exist("k"));
    assert_eq!(world.meta.segments(), []);
    world.check();
}

#[test]
fn a_silent_client_is_dead_after_its_time_to_live_and_may_come_back() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 1).unwrap();
    world.advance(6_000);
    assert!(!world.ping(ALICE, &[SegmentId(1)]));
    world.advance(9_999);
    assert!(world.exist("k"));
    world.advance(1);
    assert!(!world.exist("k"));
    assert!(world.ping(ALICE, &[SegmentId(1)]), "it is asked to mount again");
    assert_eq!(world.mount(ALICE, 1, 64 * KIB), Ok(()));
    assert!(!world.ping(ALICE, &[SegmentId(1)]));
    assert!(world.put("k", 1).is_ok());
    world.check();
}

#[test]
fn when_all_are_silent_at_once_they_get_one_more_time_to_live() {
    let mut world = pool(1, 64 * KIB);
    world.mount(BOB, 2, 64 * KIB).unwrap();
    world.put("k", 1).unwrap();
    world.advance(19_000);
    assert_eq!(world.meta.clients(), 2, "the master was cut off, not both of them");
    assert!(!world.ping(ALICE, &[SegmentId(1)]), "nothing was lost");
    world.advance(5_000);
    world.ping(ALICE, &[SegmentId(1)]);
    world.advance(5_000);
    assert_eq!(world.meta.clients(), 1, "one alone is dead");
    world.mount(BOB, 2, 64 * KIB).unwrap();
    world.advance(10_000);
    assert_eq!(world.meta.clients(), 2);
    world.advance(10_000);
    assert_eq!(world.meta.clients(), 0, "it is one more, not one after the other");
    world.check();
}

#[test]
fn mounting_twice_is_fine_only_if_nothing_differs() {
    let mut world = pool(1, 64 * KIB);
    assert_eq!(world.mount(ALICE, 1, 64 * KIB), Ok(()));
    assert_eq!(world.mount(ALICE, 1, 32 * KIB), Err(ErrorCode::SegmentAlreadyExists));
    assert_eq!(world.mount(BOB, 1, 64 * KIB), Err(ErrorCode::SegmentAlreadyExists));
    assert_eq!(world.mount(ALICE, 2, 0), Err(ErrorCode::InvalidParams));
    assert_eq!(world.mount(ALICE, 2, u64::MAX), Err(ErrorCode::InvalidParams));
    assert_eq!(world.meta.stats().capacity_bytes, 64 * KIB);
}

#[test]
fn a_node_that_obeyed_a_later_leader_raises_the_epoch() {
    let mut world = pool(1, 64 * KIB);
    let before = world.put("a", 1).unwrap().what.version;
    let mount = MountSegment {
        id: SegmentId(5),
        name: "n:1",
        endpoint: "n:1",
        len: 64 * KIB,
        seen_epoch: Epoch(100),
    };
    assert_eq!(world.ask(BOB, &Request::MountSegment(mount)), Reply::Done(Ok(())));
    assert_eq!(world.meta.epoch(), Epoch(101));
    let after = world.put("b", 1).unwrap().what.version;
    assert!(after > before && after.epoch == Epoch(101));
    let again = MountSegment { seen_epoch: Epoch(200), ..mount };
    assert_eq!(world.ask(BOB, &Request::MountSegment(again)), Reply::Done(Ok(())));
    assert_eq!(world.meta.epoch(), Epoch(201), "also for a segment that is mounted");
    let absurd = MountSegment { seen_epoch: Epoch(u64::MAX), ..mount };
    let refused = Reply::Done(Err(ErrorCode::InvalidVersion));
    assert_eq!(world.ask(BOB, &Request::MountSegment(absurd)), refused);
}

#[test]
fn scans_meet_every_object_once_and_remove_what_they_may() {
    let mut world = pool(1, 1 << 20);
    for i in 0..250 {
        world.put(&format!("model-a/{i}"), 10).unwrap();
        world.put(&format!("model-b/{i}"), 10).unwrap();
    }
    world.start(ALICE, "model-a/running", 10).unwrap();
    let listed = world.scan(Some("^model-a/.*7$"), ScanAction::List, 7).unwrap();
    assert_eq!(listed.objects.len(), 25);
    world.get("model-a/7").unwrap();
    let remove = |force| ScanAction::Remove { force };
    assert_eq!(world.scan(Some("a/.*7$"), remove(false), 64).map(|p| p.removed), Ok(24));
    assert_eq!(world.scan(Some("a/.*7$"), remove(true), 64).map(|p| p.removed), Ok(1));
    assert_eq!(world.scan(Some("("), remove(true), 64), Err(ErrorCode::InvalidParams));
    assert_eq!(world.scan(None, remove(false), 1).map(|p| p.removed), Ok(475));
    assert_eq!(world.meta.stats().keys, 1, "an unfinished put is not removed");
    world.check();
}

#[test]
fn a_page_of_long_keys_ends_before_it_outgrows_a_frame() {
    let mut world = pool(1, 64 << 20);
    for i in 0..2_000 {
        world.put(&format!("{i:0>4096}"), 1).unwrap();
    }
    let page = Scan { pattern: None, action: ScanAction::List, cursor: 0, limit: u32::MAX };
    let Reply::Scanned(page) = world.ask(BOB, &Request::Scan(page)) else { panic!("no page") };
    assert!((1_000..1_100).contains(&page.objects.len()), "{}", page.objects.len());
    let all = world.scan(None, ScanAction::List, u32::MAX).unwrap();
    assert_eq!(all.objects.len(), 2_000);
}

#[test]
fn the_slab_allocator_serves_a_pool_as_well() {
    let config = Config { allocator: AllocatorKind::Cachelib, ..Config::default() };
    let mut world = pool_with(2, 16 << 20, config);
    for i in 0..400 {
        world.put(&format!("{i}"), 100 * KIB).unwrap();
        world.timeouts();
    }
    world.check();
    let stats = world.meta.stats();
    assert!(stats.counters.evicted_keys > 0 && stats.keys > 200, "{stats:?}");
}

#[test]
fn time_that_goes_back_changes_nothing() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 1).unwrap();
    world.exist("k");
    world.now = mooncake_types::Tick(0);
    assert_eq!(world.remove("k", false), Err(ErrorCode::ObjectHasLease));
    world.check();
}

#[test]
fn more_clients_than_the_limit_are_refused() {
    let mut world = pool(1, 64 * KIB);
    let ping = Request::Ping { segments: vec![] };
    for i in 10..10 + limits::MAX_CLIENTS as u128 {
        world.ask(ClientId(i), &ping);
    }
    let refused = Reply::Refused(ErrorCode::UnavailableInCurrentStatus);
    assert_eq!(world.ask(ClientId(3), &ping), refused);
    assert!(!world.ping(ALICE, &[SegmentId(1)]), "those who are in stay in");
}
