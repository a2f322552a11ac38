//! Groups: their members are leased and evicted together.

use mooncake_meta::Config;
use mooncake_types::{ErrorCode, PutItem, PutMode, ReplicateConfig, limits};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool, pool_with};

fn upsert(world: &mut World, key: &str, group: &str) -> Result<(), ErrorCode> {
    let put = PutItem { group, ..PutItem::new(key, KIB) };
    let placed = world.begin(BOB, put, ReplicateConfig::default(), PutMode::Upsert)?;
    world.end(BOB, key, &placed.what, 0)
}

#[test]
fn a_lease_on_one_member_leases_all() {
    let mut world = pool(1, 64 * KIB);
    for key in ["a", "b", "c"] {
        world.put_member(key, KIB, "g").unwrap();
    }
    world.put_member("stranger", KIB, "h").unwrap();
    assert!(world.exist("b"));
    for key in ["a", "b", "c"] {
        assert_eq!(world.remove(key, false), Err(ErrorCode::ObjectHasLease), "{key}");
    }
    assert_eq!(world.remove("stranger", false), Ok(()));
    world.advance(1_000);
    world.get("b").unwrap();
    world.advance(4_000);
    assert_eq!(world.remove("b", false), Err(ErrorCode::ObjectHasLease));
    assert_eq!(world.remove("a", false), Ok(()), "most of its lease was left");
    world.check();
    world.get("b").unwrap();
    assert_eq!(world.remove("c", false), Err(ErrorCode::ObjectHasLease), "little was left");
    world.check();
}

#[test]
fn a_newcomer_is_leased_by_the_next_access() {
    let mut world = pool(1, 64 * KIB);
    world.put_member("a", KIB, "g").unwrap();
    world.get("a").unwrap();
    world.put_member("b", KIB, "g").unwrap();
    world.get("a").unwrap();
    assert_eq!(world.remove("b", false), Err(ErrorCode::ObjectHasLease));
    world.check();
}

#[test]
fn newcomers_are_leased_one_by_one_and_not_their_whole_group_again() {
    let mut world = pool(1, 2 << 20);
    let key = |number: usize| format!("{number:04}");
    for number in 0..1_000 {
        world.put_member(&key(number), KIB, "g").unwrap();
    }
    world.get(&key(0)).unwrap();
    for number in 1_000..1_010 {
        world.advance(1);
        world.put_member(&key(number), KIB, "g").unwrap();
        world.get(&key(0)).unwrap();
        world.check();
    }
    let leased = |world: &mut World, number| {
        world.remove(&key(number), false) == Err(ErrorCode::ObjectHasLease)
    };
    assert!((1_000..1_010).all(|number| leased(&mut world, number)), "newcomers are leased");
    world.advance(4_990);
    assert!(!leased(&mut world, 1), "what was there before keeps the lease that it had");
    assert!(leased(&mut world, 1_000));
    world.check();
}

#[test]
fn newcomers_that_went_before_the_next_access_are_forgotten() {
    let mut world = pool(1, 64 * KIB);
    world.put_member("a", KIB, "g").unwrap();
    world.get("a").unwrap();
    for _ in 0..10 {
        world.put_member("b", KIB, "g").unwrap();
        assert_eq!(world.remove("b", false), Ok(()), "nobody has accessed the group since");
    }
    world.put("stranger", KIB).unwrap();
    world.put_member("c", KIB, "g").unwrap();
    world.get("a").unwrap();
    assert_eq!(world.remove("stranger", false), Ok(()));
    assert_eq!(world.remove("c", false), Err(ErrorCode::ObjectHasLease));
    world.check();
}

#[test]
fn eviction_takes_the_whole_group() {
    let mut world = pool(1, 64 * KIB);
    for (key, group) in [("a", "g"), ("x", ""), ("b", "g"), ("y", "")] {
        world.put_member(key, 16 * KIB, group).unwrap();
        world.advance(1);
    }
    world.put("new", 16 * KIB).unwrap();
    assert_eq!(world.keys(), ["new", "x", "y"]);
    assert_eq!(world.meta.stats().counters.evicted_keys, 2);
    assert_eq!(world.meta.stats().groups, 0);
    world.check();
}

#[test]
fn a_group_with_a_leased_or_hard_pinned_member_is_passed_over() {
    let hard = || ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    for leased in [true, false] {
        let mut world = pool(1, 64 * KIB);
        world.put_member("a", 16 * KIB, "g").unwrap();
        let config = if leased { ReplicateConfig::default() } else { hard() };
        let put = PutItem { group: "g", ..PutItem::new("b", 16 * KIB) };
        let placed = world.begin(ALICE, put, config, PutMode::Insert).unwrap();
        assert_eq!(world.end(ALICE, "b", &placed.what, 0), Ok(()));
        world.put("x", 16 * KIB).unwrap();
        world.put("y", 16 * KIB).unwrap();
        world.advance(1);
        if leased {
            world.get("b").unwrap();
        }
        world.put("new", 16 * KIB).unwrap();
        assert_eq!(world.keys(), ["a", "b", "new", "y"], "leased {leased}");
        assert_eq!(world.put("large", 64 * KIB), Err(ErrorCode::NoAvailableHandle));
        assert_eq!(world.keys(), ["a", "b", "new", "y"], "what makes no room stays");
        world.check();
    }
}

