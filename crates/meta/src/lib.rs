//! The master's state machine: which objects there are, where their replicas lie, who may read, write and evict
//! them, and which segments the pool is made of.
//!
//! It is pure: no I/O, no clock, no thread, no chance but a seeded generator. A request goes in with the moment at
//! which it came, a reply comes out; what time alone brings about is done by [`Meta::handle_timeout`]. A test can
//! drive it a million steps a second and replay every one.
//!
//! Enter at [`Meta`]. Each file is one verb or noun of the master: `put`, `read`, `remove`, `place`, `evict`,
//! `mount`, `outrank`, `recover`, `inventory`, `review`, `shadow`, `replacing`, `replay`, `listing`, `tombstones`, `removal`, `sight`, `timeout`, `pin`, `upsert`, `group`, `clear`, `drain`, `drain_walk`, `drain_move`, `drain_release`, `suspension`, `task_create`, `task_fetch`, `task_end`, `repair`, `replicate`; `record` has what is kept for each object, `closed` why a segment takes no puts;
//! `class`, `reuse` and `ghosts` have what eviction knows about the use of objects; `check` has the invariants.
//!
//! Costs: a look-up, a grant and an eviction each touch only the objects that they are about. The queues in which
//! objects stand are threaded through their records.

#![forbid(unsafe_code)]

mod allowance;
mod attributes;
mod check;
mod class;
mod clear;
mod clients;
mod closed;
mod config;
mod disowned;
mod drain;
mod drain_move;
mod drain_release;
mod drain_report;
mod drain_walk;
mod evict;
mod ghosts;
mod group;
mod heat;
mod index;
mod inventory;
mod listing;
mod members;
mod meta;
mod mount;
mod notice;
mod object;
mod outrank;
mod pattern;
mod pieces;
mod pin;
mod place;
mod put;
mod queue;
mod read;
mod record;
mod recover;
mod remains;
mod removal;
mod remove;
mod repair;
mod replacing;
mod replay;
mod replicas;
mod replicate;
mod reply;
mod report;
mod retract;
mod reuse;
mod review;
mod rng;
mod rooms;
mod scatter;
mod segments;
mod shadow;
mod sight;
mod slab;
mod stats;
mod suspension;
mod target;
mod task;
mod task_create;
mod task_end;
mod task_fetch;
mod timeout;
mod tombstones;
mod upsert;
mod window;

pub use check::Violation;
pub use config::{AllocatorKind, Config, Replication, ReplicationMode, Strategy};
pub use members::{Effect, Member, Record};
pub use meta::Meta;
pub use notice::Notice;
pub use removal::{Remnant, RemnantCursor};
pub use report::{Awaited, KeyReport, SegmentReport};
pub use shadow::{Senseless, Shadow};
pub use stats::{Counters, Stats};
