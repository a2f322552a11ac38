//! Whole clusters in one thread and in virtual time, for tests: the real state machine of the master, the real
//! operations and memberships of clients, the real machines of nodes; and between them a network, clocks and processes
//! that fail.
//!
//! A run follows from one number. Enter at [`run`]: it makes a cluster ([`Scenario`]), drives it through some hundred
//! events while connections break, messages are late and processes die or stand still, then stops the faults and waits
//! until everything has come right. On the way it looks for what must never be:
//!
//! - a byte that changes in a range whose ledger entry is complete (L1), an entry that is complete without its bytes
//!   (L2), an older leader that is obeyed (L3), an older writer's bytes on a newer one's (L7);
//! - a write into a range that the master gave to another object;
//! - a read whose bytes are not all of one version, or of one that was removed or replaced before it began;
//! - an invariant of the master that does not hold;
//! - an operation that never ends, a node that is not mounted again, an object that is there and cannot be read.
//!
//! Values describe themselves: each byte of the simulated memory says which byte of which version it is. What the
//! simulation cannot see: threads of one process that meet within one event, real sockets, real memory.

#![forbid(unsafe_code)]

mod beat;
mod check;
mod clock;
mod desk;
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
mod operator;
mod published;
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

pub use desk::{Tally, Violation};
pub use log::Detail;
pub use scenario::{Kind, Scenario};

use world::World;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// A number that two runs share only if the same happened in them; only of runs that [were written down](Detail).
    pub hash: Option<u64>,
    /// Events until the faults ended, and until the end of the run.
    pub events: (u64, u64),
    /// How operations ended.
    pub tally: Tally,
    /// What was wrong, if anything was.
    pub violation: Option<Violation>,
}

/// Runs a cluster through `events` events with faults, some runs through [more](Scenario::events), and then to its end.
#[must_use]
pub fn run(seed: u64, kind: Kind, events: u64, detail: Detail) -> Report {
    let mut world = World::new(seed, kind, events, detail);
    let drive = |world: &mut World| {
        world.settle();
        while world.desk.event < world.scenario.events && world.desk.violation.is_none() {
            world.step();
        }
        let event = world.desk.event;
        if world.desk.violation.is_none() {
            world.converge();
        }
        (0..world.masters.len()).for_each(|number| world.end_term(number));
        event
    };
    let driven = catch_unwind(AssertUnwindSafe(|| drive(&mut world)));
    let ended_at = driven.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        world.desk.blame("nothing panics", text.unwrap_or_default());
        world.desk.event
    });
    let World { desk, .. } = world;
    Report {
        hash: desk.log.hash(),
        events: (ended_at, desk.event),
        tally: desk.tally,
        violation: desk.violation,
    }
}
