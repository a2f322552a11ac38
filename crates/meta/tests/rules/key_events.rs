//! The events for subscribers that follow the tiers of keys.

use mooncake_meta::{Config, KeyEvent, KeyLabels, Tiers};
use mooncake_types::{Medium, PutItem, PutMode, ReplicateConfig};

use crate::pool;
use crate::tiers::{LEN, alone, carry_out};
use crate::world::{ALICE, BOB, World};

const MEMORY: Tiers = Tiers { memory: true, disk: false };
const BOTH: Tiers = Tiers { memory: true, disk: true };

fn event(key: &str, before: Tiers, now: Tiers) -> KeyEvent {
    KeyEvent { key: key.into(), before, now, labels: KeyLabels::default() }
}

/// The pending events, sorted by key.
fn told(world: &mut World) -> Vec<KeyEvent> {
    let mut events = world.meta.take_key_events();
    events.sort_by(|one, other| one.key.cmp(&other.key));
    assert_eq!(world.meta.take_key_events(), []);
    events
}

#[test]
fn nobody_is_told_who_does_not_follow() {
    let mut world = pool(1, 64 * LEN);
    world.put("a", LEN).expect("there is room");
    assert_eq!(world.meta.take_key_events(), []);
    assert_eq!(world.meta.take_key_events(), []);
}

#[test]
fn who_begins_to_follow_is_told_of_what_is_there() {
    let mut world = pool(1, 64 * LEN);
    world.put("a", LEN).expect("there is room");
    let waiting = world.start(ALICE, "b", LEN).expect("there is room");
    world.meta.record_key_events();
    assert_eq!(told(&mut world), [event("a", Tiers::NONE, MEMORY)]);
    assert_eq!(world.end(ALICE, "b", &waiting.what, 0), Ok(()));
    assert_eq!(told(&mut world), [event("b", Tiers::NONE, MEMORY)]);
    assert_eq!(world.remove("a", true), Ok(()));
    assert_eq!(told(&mut world), [event("a", MEMORY, Tiers::NONE)]);
    assert_eq!(told(&mut world), []);
}

#[test]
fn what_stays_where_it_was_is_no_news() {
    let mut world = pool(1, 64 * LEN);
    world.meta.record_key_events();
    world.put("a", LEN).expect("there is room");
    assert_eq!(told(&mut world).len(), 1);
    let newer = world.upsert(BOB, "a", 2 * LEN).expect("there is room");
    assert_eq!(world.end(BOB, "a", &newer.what, 0), Ok(()));
    assert_eq!(told(&mut world), []);
    assert_eq!(world.remove("a", true), Ok(()));
    world.put("a", LEN).expect("there is room");
    assert_eq!(told(&mut world), []);
    // A key that came and went between two fetches causes no event.
    world.put("b", LEN).expect("there is room");
    assert_eq!(world.remove("b", true), Ok(()));
    assert_eq!(told(&mut world), []);
}

#[test]
fn an_object_on_a_disk_is_told_of_there() {
    let mut world = alone(Config::default());
    world.meta.record_key_events();
    world.put("a", LEN).expect("there is room");
    assert_eq!(told(&mut world), [event("a", Tiers::NONE, MEMORY)]);
    assert!(!carry_out(&mut world, ALICE).is_empty());
    assert_eq!(told(&mut world), [event("a", MEMORY, BOTH)]);
    let media: Vec<Medium> = crate::tiers::media(&mut world, "a");
    assert_eq!(media.len(), 2);
    assert_eq!(world.meta.key_page(0, 10), (vec![event("a", Tiers::NONE, BOTH)], None));
}

#[test]
fn who_follows_is_told_of_groups_and_sessions_for_as_long_as_their_objects_are_there() {
    let mut world = pool(1, 64 * LEN);
    world.meta.record_key_events();
    let put = |world: &mut World, group, session| {
        let item = PutItem { group, session, ..PutItem::new("a", LEN) };
        let config = ReplicateConfig::default();
        let grant = world.begin(ALICE, item, config, PutMode::Upsert).expect("there is room");
        assert_eq!(world.end(ALICE, "a", &grant.what, 0), Ok(()));
    };
    put(&mut world, "g", "s");
    let labels = KeyLabels { group: "g".into(), session: "s".into() };
    let stored = KeyEvent { labels, ..event("a", Tiers::NONE, MEMORY) };
    assert_eq!(world.meta.key_page(0, 10), (vec![stored.clone()], None));
    assert_eq!(told(&mut world), [stored]);
    assert_eq!(world.remove("a", true), Ok(()));
    assert_eq!(told(&mut world), [event("a", MEMORY, Tiers::NONE)]);
    put(&mut world, "", "");
    assert_eq!(told(&mut world), [event("a", Tiers::NONE, MEMORY)], "the next object has its own");
    world.check();
}
