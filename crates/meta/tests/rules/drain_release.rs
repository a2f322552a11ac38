//! Replicas that a drain releases without moving them.

use mooncake_meta::Config;
use mooncake_types::{DrainId, DrainStatus, SegmentId};

use crate::KIB;
use crate::drain::{A, B, C, CAROL, drain, put_on, tally, world, world_with};
use crate::world::{ALICE, BOB, World};

/// A full pool: `k` has replicas on A and B, and C is full.
fn fill(world: &mut World) {
    put_on(world, "k", 16 * KIB, &[A, B]);
    put_on(world, "c", 60 * KIB, &[C]);
}

/// The segments to which a reader of `k` is sent.
fn named(world: &mut World) -> Vec<String> {
    let found = world.get("k").expect("a replica can be read all the time");
    let name = |segment: u32| found.segments[segment as usize].name.to_string();
    let mut names: Vec<String> = found.what.placements.iter().map(|it| name(it.segment)).collect();
    names.sort();
    names
}

/// Reads `k` until the job has ended, or for this many steps of 100 ms. Returns each new list of segments that the
/// reader was sent to.
fn read_until_over(world: &mut World, id: DrainId, steps: u32) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for _ in 0..steps {
        let names = named(world);
        if all.last() != Some(&names) {
            all.push(names);
        }
        world.check();
        if tally(world, id).0.has_ended() {
            break;
        }
        world.advance(100);
        world.ping(ALICE, &[]);
        world.ping(BOB, &[]);
        world.ping(CAROL, &[]);
    }
    all
}

#[test]
fn what_is_read_all_the_time_is_let_go_once_readers_go_elsewhere() {
    let mut world = world();
    fill(&mut world);
    world.get("k").expect("it is there, and leased now");
    let began = world.now;
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(tally(&world, id), (DrainStatus::Running, 0, 0, 0));
    let named = read_until_over(&mut world, id, 200);
    assert_eq!(named, [[B]], "nobody is sent to what is to go");
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 0, 1, 0));
    let lease_ms = Config::default().lease_ttl_ms;
    assert!(world.now.since_ms(began) >= lease_ms, "readers of before have a route to it");
    world.check();
}

#[test]
fn what_is_to_be_let_go_is_named_again_while_nothing_else_can_be_read() {
    let mut world = world();
    fill(&mut world);
    world.get("k").expect("it is there, and leased now");
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(named(&mut world), [B]);
    world.advance(100);
    world.disconnect(BOB);
    assert_eq!(named(&mut world), [A]);
    world.ping(BOB, &[SegmentId(2)]);
    let named_at = world.now;
    read_until_over(&mut world, id, 200);
    assert_eq!(tally(&world, id), (DrainStatus::Succeeded, 0, 1, 0));
    assert!(world.now.since_ms(named_at) >= Config::default().lease_ttl_ms, "it had a new reader");
}

#[test]
fn what_was_to_be_let_go_is_named_again_when_the_job_is_canceled() {
    let mut world = world_with(Config::default());
    fill(&mut world);
    world.get("k").expect("it is there, and leased now");
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(named(&mut world), [B]);
    world.meta.cancel_drain(world.now, id).expect("it runs");
    assert_eq!(named(&mut world), [A, B]);
    world.check();
}
