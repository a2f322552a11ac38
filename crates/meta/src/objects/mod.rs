//! Objects: the records of keys, versions, replicas and ranges, and the requests that change them.
//!
//! A key leads to at most one object that holds it ([`upsert`] keeps the puts that run beside it). An object is made of
//! ranges, replica by replica. Each range of a finished object stands in one queue of its segment, in which eviction finds it.

mod clear;
pub(crate) mod group;
mod index;
mod object;
mod pattern;
mod pin;
mod put;
mod queue;
mod read;
mod record;
mod remove;
mod upsert;

pub(crate) use self::group::Groups;
pub(crate) use self::index::{Index, SHARDS, shard};
pub(crate) use self::pattern::Patterns;
pub(crate) use self::pin::SoftPins;
pub(crate) use self::queue::Queue;
pub(crate) use self::record::{
    Asked, EXTRA_PLACE, Object, ObjectState, PINNED_PLACES, PLAIN_PLACES, Pin, QueueKind,
    REPLACED_PLACE, Range, SEGMENT_QUEUES,
};
pub(crate) use self::upsert::{Beside, MOST_BESIDE};
