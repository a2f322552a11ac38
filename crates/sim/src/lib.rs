//! Whole clusters in one thread and in virtual time, for tests. The master's state machine, the operations and
//! memberships of clients, and the segment machines of nodes are the real ones. Network, clocks and processes between
//! them are simulated, and fail.
//!
//! A run follows from its seed. Enter at [`run`]: it makes a cluster ([`Scenario`]) and drives it through some hundred
//! events. Meanwhile connections break, messages are late, and processes die or are paused. Then the faults stop, and
//! the cluster must recover. On the way the run looks for violations:
//!
//! - a byte that changes in a range whose ledger entry is complete (L1);
//! - an entry that is complete without its bytes (L2);
//! - an older leader that is obeyed (L3);
//! - bytes of an older writer over those of a newer one (L7), also if they come one-sided and arbitrarily late;
//! - a write into a range that the master gave to another object;
//! - a read whose bytes are not all of one version, or whose version was removed or replaced before the read began;
//! - an acknowledged object that is gone, although nobody removed, replaced or evicted it and its node lives;
//! - a put with which a tenant has more than its quota allows;
//! - an invariant of the master that does not hold;
//! - an operation that never ends, a node that is not mounted again, an object that is held and cannot be read.
//!
//! Each byte of the simulated memory names its version and its place there. The simulation does not cover races
//! between threads within one event, real sockets or real memory.

#![forbid(unsafe_code)]

mod beat;
mod check;
mod clock;
mod end;
mod errand;
mod extents;
mod fault;
mod fiber;
mod follow;
mod history;
mod host;
mod hot;
mod ids;
mod intern;
mod key;
mod lead;
mod lending;
mod log;
mod master;
mod member;
mod message;
mod moves;
mod near_read;
mod net;
mod node;
mod one_sided;
mod operator;
mod promises;
mod published;
mod quotas;
mod run_state;
mod scenario;
mod service;
mod store;
mod survival;
mod task;
mod term;
mod transfer;
mod verbs;
mod watched;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use log::Detail;
pub use run_state::{Tally, Violation};
pub use scenario::{Kind, Scenario};

use world::World;

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// A hash of all that happened: runs that differ have different hashes. `None` with [`Detail::Nothing`].
    pub hash: Option<u64>,
    /// How many events there were until the faults ended, and until the run ended.
    pub events: (u64, u64),
    /// How operations ended.
    pub tally: Tally,
    /// The first violation, if there was any.
    pub violation: Option<Violation>,
}

/// Runs a cluster through `events` events with faults, or [more](Scenario::events) with rivals, and then to its end.
#[must_use]
pub fn run(seed: u64, kind: Kind, events: u64, detail: Detail) -> Report {
    let mut world = World::new(seed, kind, events, detail);
    let drive = |world: &mut World| {
        world.settle();
        while world.run_state.event < world.scenario.events && world.run_state.violation.is_none() {
            world.step();
        }
        let event = world.run_state.event;
        if world.run_state.violation.is_none() {
            world.converge();
        }
        (0..world.masters.len()).for_each(|number| world.end_term(number));
        event
    };
    let driven = catch_unwind(AssertUnwindSafe(|| drive(&mut world)));
    let ended_at = driven.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        world.run_state.blame("nothing panics", text.unwrap_or_default());
        world.run_state.event
    });
    let World { run_state, .. } = world;
    Report {
        hash: run_state.log.hash(),
        events: (ended_at, run_state.event),
        tally: run_state.tally,
        violation: run_state.violation,
    }
}
