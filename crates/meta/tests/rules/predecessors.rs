//! Older versions that nodes may still hold: readers drop them before they read.

use mooncake_types::{ErrorCode, Located, ReplicateConfig, Reply, Request, Version};

use crate::world::{ALICE, BOB, World};
use crate::{KIB, pool};

/// The versions that a lookup of these keys names, and each older version with the position of its key and its offset.
fn look_up(world: &mut World, keys: &[&str]) -> (Vec<Version>, Vec<(u32, u64, Version)>) {
    let reply = world.ask(BOB, &Request::GetReplicaList { keys: keys.to_vec() });
    world.check();
    let Reply::Located { results, predecessors, .. } = reply else { panic!("{reply:?}") };
    let version = |result: Result<Located, ErrorCode>| result.expect("it is there").version;
    let older = predecessors.into_iter().map(|(key, it)| (key, it.offset, it.version));
    (results.into_iter().map(version).collect(), older.collect())
}

fn on(name: &'static str) -> ReplicateConfig<'static> {
    ReplicateConfig { preferred_segments: vec![name], ..ReplicateConfig::default() }
}

#[test]
fn a_reader_is_told_what_a_writer_that_died_had_not_dropped() {
    let mut world = pool(1, 64 * KIB);
    let other = world.put("other", KIB).unwrap().what;
    let old = world.put("k", KIB).unwrap().what;
    let new = world.upsert(ALICE, "k", KIB).unwrap().what;
    assert_eq!(look_up(&mut world, &["k"]), (vec![old.version], vec![]), "it has not ended");
    world.advance(10_000);
    assert_eq!(world.end(ALICE, "k", &new, 0), Ok(()));
    let named = (1, old.placements[0].offset, old.version);
    for _ in 0..2 {
        let expected = (vec![other.version, new.version], vec![named]);
        assert_eq!(look_up(&mut world, &["other", "k"]), expected);
    }
    assert_eq!(world.fetch_drops(ALICE).len(), 1);
    assert_eq!(look_up(&mut world, &["k"]), (vec![new.version], vec![]));
}

#[test]
fn what_was_removed_precedes_what_is_put_anew_elsewhere() {
    let mut world = pool(1, 64 * KIB);
    let old = world.put("k", KIB).unwrap().what;
    world.put("behind it", KIB).unwrap();
    world.remove("k", false).unwrap();
    let new = world.put("k", 2 * KIB).unwrap().what;
    let named = (0, old.placements[0].offset, old.version);
    assert_eq!(look_up(&mut world, &["k"]), (vec![new.version], vec![named]));
    world.put("in its place", KIB).unwrap();
    assert_eq!(look_up(&mut world, &["k"]).1, [], "its node has dropped it for that");
}

#[test]
fn what_a_node_holds_that_would_start_empty_precedes_nothing() {
    let mut world = pool(1, 64 * KIB);
    world.mount(BOB, 2, 64 * KIB).expect("the segment is a new one");
    world.put_with(ALICE, "k", KIB, on("node-2:12345")).unwrap();
    world.remove("k", false).unwrap();
    let new = world.put_with(ALICE, "k", KIB, on("node-1:12345")).unwrap().what;
    assert_eq!(look_up(&mut world, &["k"]).1.len(), 1);
    world.disconnect(BOB);
    assert_eq!(look_up(&mut world, &["k"]), (vec![new.version], vec![]));
}
