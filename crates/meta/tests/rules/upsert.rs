//! Upserts: the old version stays until the new one ends.

use mooncake_types::{
    ErrorCode, PutEnd, PutItem, PutMode, ReplicateConfig, Reply, Request, SoftPin,
};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool, soft};

fn upsert_with(world: &mut World, key: &str, config: ReplicateConfig<'_>, len: u64) {
    let placed = world.begin(BOB, PutItem::new(key, len), config, PutMode::Upsert).unwrap();
    assert_eq!(world.end(BOB, key, &placed.what, 0), Ok(()));
    world.check();
}

#[test]
fn readers_get_the_old_version_until_the_new_one_ends() {
    let mut world = pool(1, 64 * KIB);
    let old = world.put("k", KIB).unwrap();
    let new = world.upsert(BOB, "k", 2 * KIB).unwrap();
    assert!(new.what.version > old.what.version);
    assert_eq!(world.get("k").unwrap().what.version, old.what.version);
    world.check();
    assert_eq!(world.end(ALICE, "k", &new.what, 0), Err(ErrorCode::IllegalClient));
    assert_eq!(world.end(BOB, "k", &new.what, 0), Ok(()));
    let found = world.get("k").unwrap().what;
    assert_eq!((found.version, found.len), (new.what.version, 2 * KIB));
    assert_eq!(world.end(BOB, "k", &new.what, 0), Ok(()), "ending it twice is fine");
    assert_eq!(world.meta.stats().keys, 1);
    world.check();
}

#[test]
fn an_upsert_of_a_free_key_is_a_put() {
    let mut world = pool(1, 64 * KIB);
    let first = world.upsert(ALICE, "k", KIB).unwrap();
    assert_eq!(world.get("k"), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.start(BOB, "k", KIB), Err(ErrorCode::ObjectAlreadyExists));
    assert_eq!(world.end(ALICE, "k", &first.what, 0), Ok(()));
    assert_eq!(world.version("k"), Some(first.what.version));
    assert_eq!(world.meta.stats().used_bytes, KIB);
    world.check();
}

#[test]
fn a_writer_that_gives_up_or_dies_leaves_the_old_version() {
    let mut world = pool(2, 64 * KIB);
    let old = world.put("k", KIB).unwrap();
    let new = world.upsert(BOB, "k", KIB).unwrap();
    assert_eq!(world.revoke(BOB, "k", &new.what), Ok(()));
    assert_eq!(world.end(BOB, "k", &new.what, 0), Err(ErrorCode::ObjectNotFound));
    world.check();
    let new = world.upsert(BOB, "k", KIB).unwrap();
    assert_eq!(world.end(BOB, "k", &new.what, 1), Err(ErrorCode::ObjectNotFound), "all failed");
    let new = world.upsert(BOB, "k", KIB).unwrap();
    for _ in 0..4 {
        world.advance(8_000);
        world.ping(ALICE, &[]);
    }
    assert_eq!(world.end(BOB, "k", &new.what, 0), Err(ErrorCode::ObjectNotFound), "too late");
    assert_eq!(world.version("k"), Some(old.what.version));
    assert_eq!(world.meta.stats().reservations, 1);
    world.check();
}

/// The node may hold the complete entry. A later leader would find it once the newer version is removed.
#[test]
fn what_a_running_put_wrote_is_dropped_when_a_newer_one_ends() {
    let mut world = pool(1, 64 * KIB);
    let put = world.start(ALICE, "k", KIB).unwrap();
    let new = world.upsert(BOB, "k", KIB).unwrap();
    let ends =
        vec![PutEnd { key: "k", version: new.what.version, failed_replicas: 0, held_replicas: 0 }];
    let reply = world.ask(BOB, &Request::PutEnd { puts: ends });
    let Reply::Remaining { results, remains } = reply else { panic!("{reply:?}") };
    assert_eq!(results, [Ok(())]);
    let named: Vec<_> = remains.ranges.iter().map(|range| range.version).collect();
    assert_eq!(named, [put.what.version]);
    world.check();
}

#[test]
fn an_upsert_overtakes_a_running_put() {
    let mut world = pool(1, 64 * KIB);
    let put = world.start(ALICE, "k", KIB).unwrap();
    let new = world.upsert(BOB, "k", KIB).unwrap();
    assert_eq!(world.end(BOB, "k", &new.what, 0), Ok(()));
    assert_eq!(world.version("k"), Some(new.what.version));
    world.check();
    assert_eq!(world.meta.stats().used_bytes, 2 * KIB, "its writer is still at work");
    assert_eq!(world.end(ALICE, "k", &put.what, 0), Err(ErrorCode::ObjectAlreadyExists));
    assert_eq!(world.end(ALICE, "k", &put.what, 0), Err(ErrorCode::ObjectAlreadyExists));
    assert_eq!(world.version("k"), Some(new.what.version));
    assert_eq!(world.meta.stats().used_bytes, KIB);
    world.check();
}

