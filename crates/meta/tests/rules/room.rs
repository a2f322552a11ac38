//! Which objects are evicted to make room, and which are not.

use mooncake_meta::{AllocatorKind, Config};
use mooncake_types::{ErrorCode, ReplicateConfig};

use crate::world::{ALICE, World};
use crate::{KIB, pool, pool_with};

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

fn hard() -> ReplicateConfig<'static> {
    ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() }
}

fn evicted(world: &World) -> (u64, u64) {
    let counters = world.meta.stats().counters;
    (counters.evicted_keys, counters.evicted_bytes)
}

/// Puts objects of many lengths into a few full segments, some of whose objects are pinned or leased. Counts the
/// outcomes.
fn fill_at_random(seed: u64) -> [u32; 4] {
    let mut dice = Dice(seed);
    let segments = 1 + dice.roll(4) as u128;
    let mut world = pool(segments, [64, 256, 1_024][dice.roll(3) as usize] * KIB);
    let most = [8, 60, 400][dice.roll(3) as usize] * KIB;
    let mut met = [0; 4];
    for number in 0..400 {
        let key = format!("{number}");
        let longest = if dice.roll(4) == 0 { most } else { most / 16 };
        let len = 1 + dice.roll(longest);
        let config = if dice.roll(25) == 0 { hard() } else { ReplicateConfig::default() };
        let before = evicted(&world);
        let result = world.put_with(ALICE, &key, len, config);
        let after = evicted(&world);
        let (keys, bytes) = (after.0 - before.0, after.1 - before.1);
        match result {
            Ok(_) => {
                assert!(keys == 1 || bytes <= 4 * len, "seed {seed}: {keys} keys for {len} bytes");
                met[(keys as usize).min(2)] += 1;
            }
            Err(ErrorCode::NoAvailableHandle) => {
                assert_eq!(after, before, "seed {seed}: a put that was refused evicted something");
                world.meta.check_refusal(len, &[]).unwrap();
                met[3] += 1;
            }
            Err(other) => panic!("{other}"),
        }
        if dice.roll(6) == 0 {
            let _ = world.get(&format!("{}", dice.roll(number + 1)));
        }
        world.advance([0, 1, 2_000][dice.roll(3) as usize]);
        world.check();
    }
    met
}

#[test]
fn a_put_evicts_at_most_four_times_its_length_and_one_that_is_refused_nothing() {
    let mut met = [0; 4];
    for seed in 0..40 {
        for (sum, count) in met.iter_mut().zip(fill_at_random(seed)) {
            *sum += count;
        }
    }
    let names = ["evicted none", "evicted one", "evicted several", "was refused"];
    assert!(met.iter().all(|&count| count > 50), "{names:?}: {met:?}");
}

#[test]
fn a_long_object_evicts_neighbours_and_nothing_else() {
    let mut world = pool(1, 1_024 * KIB);
    for number in 0..128 {
        world.put(&format!("{number:03}"), 8 * KIB).unwrap();
        world.advance(1);
    }
    // The least recently used objects do not lie side by side.
    for number in (1..128).step_by(2) {
        world.get(&format!("{number:03}")).unwrap();
    }
    world.advance(6_000);
    world.put("long", 60 * KIB).unwrap();
    assert_eq!(evicted(&world), (8, 64 * KIB));
    world.check();
}

#[test]
fn an_object_that_fits_no_64_ranges_evicts_nothing() {
    let mut world = pool(1, 64 * 1_024 * KIB);
    // Every other object is pinned, so the evictable ones lie in more ranges than an object may have.
    for number in 0..512 {
        let config = if number % 2 == 0 { hard() } else { ReplicateConfig::default() };
        world.put_with(ALICE, &format!("{number}"), 128 * KIB, config).unwrap();
    }
    let result = world.put("more than 64 of these", 65 * 128 * KIB);
    assert_eq!(result, Err(ErrorCode::NoAvailableHandle));
    assert_eq!(evicted(&world), (0, 0));
    world.put("64 of these", 64 * 128 * KIB).unwrap();
    assert_eq!(evicted(&world), (64, 64 * 128 * KIB));
    world.check();
}

