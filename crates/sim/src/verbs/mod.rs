//! The operations that clients run.

mod ask;
mod carry;
mod content;
mod get;
mod lend;
mod prefix;
mod put;
mod remove;
mod routes;

use mooncake_types::{SegmentId, Tick};

pub(crate) use carry::fetch;
pub(crate) use get::get;
pub(crate) use lend::{come, drain, outlast_promises, stay_away, unmount};
pub(crate) use put::put;
pub(crate) use remove::remove;
pub(crate) use routes::{Routes, renew};

use crate::desk::RunRecord;
use crate::key::some_keys;
use crate::task::Task;

/// The client that runs an operation: its own segments, its cached routes and its clock.
pub(crate) struct Doer<'a> {
    pub(crate) own: &'static [SegmentId],
    pub(crate) routes: &'a Routes,
    pub(crate) now: Tick,
    /// The names of segments in the pool.
    pub(crate) names: &'a [&'static str],
}

/// A random operation.
pub(crate) fn random(doer: &Doer<'_>, desk: &mut RunRecord) -> Task {
    if desk.reads_mostly && desk.chance.below(3) > 0 {
        return get::random(doer, desk);
    }
    match desk.chance.below(40) {
        0..10 => put::random(desk),
        10..14 => put::session(desk),
        14..26 => get::random(doer, desk),
        26 => prefix::count(desk),
        27..30 => get::session(doer.own, desk),
        30..33 => carry::create(doer.names, desk),
        33 => remove::clear(doer.names, desk),
        34 => remove::some(desk),
        _ => {
            let (keys, force) = (some_keys(&mut desk.chance, desk.keys), desk.chance.below(3) > 0);
            remove(keys, force, desk)
        }
    }
}