#[test]
fn a_put_that_ends_first_is_replaced_by_the_upsert() {
    let mut world = pool(1, 64 * KIB);
    let put = world.start(ALICE, "k", KIB).unwrap();
    let new = world.upsert(BOB, "k", KIB).unwrap();
    assert_eq!(world.end(ALICE, "k", &put.what, 0), Ok(()));
    assert_eq!(world.version("k"), Some(put.what.version));
    assert_eq!(world.end(BOB, "k", &new.what, 0), Ok(()));
    assert_eq!(world.version("k"), Some(new.what.version));
    assert_eq!(world.meta.stats().used_bytes, KIB);
}

#[test]
fn a_put_whose_key_was_taken_after_its_time_came_too_late() {
    let mut world = pool(1, 64 * KIB);
    let late = world.start(ALICE, "k", KIB).unwrap();
    for _ in 0..4 {
        world.advance(8_000);
        world.ping(ALICE, &[]);
    }
    assert_eq!(world.end(ALICE, "k", &late.what, 0), Err(ErrorCode::ObjectNotFound));
    world.put("k", KIB).unwrap();
    assert_eq!(world.end(ALICE, "k", &late.what, 0), Err(ErrorCode::ObjectAlreadyExists));
}

#[test]
fn of_two_upserts_the_newer_wins_in_whatever_order_they_end() {
    for free in [false, true] {
        for newer_first in [false, true] {
            let mut world = pool(1, 64 * KIB);
            if !free {
                world.put("k", KIB).unwrap();
            }
            let older = world.upsert(ALICE, "k", KIB).unwrap();
            let newer = world.upsert(BOB, "k", KIB).unwrap();
            let both = [(ALICE, &older.what), (BOB, &newer.what)];
            let order = if newer_first { [1, 0] } else { [0, 1] };
            for place in order {
                let (writer, grant) = both[place];
                assert_eq!(world.end(writer, "k", grant, 0), Ok(()));
                world.check();
            }
            assert_eq!(world.version("k"), Some(newer.what.version), "{free} {newer_first}");
            assert_eq!(world.meta.stats().used_bytes, KIB);
        }
    }
}

#[test]
fn what_was_overtaken_never_comes_back() {
    let mut world = pool(1, 64 * KIB);
    let older = world.upsert(ALICE, "k", KIB).unwrap();
    let newer = world.upsert(BOB, "k", KIB).unwrap();
    assert_eq!(world.end(BOB, "k", &newer.what, 0), Ok(()));
    assert_eq!(world.remove("k", false), Ok(()));
    assert_eq!(world.end(ALICE, "k", &older.what, 0), Ok(()), "it was overwritten");
    assert_eq!(world.version("k"), None);
    assert_eq!(world.meta.stats().used_bytes, 0);
    world.check();
}

#[test]
fn the_end_of_an_upsert_comes_after_a_removal() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", KIB).unwrap();
    let new = world.upsert(BOB, "k", KIB).unwrap();
    assert_eq!(world.remove("k", false), Ok(()));
    world.check();
    assert_eq!(world.remove("k", false), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.get("k"), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.start(ALICE, "k", 1), Err(ErrorCode::ObjectAlreadyExists));
    assert_eq!(world.end(BOB, "k", &new.what, 0), Ok(()));
    assert_eq!(world.version("k"), Some(new.what.version));
    world.check();
}

#[test]
fn when_the_first_of_several_gives_up_the_next_one_holds_the_key() {
    let mut world = pool(1, 64 * KIB);
    let first = world.upsert(ALICE, "k", KIB).unwrap();
    let second = world.upsert(ALICE, "k", KIB).unwrap();
    let third = world.upsert(BOB, "k", KIB).unwrap();
    assert_eq!(world.revoke(ALICE, "k", &first.what), Ok(()));
    world.check();
    assert_eq!(world.get("k"), Err(ErrorCode::ReplicaIsNotReady));
    assert_eq!(world.end(BOB, "k", &third.what, 0), Ok(()));
    assert_eq!(world.end(ALICE, "k", &second.what, 0), Ok(()));
    assert_eq!(world.version("k"), Some(third.what.version));
    world.check();
}

#[test]
fn a_leased_old_version_keeps_its_ranges_until_its_lease_is_over() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 16 * KIB).unwrap();
    world.put("alive", 16 * KIB).unwrap();
    world.advance(1_000);
    world.get("k").unwrap();
    let new = world.upsert(BOB, "k", 16 * KIB).unwrap();
    assert_eq!(world.end(BOB, "k", &new.what, 0), Ok(()));
    let stats = world.meta.stats();
    assert_eq!((stats.leased_tombstones, stats.used_bytes, stats.keys), (1, 48 * KIB, 2));
    assert_eq!(world.remove("k", false), Ok(()), "nobody leased the new version");
    world.advance(4_999);
    assert_eq!(world.meta.stats().leased_tombstones, 1);
    world.check();
    world.advance(1);
    let stats = world.meta.stats();
    assert_eq!((stats.leased_tombstones, stats.used_bytes), (0, 16 * KIB));
    world.check();
}

