//! Objects: the records of keys, versions, replicas and ranges, and the requests that change them.
//!
//! An object is made of [ranges](record), replica by replica. The [index](index) leads from a key to the one object
//! that holds it. Puts [beside](upsert) that object are kept apart until they end. Each range of a finished object is
//! in one [queue](queue) of its segment, where eviction finds it.
//!
//! Other modules read all records ([`Records`]), and change them through the functions of this module. These insert
//! an object, append a replica, free replicas, give a key, lease and drop.
//!
//! Invariants (`check`): the index finds an object by its key exactly if the object holds the key. Every replica has
//! all bytes of the object. A range is in the queue of its state. Queues of leased ranges are in the order in which
//! the leases end, or less than a lease apart.

mod by_key;
mod check;
mod class;
mod clear;
mod extras;
mod group;
mod groups;
mod index;
mod insert;
mod losses;
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
pub(crate) use self::class::{CLASSES, Class, Side, Stamp, mix_hash};
pub(crate) use self::extras::Extras;
pub(crate) use self::groups::Groups;
pub(crate) use self::index::{Hashed, Index, SHARDS, check_key, shard};
pub use self::pattern::{MatchedKeys, Patterns, UnmatchedKeys};
pub(crate) use self::queue::Queue;
pub(crate) use self::record::{
    Asked, EXTRA_PLACE, Object, ObjectState, PINNED_PLACES, PLAIN_PLACES, Pin, QueueKind, Range,
    SEGMENT_QUEUES, SINKING_PLACE, TOMBSTONE_PLACE,
};
pub(crate) use self::records::Records;
pub(crate) use self::soft_pins::SoftPins;
