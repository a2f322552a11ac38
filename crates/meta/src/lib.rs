//! The master's state machine. It records which objects exist, where their replicas lie, which leases and grants
//! hold, and which segments make up the pool.
//!
//! It is pure: it uses no I/O, no clock and no thread, and draws random numbers from a seeded generator only. A
//! request goes in with the time at which it arrived, and a reply comes out. [`Meta::handle_timeout`] does the work
//! that is due because time has passed. A test can take a million steps a second and replay each of them.
//!
//! Enter at [`Meta`], in `meta`. The `mod.rs` of each folder says what the folder holds and which invariants it
//! keeps:
//!
//! | folder | holds |
//! |---|---|
//! | `objects` | keys, versions, replicas; put, read, remove; groups and pins |
//! | `segments` | segments and the clients that lend them; mounts, which nodes are in sight, the membership record |
//! | `placement` | the ranges of a new replica |
//! | `eviction` | the choice of the replica that is evicted when there is no room |
//! | `tombstones` | entries that nodes may still hold and that must go; memory that is reserved for no object |
//! | `tenants` | what each tenant has in memory and may have; which tenant gives way |
//! | `tasks` | copies and moves that clients carry out |
//! | `drains` | jobs that empty segments |
//! | `replication` | new replicas in place of lost ones, and further replicas of objects that are read often |
//! | `tiers` | which objects are copied to disks, and back to memory |
//! | `recovery` | the reports of nodes to a new leader, and which of them it believes |
//! | `key_events` | events for subscribers outside of the pool: which keys moved to other tiers or lost all replicas |
//! | `check` | the invariants of all folders |
//!
//! Costs: a look-up, a grant and an eviction each touch only the objects that they are about. Queues link the range
//! records through fields of these records.

#![forbid(unsafe_code)]

mod check;
mod config;
mod counters;
mod drains;
mod effort;
mod eviction;
mod key_events;
mod meta;
mod notice;
mod notify;
mod objects;
mod obstacle;
mod placement;
mod recovery;
mod replication;
mod report;
mod segments;
mod slab;
mod stats;
mod tasks;
mod tenants;
mod tiers;
mod timeout;
mod timer;
mod tombstones;
mod touched;

pub use check::Violation;
pub use config::{AllocatorKind, Config, EvictionPolicy, Replication, ReplicationMode, Strategy};
pub use counters::{Copies, Counters, Evictions, TaskCounts};
pub use key_events::{KeyEvent, KeyLabels, Tiers};
pub use meta::Meta;
pub use notice::Notice;
pub use objects::{MatchedKeys, Patterns, UnmatchedKeys};
pub use obstacle::{ClosedSegments, KeptRanges, PutObstacle};
pub use recovery::{ImplausibleReport, Shadow};
pub use report::{Awaited, KeyReport, SegmentReport};
pub use segments::{Effect, Member, RecordedMembers, written_hash, written_hash_of_version};
pub use stats::Stats;
pub use tenants::{InvalidQuota, TenantQuota, TenantReport};
pub use tombstones::{Remnant, RemnantCursor};
#[cfg(debug_assertions)]
pub use touched::records_touched;