#[test]
fn an_old_version_without_a_lease_is_free_at_once() {
    let mut world = pool(1, 64 * KIB);
    world.put("k", 16 * KIB).unwrap();
    world.get("k").unwrap();
    world.advance(5_000);
    let new = world.upsert(BOB, "k", KIB).unwrap();
    assert_eq!(world.end(BOB, "k", &new.what, 0), Ok(()));
    let stats = world.meta.stats();
    assert_eq!((stats.leased_tombstones, stats.used_bytes), (0, KIB));
}

#[test]
fn a_replaced_version_goes_with_its_segment() {
    let mut world = pool(1, 64 * KIB);
    world.mount(BOB, 2, 64 * KIB).unwrap();
    let on = |name: &'static str| ReplicateConfig {
        preferred_segments: vec![name],
        ..ReplicateConfig::default()
    };
    world.put_with(ALICE, "k", KIB, on("node-2:12345")).unwrap();
    world.get("k").unwrap();
    upsert_with(&mut world, "k", on("node-1:12345"), KIB);
    assert_eq!(world.unmount(BOB, 2, 0), Ok(()));
    world.timeouts();
    assert_eq!(world.meta.stats().leased_tombstones, 0);
    assert_eq!(world.meta.stats().counters.lost_keys, 0);
    world.advance(10_000);
    world.check();
}

#[test]
fn pins_pass_to_the_new_version_as_the_upsert_says() {
    // The first put comes 5 s before the upsert.
    let fixed = || soft(SoftPin::Enable { ttl_ms: Some(20_000) });
    let hard = || ReplicateConfig { hard_pin: true, ..ReplicateConfig::default() };
    let plain = ReplicateConfig::default;
    // The pins before the upsert, and the pins that it asks for. Whether the object is soft-pinned 0, 11, 16 and 21 s
    // later, and whether it can then be evicted.
    let cases = [
        ("preserve nothing", plain(), plain(), [false; 4], true),
        ("preserve a deadline", fixed(), plain(), [true, true, false, false], true),
        ("preserve a sliding pin", soft(SoftPin::Sliding), plain(), [true; 4], true),
        ("preserve a hard pin", hard(), plain(), [false; 4], false),
        ("disable", fixed(), soft(SoftPin::Disable), [false; 4], true),
        ("a new deadline", fixed(), fixed(), [true, true, true, false], true),
        ("a hard pin stays", hard(), fixed(), [false; 4], false),
        ("a hard pin is new", fixed(), hard(), [false; 4], false),
    ];
    for (name, before, says, pinned, evictable) in cases {
        let mut world = pool(1, 4 * KIB);
        world.put_with(ALICE, "k", KIB, before).unwrap();
        world.advance(5_000);
        upsert_with(&mut world, "k", says, KIB);
        let seen = [0, 11_000, 5_000, 5_000].map(|ms| {
            for _ in 0..ms / 1_000 {
                world.advance(1_000);
                world.ping(ALICE, &[]);
            }
            world.check();
            world.meta.stats().soft_pinned_keys == 1
        });
        assert_eq!(seen, pinned, "{name}");
        assert_eq!(world.put("large", 4 * KIB).is_ok(), evictable, "{name}");
    }
}

#[test]
fn a_pin_that_the_upsert_asked_for_wins_over_the_old_one() {
    let mut world = pool(1, 64 * KIB);
    world.put_with(ALICE, "k", KIB, soft(SoftPin::Enable { ttl_ms: Some(7_000) })).unwrap();
    let sliding = world.begin(
        BOB,
        PutItem::new("k", KIB),
        soft(SoftPin::Enable { ttl_ms: Some(60_000) }),
        PutMode::Upsert,
    );
    assert_eq!(world.end(BOB, "k", &sliding.unwrap().what, 0), Ok(()));
    for _ in 0..10 {
        world.advance(5_000);
        world.ping(ALICE, &[]);
    }
    assert_eq!(world.meta.stats().soft_pinned_keys, 1);
    world.check();
}

#[test]
fn an_upsert_whose_old_version_is_evicted_for_it_is_a_put() {
    let mut world = pool(1, 16 * KIB);
    world.put("k", 16 * KIB).unwrap();
    let new = world.upsert(BOB, "k", 16 * KIB).unwrap();
    assert_eq!(world.get("k"), Err(ErrorCode::ReplicaIsNotReady), "there was no room for both");
    world.check();
    assert_eq!(world.end(BOB, "k", &new.what, 0), Ok(()));
    world.get("k").unwrap();
    assert_eq!(world.upsert(BOB, "k", 16 * KIB), Err(ErrorCode::NoAvailableHandle));
    assert_eq!(world.version("k"), Some(new.what.version), "a leased one is not given up");
    world.check();
}

#[test]
fn more_than_64_upserts_beside_one_key_are_refused() {
    let mut world = pool(1, 1024 * KIB);
    world.put("k", 1).unwrap();
    for _ in 0..64 {
        assert!(world.upsert(BOB, "k", 1).is_ok());
    }
    assert_eq!(world.upsert(BOB, "k", 1), Err(ErrorCode::ObjectReplicaBusy));
    assert!(world.upsert(BOB, "other", 1).is_ok());
    world.check();
}
