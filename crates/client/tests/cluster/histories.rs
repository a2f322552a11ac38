//! Many short lives of a small pool, whose clients read by routes that they know while others put, upsert and remove:
//! no read may return what was removed or replaced before it began, and none may miss what was there all the time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::pool::Tally;
use crate::{CALM, Faults, World};

const STEPS: u64 = 1_200;

/// Few, so that clients meet at them.
const FEW_KEYS: usize = 4;

#[derive(Clone, Copy)]
struct Life {
    faults: Faults,
    judges_misses: bool,
    skips_drops: bool,
}

const SOUND: Life = Life { faults: CALM, judges_misses: true, skips_drops: false };

fn live(start: u64, life: &Life) -> Tally {
    let mut world = World::new(start);
    let pool = &mut world.pool;
    (pool.keys, pool.judges_misses) = (FEW_KEYS, life.judges_misses);
    pool.skips_drops = life.skips_drops;
    for _ in 0..STEPS {
        world.step(&life.faults);
    }
    world.pool.tally
}

/// Starts of random lives: as many as `MOONCAKE_TEST_LIVES` says; `MOONCAKE_TEST_SEED` repeats one.
fn starts(count: u64) -> Vec<u64> {
    match std::env::var("MOONCAKE_TEST_SEED") {
        Ok(text) => vec![text.parse().expect("MOONCAKE_TEST_SEED is a number")],
        Err(_) => {
            let first = u64::from(std::process::id()) << 20;
            let wanted = std::env::var("MOONCAKE_TEST_LIVES").ok();
            let count = wanted.map_or(count, |text| text.parse().expect("a number"));
            (first..first + count).collect()
        }
    }
}

fn live_all(count: u64, life: &Life) {
    let (mut hits, mut drops, mut right) = (0, 0, 0);
    let starts = starts(count);
    let count = starts.len() as u64;
    for start in starts {
        let lived = catch_unwind(AssertUnwindSafe(|| live(start, life)));
        let tally = lived.unwrap_or_else(|_| panic!("MOONCAKE_TEST_SEED={start} repeats it"));
        hits += tally.hits;
        drops += tally.drops;
        right += tally.right;
    }
    println!(
        "{count} lives: {right} reads were right, {hits} began with a known route, {drops} drops"
    );
    assert!(count == 1 || (hits > count && drops > count), "{hits} hits, {drops} drops");
}

#[test]
fn reads_by_known_routes_are_linearizable() {
    live_all(200, &SOUND);
}

#[test]
fn they_are_when_messages_are_lost_and_clients_die_in_the_middle() {
    let faults = Faults { lost_call_in: 20, death_in: 60, stall_in: 20, jump_in: 100, ..CALM };
    live_all(200, &Life { faults, ..SOUND });
}

#[test]
fn they_are_when_nodes_die_and_vanish() {
    let faults = Faults { lost_call_in: 40, death_in: 100, node_in: 100, jump_in: 300, ..CALM };
    live_all(200, &Life { faults, judges_misses: false, ..SOUND });
}

/// The test of the test: it must notice that nodes drop nothing.
#[test]
fn without_drops_somebody_reads_what_was_removed_or_replaced() {
    let life = Life { skips_drops: true, ..SOUND };
    let fails = |start: u64| {
        let Err(cause) = catch_unwind(AssertUnwindSafe(|| live(start, &life))) else {
            return false;
        };
        let text = cause.downcast_ref::<String>().expect("a message with values");
        assert!(text.contains("was read after"), "{text}");
        true
    };
    let failed = (0..100).filter(|&start| fails(start)).count();
    assert!(failed > 10, "{failed} of 100");
}
