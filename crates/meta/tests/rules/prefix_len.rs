//! The longest prefix of keys: which objects count, and which are leased.

use mooncake_types::{ErrorCode, ExistOptions, Reply, Request, limits};

use crate::world::{ALICE, BOB};
use crate::{KIB, pool};

#[test]
fn keys_count_up_to_the_first_that_is_not_there() {
    let mut world = pool(1, 64 * KIB);
    for key in ["a", "b", "d"] {
        world.put(key, KIB).unwrap();
    }
    world.start(ALICE, "begun", KIB).unwrap();
    for (keys, count) in [
        (vec![], 0),
        (vec!["none"], 0),
        (vec!["none", "a"], 0),
        (vec!["a", "b"], 2),
        (vec!["a", "b", "c", "d"], 2),
        (vec!["a", "a", "b", "a", "none"], 4),
        (vec!["a", "begun", "b"], 1),
    ] {
        assert_eq!(world.prefix_len(&keys), Ok(count), "{keys:?}");
    }
    world.check();
}

#[test]
fn what_counts_is_leased_and_nothing_behind_the_gap() {
    let mut world = pool(1, 64 * KIB);
    for key in ["a", "b", "d"] {
        world.put(key, KIB).unwrap();
    }
    for key in ["m", "n"] {
        world.put_member(key, KIB, "g").unwrap();
    }
    assert_eq!(world.prefix_len(&["a", "m", "b", "c", "d"]), Ok(3));
    for key in ["a", "b", "m", "n"] {
        assert_eq!(world.remove(key, false), Err(ErrorCode::ObjectHasLease), "{key}");
    }
    assert_eq!(world.remove("d", false), Ok(()));
    world.advance(5_001);
    assert_eq!(world.remove("a", false), Ok(()));
    world.check();
}

#[test]
fn what_counts_before_a_position_is_not_leased_and_outlives_what_was_used_before() {
    let mut world = pool(1, 4 * KIB);
    for key in ["a", "b", "c", "d"] {
        world.put(key, KIB).unwrap();
    }
    let keys = vec!["a", "b", "none"];
    let reply = world.ask(BOB, &Request::PrefixLen { keys, leased_from: 1 });
    assert_eq!(reply, Reply::PrefixLen(2));
    world.check();
    assert_eq!(world.remove("b", false), Err(ErrorCode::ObjectHasLease));
    world.put("e", KIB).unwrap();
    assert!(!world.exist("c"), "it was used longest ago");
    assert_eq!(world.remove("a", false), Ok(()), "it was not leased");
    world.check();
}

#[test]
fn a_probe_finds_what_is_there_and_changes_nothing() {
    let mut world = pool(1, 2 * KIB);
    for key in ["a", "b"] {
        world.put(key, KIB).unwrap();
    }
    let options = ExistOptions::PROBE;
    let reply = world.ask(BOB, &Request::ExistKey { keys: vec!["a", "none", ""], options });
    assert_eq!(reply, Reply::Exist(vec![Ok(true), Ok(false), Err(ErrorCode::InvalidKey)]));
    world.put("c", KIB).unwrap();
    assert!(!world.exist("a"), "the probe was no use of it");
    assert_eq!(world.remove("b", false), Ok(()));
    world.check();
}

#[test]
fn what_is_out_of_sight_does_not_count() {
    let mut world = pool(1, 64 * KIB);
    world.put("a", KIB).unwrap();
    world.disconnect(ALICE);
    let count = world.prefix_len(&["a"]).unwrap();
    assert_eq!((count, world.exist("a")), (0, false));
}

#[test]
fn keys_that_are_none_and_lists_that_are_too_long_are_refused() {
    let mut world = pool(1, 64 * KIB);
    world.put("a", KIB).unwrap();
    let long = "k".repeat(limits::MAX_KEY_BYTES + 1);
    assert_eq!(world.prefix_len(&["a", ""]), Err(ErrorCode::InvalidKey));
    assert_eq!(world.prefix_len(&[&long]), Err(ErrorCode::InvalidKey));
    assert_eq!(world.remove("a", false), Ok(()), "a refused request leases nothing");
    let keys = vec!["a"; limits::MAX_BATCH_KEYS + 1];
    let reply = world.ask(BOB, &Request::prefix_len(keys));
    assert_eq!(reply, Reply::Refused(ErrorCode::InvalidParams));
}
