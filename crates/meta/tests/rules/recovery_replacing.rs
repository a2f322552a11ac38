//! A new leader finds versions that replaced older ones, which absent nodes may still hold.

use mooncake_meta::Config;
use mooncake_types::{InventoryEntry, MountOutcome, Remains, Reply, Request};

use crate::KIB;
use crate::recovery::{
    A, B, chain, entry, leader, marked, mount, mounted, page, record, recover, report,
};
use crate::world::{ALICE, BOB, World};

/// The attributes that accompany the writes of an upsert of an existing `k`.
fn beside_another() -> Vec<u8> {
    let mut old = World::new(Config::default());
    old.mount(ALICE, 1, 256 * KIB).unwrap();
    let plain = old.put("k", KIB).unwrap().what;
    assert_eq!(plain.attributes, [0u8; 0]);
    old.upsert(ALICE, "k", KIB).unwrap().what.attributes
}

/// A leader whose predecessor led A and B. A has reported version 2.
fn led_by_a(attributes: &[u8]) -> World {
    let mut world = leader(&[A, B]);
    recover(&mut world, A, &[InventoryEntry { attributes, ..entry("k", 0, KIB, 2) }]);
    world
}

#[test]
fn it_waits_until_all_have_reported() {
    let mut world = led_by_a(&beside_another());
    assert_eq!(chain(&mut world, "k"), [0u64; 0], "B may hold what readers have routes to");
    recover(&mut world, B, &[entry("k", 0, KIB, 1)]);
    assert_eq!(chain(&mut world, "k"), [1, 2]);
}

#[test]
fn it_waits_until_nobody_believes_who_has_not_reported() {
    let mut world = led_by_a(&beside_another());
    world.advance(5_000);
    assert_eq!(chain(&mut world, "k"), [0u64; 0], "the next leader may believe B");
    assert_eq!(record(&mut world), [marked(B)]);
    assert_eq!(chain(&mut world, "k"), [2], "no route is left, and B is not believed any more");
}

#[test]
fn it_waits_as_well_if_the_older_one_was_removed_and_its_node_has_not_dropped_it() {
    let mut old = World::new(Config::default());
    old.mount(ALICE, 1, 256 * KIB).unwrap();
    old.put("k", KIB).unwrap();
    let request = Request::Remove { keys: vec!["k"], force: true };
    let Reply::Remaining { remains, .. } = old.ask(BOB, &request) else { panic!("it is there") };
    assert_ne!(remains, Remains::default());
    let attributes = old.put("k", KIB).unwrap().what.attributes;
    let mut world = led_by_a(&attributes);
    assert_eq!(chain(&mut world, "k"), [0u64; 0]);
}

#[test]
fn what_is_older_is_not_believed_after_it_is_lost() {
    for (reported, expected) in [(1, vec![]), (2, vec![2])] {
        let mut world = led_by_a(&beside_another());
        world.advance(5_000);
        record(&mut world);
        assert_eq!(chain(&mut world, "k"), [2]);
        world.unmount(ALICE, 1, 0).expect("it is Alice's");
        record(&mut world);
        assert_eq!(chain(&mut world, "k"), [0u64; 0]);
        assert_eq!(mount(&mut world, B, false), mounted(MountOutcome::WantsInventory));
        assert_eq!(report(&mut world, page(B, 0, &[entry("k", 0, KIB, reported)])), Ok(()));
        assert_eq!(chain(&mut world, "k"), expected, "version {reported} is left");
    }
}

/// Otherwise a reader that was sent to A for version 1 goes on to version 2 once that entry is dropped. Later it would
/// read version 1 at B.
#[test]
fn a_replica_of_what_was_replaced_is_not_named_to_readers_that_may_know_what_replaced_it() {
    let mut world = leader(&[A, B]);
    world.advance(5_000);
    assert_eq!(record(&mut world), [marked(A), marked(B)]);
    recover(&mut world, A, &[entry("k", 0, KIB, 1), entry("k", KIB, KIB, 2)]);
    assert_eq!(chain(&mut world, "k"), [1, 2]);
    recover(&mut world, B, &[entry("k", 0, KIB, 1)]);
    let request = Request::GetReplicaList { keys: vec!["k"] };
    let Reply::Located { results, .. } = world.ask(BOB, &request) else { panic!("it is there") };
    let first = results[0].as_ref().expect("it is there");
    assert_eq!((first.version.counter, first.placements.len()), (1, 1), "{first:?}");
}
