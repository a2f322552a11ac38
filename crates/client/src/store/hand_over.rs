//! Before a node leaves its pool, other nodes take over its objects.

use std::cell::Cell;
use std::time::{Duration, Instant};

use mooncake_types::{ByteSize, DrainReport, DrainStatus, ErrorCode};
use tracing::{info, warn};

use super::Store;

/// Time between two log lines on the progress.
const PERIOD: Duration = Duration::from_secs(1);
/// How long to wait for unfinished puts when nothing else is left: their writers may have died.
const LAST_PUTS: Duration = Duration::from_secs(2);

impl Store {
    /// As [`Store::drain`], for a store that is about to be closed. The log reports the progress and the losses.
    /// Waits at most two seconds for unfinished puts alone. `goes_on` ends it by returning false.
    ///
    /// # Errors
    /// Those of [`Store::drain`]. [`ErrorCode::NoAvailableHandle`] if the others have no room for all of it, and
    /// [`ErrorCode::RpcTimeout`] if it was ended before all was moved.
    pub fn hand_over(
        &self,
        patience: Duration,
        goes_on: impl Fn() -> bool,
    ) -> Result<(), ErrorCode> {
        let begun = Instant::now();
        let (mut told, mut held) = (begun, begun);
        let was_told_to_end = Cell::new(false);
        let drained = self.drain(patience, |report| {
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
            was_told_to_end.set(!goes_on());
            held.elapsed() < LAST_PUTS && !was_told_to_end.get()
        });
        match drained {
            Ok(report) => tell(&report, begun.elapsed(), was_told_to_end.get()),
            Err(code) => {
                warn!(%code, "no node takes over what lies here, and it is lost");
                Err(code)
            }
        }
    }
}

fn tell(report: &DrainReport, took: Duration, was_told_to_end: bool) -> Result<(), ErrorCode> {
    let moved = report.moved_units;
    let (bytes, took_ms) = (ByteSize(report.moved_bytes), took.as_millis());
    if report.status == DrainStatus::Succeeded {
        if moved > 0 || report.released_units > 0 {
            info!(moved, %bytes, took_ms, "other nodes have taken over all that lay here");
        }
        return Ok(());
    }
    if report.remaining_units == 0 {
        return Ok(());
    }
    let reason = if was_told_to_end { "told to end at once" } else { &*report.message };
    warn!(moved, %bytes, lost = report.remaining_units, took_ms, reason,
        "not everything could be handed over; the rest is lost with this node");
    match report.status {
        DrainStatus::Failed => Err(ErrorCode::NoAvailableHandle),
        _ => Err(ErrorCode::RpcTimeout),
    }
}
