//! Objects: the records of keys, versions, replicas and ranges, and the requests that change them.
//!
//! An object is made of [ranges](record), replica by replica. The [index](index) leads from a key to the one object that
//! holds it; puts that run [beside](upsert) it are kept apart until they end. Each range of a finished object stands in one
//! [queue](queue) of its segment, in which eviction finds it.
//!
//! Others read all records ([`Records`]), and change them by what this room offers: insert an object, append a replica,
//! free replicas, give a key, lease, drop.
//!
//! Invariants (`check`): an object is found by its key if it holds it. Every replica holds the whole object. A range stands in
//! the queue of its state. Queues of the leased are in the order of their leases, or less than a lease apart.

mod by_key;
mod check;
mod class;
mod clear;
mod extras;
mod group;
mod groups;
mod index;
mod insert;
mod object;
mod pattern;
mod pin;
mod put;
mod queue;
mod read;
mod record;
mod records;
mod remove;
mod replicas;
mod scan;
mod soft_pins;
mod upsert;

pub(crate) use self::by_key::ByKey;
pub(crate) use self::class::{CLASSES, Class, Side, Stamp, scatter};
pub(crate) use self::extras::Extras;
pub(crate) use self::groups::Groups;
pub(crate) use self::index::{Hashed, Index, SHARDS, check_key, shard};
pub(crate) use self::pattern::Patterns;
pub(crate) use self::queue::Queue;
pub(crate) use self::record::{
    Asked, EXTRA_PLACE, Object, ObjectState, PINNED_PLACES, PLAIN_PLACES, Pin, QueueKind, Range,
    SEGMENT_QUEUES, SINKING_PLACE, TOMBSTONE_PLACE,
};
pub(crate) use self::records::Records;
pub(crate) use self::soft_pins::SoftPins;
