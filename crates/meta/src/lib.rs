//! The master's state machine: which objects there are, where their replicas lie, who may read, write and evict
//! them, and which segments the pool is made of.
//!
//! It is pure: no I/O, no clock, no thread, no chance but a seeded generator. A request goes in with the moment at
//! which it came, a reply comes out; what time alone brings about is done by [`Meta::handle_timeout`]. A test can
//! drive it a million steps a second and replay every one.
//!
//! Enter at [`Meta`], in `meta`. Each folder is a room, and its `mod.rs` says what it holds and which invariants it keeps:
//!
//! | room | holds |
//! |---|---|
//! | `objects` | keys, versions, replicas; put, read, remove; groups and pins |
//! | `segments` | segments and the clients that lend them; mounts, sight, the membership record |
//! | `placement` | which ranges a new replica gets |
//! | `eviction` | which replica goes when there is no room |
//! | `tombstones` | entries that nodes may still hold and that must go; memory that nobody owns |
//! | `tasks` | copies and moves that clients carry out |
//! | `drains` | jobs that empty segments |
//! | `replication` | replicas that were lost, or that reads make worth having |
//! | `tiers` | which objects are copied to disks, and back to memory |
//! | `recovery` | what a new leader hears and believes |
//! | `key_events` | which keys moved to other tiers, or went, for subscribers outside of the pool |
//! | `check` | the invariants of all of them |
//!
//! Costs: a look-up, a grant and an eviction each touch only the objects that they are about. The queues in which
//! objects stand are threaded through their records.

#![forbid(unsafe_code)]

mod check;
mod config;
mod counters;
mod drains;
mod eviction;
mod key_events;
mod meta;
mod notice;
mod notify;
mod objects;
mod placement;
mod recovery;
mod replication;
mod report;
mod segments;
mod slab;
mod stats;
mod tasks;
mod tiers;
mod timeout;
mod timer;
mod tombstones;

pub use check::Violation;
pub use config::{AllocatorKind, Config, EvictionPolicy, Replication, ReplicationMode, Strategy};
pub use counters::{Copies, Counters};
pub use key_events::{KeyEvent, Tiers};
pub use meta::Meta;
pub use notice::Notice;
pub use recovery::{Senseless, Shadow};
pub use report::{Awaited, KeyReport, SegmentReport};
pub use segments::{Effect, Member, RecordedMembers};
pub use stats::Stats;
pub use tombstones::{Remnant, RemnantCursor};
