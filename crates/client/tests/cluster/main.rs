//! A whole pool in one thread and in virtual time: the real master's state machine, real ledgers, real operations and
//! memberships, and everything between them unreliable. Whatever happens, a get may only end in the right bytes, a
//! miss or an error.
//!
//! A run follows from one number, which is printed; `MOONCAKE_TEST_SEED` repeats it.

mod actor;
mod cached;
mod carry;
mod cell;
mod get;
mod histories;
mod history;
mod key;
mod moves;
mod node;
mod pool;
mod put;
mod task;

use actor::Actor;
use mooncake_types::{Chance, ClientId};
use pool::Pool;

const NODES: usize = 3;
const PURE_CLIENTS: u128 = 3;
const STEPS: u64 = 60_000;

/// What is allowed to go wrong.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    /// Calls to the master get lost, one in this many; zero for none.
    pub(crate) lost_call_in: u64,
    /// Nodes die and come back, connections to them break, one in this many steps.
    pub(crate) node_in: u64,
    /// The master stops, and comes back knowing nothing, one in this many steps.
    pub(crate) master_in: u64,
    /// A client falls asleep in the middle of a write, one in this many steps of one.
    pub(crate) stall_in: u64,
    /// Everybody loses up to a second, one in this many steps.
    pub(crate) jump_in: u64,
    /// A client that lends nothing dies in the middle of whatever it does, one in this many steps.
    pub(crate) death_in: u64,
}

const CALM: Faults =
    Faults { lost_call_in: 0, node_in: 0, master_in: 0, stall_in: 0, jump_in: 0, death_in: 0 };

struct World {
    pool: Pool,
    actors: Vec<Actor>,
}

impl World {
    fn new(start: u64) -> Self {
        let mut pool = Pool::new(NODES, Chance::new(start));
        pool.settle();
        let mut actors: Vec<Actor> = (0..NODES).map(|node| Actor::embedded(node, &pool)).collect();
        for client in (0..PURE_CLIENTS).map(|number| ClientId(u128::MAX - number)) {
            pool.add_pure_client(client);
            actors.push(Actor::pure(client));
        }
        Self { pool, actors }
    }

    fn step(&mut self, faults: &Faults) {
        self.pool.step(faults);
        for (index, actor) in self.actors.iter_mut().enumerate() {
            if index < NODES {
                actor.follow_node(index, &mut self.pool);
            }
        }
        let count = self.actors.len() as u64;
        let chosen = self.pool.chance.below(count) as usize;
        if self.pool.happens(faults.death_in) {
            // Those whose nodes die follow them.
            let pure = self.actors.len() - NODES;
            let index = NODES + self.pool.chance.below(pure as u64) as usize;
            self.actors[index].be_another(&mut self.pool);
        }
        let actor = &mut self.actors[chosen];
        if actor.is_writing() && self.pool.happens(faults.stall_in) {
            actor.stall(&mut self.pool);
        }
        actor.step(&mut self.pool, faults);
    }

    /// After the faults: everything that was begun ends, and the pool works.
    fn recover(&mut self) {
        self.pool.heal();
        for actor in &mut self.actors {
            actor.wake();
        }
        // What a node that is gone may hold is waited for until the master has buried it, or for half a minute.
        for _ in 0..40_000 {
            if self.actors.iter().all(Actor::is_idle) {
                break;
            }
            self.pool.step(&CALM);
            for actor in &mut self.actors {
                actor.finish_step(&mut self.pool);
            }
        }
        assert!(self.actors.iter().all(Actor::is_idle), "an operation never ended");
        // What unfinished puts held is free after a while.
        for _ in 0..100 {
            self.pool.now = self.pool.now.after_ms(1_000);
            self.pool.step(&CALM);
        }
        for actor in &mut self.actors {
            actor.prove_life(&mut self.pool);
        }
    }
}

fn run(start: u64, faults: &Faults) -> pool::Tally {
    println!("MOONCAKE_TEST_SEED={start}");
    let mut world = World::new(start);
    for _ in 0..STEPS {
        world.step(faults);
    }
    world.recover();
    println!("{:?}", world.pool.tally);
    world.pool.tally
}

fn starts() -> Vec<u64> {
    match std::env::var("MOONCAKE_TEST_SEED") {
        Ok(text) => vec![text.parse().expect("MOONCAKE_TEST_SEED is a number")],
        Err(_) => (0..3).map(|run| u64::from(std::process::id()) * 10 + run).collect(),
    }
}

/// Runs under these faults from every start; the gets that were right must be more than `least` in each, so that it
/// is known to have been a trial. Gives the number of writes that nodes refused.
fn run_all(faults: &Faults, least: u64) -> u64 {
    let mut refused_writes = 0;
    for start in starts() {
        let tally = run(start, faults);
        assert!(tally.right > least && tally.missed > 0, "{tally:?}");
        assert!(tally.sessions > 0, "{tally:?}");
        refused_writes += tally.refused_writes;
    }
    println!("{refused_writes} refused writes");
    refused_writes
}

#[test]
fn a_pool_without_faults_fails_no_get() {
    for start in starts() {
        let tally = run(start, &CALM);
        assert!(tally.right > 500 && tally.failed_gets.is_empty(), "{tally:?}");
        assert!(tally.sessions > 0 && tally.held_reads > 0 && tally.carried > 0, "{tally:?}");
    }
}

#[test]
fn nodes_that_die_or_vanish_cost_misses_and_errors_and_no_wrong_byte() {
    run_all(&Faults { node_in: 300, lost_call_in: 100, jump_in: 300, ..CALM }, 200);
}

#[test]
fn writers_that_sleep_until_their_ranges_are_others_harm_nobody() {
    let refused_writes = run_all(&Faults { stall_in: 25, jump_in: 300, ..CALM }, 30);
    assert!(refused_writes > 0, "no sleeper ever met a range that was another's");
}

#[test]
fn a_master_that_comes_back_knowing_nothing_costs_misses_and_no_wrong_byte() {
    let faults = Faults {
        master_in: 2_000,
        lost_call_in: 200,
        stall_in: 100,
        node_in: 1_000,
        jump_in: 300,
        ..CALM
    };
    let refused_writes = run_all(&faults, 50);
    assert!(refused_writes > 0, "no grant of an old master was ever refused");
}