#[test]
fn what_can_be_evicted_is_found_behind_any_number_of_segments_that_are_pinned() {
    let mut world = pool(250, 64 * KIB);
    for number in 0..250 {
        let config = if number == 249 { ReplicateConfig::default() } else { hard() };
        world.put_with(ALICE, &format!("{number}"), 64 * KIB, config).unwrap();
    }
    for _ in 0..20 {
        assert!(world.put("new", 32 * KIB).is_ok());
        assert!(world.remove("new", true).is_ok());
        world.put("249", 64 * KIB).ok();
    }
    world.check();
}

#[test]
fn the_only_segment_that_is_long_enough_is_found_among_many() {
    let mut world = pool(200, 64 * KIB);
    world.mount(ALICE, 500, 1_024 * KIB).unwrap();
    for number in 0..400 {
        world.put(&format!("{number}"), 64 * KIB).unwrap();
    }
    world.put("long", 100 * KIB).unwrap();
    world.check();
}

#[test]
fn what_is_leased_everywhere_is_evicted_once_the_leases_are_over() {
    let mut world = pool(30, 64 * KIB);
    for number in 0..30 {
        world.put(&format!("{number}"), 64 * KIB).unwrap();
        world.get(&format!("{number}")).unwrap();
    }
    assert_eq!(world.put("new", KIB), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(world.put("new", KIB), Err(ErrorCode::NoAvailableHandle));
    world.check();
    world.advance(5_000);
    world.put("new", KIB).unwrap();
    world.check();
}

#[test]
fn slabs_of_another_length_come_free_by_and_by() {
    let config = Config { allocator: AllocatorKind::Cachelib, ..Config::default() };
    let mut world = pool_with(1, 4_096 * KIB, config);
    for number in 0..200 {
        world.put(&format!("short {number}"), 16 * KIB).unwrap();
    }
    let mut refused = 0;
    for number in 0..20 {
        let before = evicted(&world).1;
        refused += u32::from(world.put(&format!("long {number}"), 50 * KIB).is_err());
        assert!(evicted(&world).1 - before <= 4 * 50 * KIB + 16 * KIB);
    }
    assert!(refused < 10, "{refused} of 20 were refused");
    world.check();
}

/// Puts objects of all lengths in stripes. Evicting a stripe costs its whole object, so the cheapest windows are short
/// and adjacent.
fn put_long_objects_among_stripes(seed: u64) -> [u32; 2] {
    let mut dice = Dice(seed);
    let config = Config { stripe_threshold_bytes: 128 * KIB, seed, ..Config::default() };
    let mut world = pool_with(1 + dice.roll(3) as u128, 1_024 * KIB, config);
    let mut met = [0; 2];
    for number in 0..300 {
        let longest = [8, 60, 200, 1_000][dice.roll(4) as usize] * KIB;
        let (key, len) = (format!("{number}"), 1 + dice.roll(longest));
        let config = if dice.roll(40) == 0 { hard() } else { ReplicateConfig::default() };
        let before = evicted(&world);
        match world.put_with(ALICE, &key, len, config) {
            Ok(placed) => met[0] += u32::from(placed.what.placements.len() > 4),
            Err(ErrorCode::NoAvailableHandle) => {
                assert_eq!(evicted(&world), before, "seed {seed}: {len} bytes were refused");
                met[1] += 1;
            }
            Err(other) => panic!("{other}"),
        }
        if dice.roll(6) == 0 {
            let _ = world.get(&format!("{}", dice.roll(number + 1)));
        }
        world.advance([0, 1, 2_000][dice.roll(3) as usize]);
        world.check();
    }
    met
}

#[test]
fn an_object_gets_its_room_from_windows_that_touch_and_evicts_nothing_if_it_is_refused() {
    let mut met = [0; 2];
    for seed in 0..40 {
        for (sum, count) in met.iter_mut().zip(put_long_objects_among_stripes(seed)) {
            *sum += count;
        }
    }
    assert!(met.iter().all(|&count| count > 20), "in many pieces, refused: {met:?}");
}
