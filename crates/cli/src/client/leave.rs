//! The last thing that a node does for its pool: others take over what it holds.

use std::time::{Duration, Instant};

use mooncake_client::Store;
use mooncake_types::{ByteSize, DrainReport, DrainStatus};
use tracing::{info, warn};

use crate::stop_signal::SecondSignal;

/// Time between two lines about how far it is.
const PERIOD: Duration = Duration::from_secs(1);
/// How long puts that have begun are waited for when nothing else is left: their writers may have died.
const LAST_PUTS: Duration = Duration::from_secs(2);

/// Has what lies in the store's segments moved to others, until it is done, the time is over or another signal comes. What
/// stays here is lost, and the log says how much that is.
pub(super) fn hand_over(store: &Store, patience: Duration, again: &SecondSignal) {
    let begun = Instant::now();
    let (mut told, mut held) = (begun, begun);
    let drained = store.drain(patience, |report| {
        if told.elapsed() >= PERIOD {
            told = Instant::now();
            info!(
                moved = report.moved_units,
                bytes = %ByteSize(report.moved_bytes),
                remaining = report.remaining_units,
                "other nodes take over what lies here"
            );
        }
        if report.remaining_units > 0 || report.status != DrainStatus::Running {
            held = Instant::now();
        }
        held.elapsed() < LAST_PUTS && !again.has_come()
    });
    match drained {
        Ok(report) => tell(&report, begun.elapsed(), again),
        Err(code) => warn!(%code, "nobody takes over what lies here, and it is lost"),
    }
}

fn tell(report: &DrainReport, took: Duration, again: &SecondSignal) {
    let moved = report.moved_units;
    let (bytes, seconds) = (ByteSize(report.moved_bytes), took.as_secs_f32());
    if report.status == DrainStatus::Succeeded {
        if moved > 0 || report.released_units > 0 {
            info!(moved, %bytes, seconds, "other nodes have taken over all that lay here");
        }
        return;
    }
    if report.remaining_units == 0 {
        return;
    }
    let reason = if again.has_come() { "told to end at once" } else { &*report.message };
    warn!(moved, %bytes, lost = report.remaining_units, seconds, reason,
        "not everything could be handed over in time; the rest is lost with this node");
}
