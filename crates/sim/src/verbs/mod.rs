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
pub(crate) use remove::{is_matched, remove};
pub(crate) use routes::{Routes, renew};

use crate::key::some_keys;
use crate::run_state::RunState;
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
pub(crate) fn random(doer: &Doer<'_>, run_state: &mut RunState) -> Task {
    if run_state.reads_mostly && run_state.chance.below(3) > 0 {
        return get::random(doer, run_state);
    }
    match run_state.chance.below(40) {
        0..10 => put::random(run_state),
        10..14 => put::session(run_state),
        14..26 => get::random(doer, run_state),
        26 => prefix::count(run_state),
        27..30 => get::session(doer.own, run_state),
        30..33 => carry::create(doer.names, run_state),
        33 => remove::clear(doer.names, run_state),
        34 => remove::some(run_state),
        _ => {
            let (keys, force) =
                (some_keys(&mut run_state.chance, run_state.keys), run_state.chance.below(3) > 0);
            remove(keys, force, run_state)
        }
    }
}