#[test]
fn the_watermark_takes_groups_one_at_a_time() {
    let config =
        Config { eviction_high_watermark_ratio: 0.5, eviction_ratio: 0.5, ..Config::default() };
    let mut world = pool_with(1, 4 << 20, config);
    for (number, group) in (0..2_050).zip(["a", "b", "c", "d", "e"].map(|g| [g; 512]).concat()) {
        world.put_member(&number.to_string(), KIB, group).unwrap();
    }
    let mut evicted = Vec::new();
    while world.meta.poll_timeout() == Some(world.now) {
        world.meta.handle_timeout(world.now);
        evicted.push(world.meta.stats().counters.evicted_keys);
    }
    assert_eq!(evicted, [512, 1_024, 1_536, 2_048, 2_050]);
    world.check();
}

#[test]
fn a_leased_member_that_is_not_read_again_protects_its_group_no_longer() {
    let mut world = pool(1, 32 * KIB);
    world.put_member("a", 16 * KIB, "g").unwrap();
    world.put_member("b", 16 * KIB, "g").unwrap();
    world.get("a").unwrap();
    world.advance(4_999);
    assert_eq!(world.put("new", 16 * KIB), Err(ErrorCode::NoAvailableHandle));
    world.advance(1);
    world.put("new", 16 * KIB).unwrap();
    assert_eq!(world.keys(), ["new"]);
    world.check();
}

#[test]
fn membership_is_for_good() {
    let mut world = pool(1, 64 * KIB);
    world.put_member("grouped", KIB, "g").unwrap();
    world.put("plain", KIB).unwrap();
    let cases = [
        ("grouped", "g", Ok(())),
        ("grouped", "", Ok(())),
        ("grouped", "h", Err(ErrorCode::InvalidParams)),
        ("plain", "g", Err(ErrorCode::InvalidParams)),
        ("plain", "", Ok(())),
        ("free", "g", Ok(())),
    ];
    for (key, group, expected) in cases {
        assert_eq!(upsert(&mut world, key, group), expected, "{key} {group}");
        world.check();
    }
    world.get("free").unwrap();
    assert_eq!(world.remove("grouped", false), Err(ErrorCode::ObjectHasLease), "it is one still");
    assert_eq!(world.meta.stats().groups, 1);
}

#[test]
fn a_running_put_is_no_reason_to_spare_its_group_and_stays() {
    let mut world = pool(1, 48 * KIB);
    world.put_member("a", 16 * KIB, "g").unwrap();
    let put = PutItem { group: "g", ..PutItem::new("b", 16 * KIB) };
    let running = world.begin(ALICE, put, ReplicateConfig::default(), PutMode::Insert).unwrap();
    world.put("x", 16 * KIB).unwrap();
    world.put("new", 16 * KIB).unwrap();
    assert_eq!(world.keys(), ["new", "x"]);
    world.check();
    assert_eq!(world.end(ALICE, "b", &running.what, 0), Ok(()));
    assert_eq!(world.revoke(ALICE, "b", &running.what), Err(ErrorCode::InvalidWrite));
    world.check();
}

#[test]
fn names_that_are_too_long_are_refused() {
    let mut world = pool(1, 64 * KIB);
    let longest = "g".repeat(limits::MAX_GROUP_BYTES);
    let long = "g".repeat(limits::MAX_GROUP_BYTES + 1);
    assert!(world.put_member("a", 1, &longest).is_ok());
    assert_eq!(world.put_member("b", 1, &long), Err(ErrorCode::InvalidParams));
}

#[test]
fn what_a_group_does_not_hold_begins_another_of_its_name() {
    let mut world = pool(1, 4 << 20);
    let key = |number: usize| format!("{number:04}");
    for number in 0..=limits::MAX_GROUP_OBJECTS {
        world.put_member(&key(number), KIB, "g").unwrap();
    }
    assert_eq!(world.meta.stats().groups, 2);
    let last = key(limits::MAX_GROUP_OBJECTS);
    world.get(&key(0)).unwrap();
    assert_eq!(world.remove(&key(1), false), Err(ErrorCode::ObjectHasLease));
    assert_eq!(upsert(&mut world, &last, "g"), Ok(()), "its group has the same name");
    assert_eq!(world.remove(&last, false), Ok(()), "it is not leased with the others");
    world.advance(5_000);
    for number in 0..limits::MAX_GROUP_OBJECTS {
        assert_eq!(world.remove(&key(number), false), Ok(()));
    }
    assert_eq!(world.meta.stats().groups, 0);
    world.put_member("again", KIB, "g").unwrap();
    world.check();
}
