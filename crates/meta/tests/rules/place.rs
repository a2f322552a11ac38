//! Placement of objects.

use mooncake_meta::{AllocatorKind, Config, Strategy};
use mooncake_types::{ErrorCode, Grant, ReplicateConfig, SegmentId};

use crate::drain::{A, B};
use crate::world::{ALICE, BOB, Placed};
use crate::{KIB, pool, pool_with};

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
    let lens = |placed: &Placed<Grant>| -> Vec<u64> {
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
    for (i, name) in [A, B, A].into_iter().enumerate() {
        let there =
            ReplicateConfig { preferred_segments: vec![name], ..ReplicateConfig::default() };
        let hard = ReplicateConfig { hard_pin: true, ..there.clone() };
        world.put_with(ALICE, &format!("pinned {i}"), 256 * KIB, hard).unwrap();
        world.put_with(ALICE, &format!("plain {i}"), 128 * KIB, there).unwrap();
    }
    // More than the free bytes of either segment, and less than those of both.
    let placed = world.put("in pieces", 680 * KIB).unwrap();
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
