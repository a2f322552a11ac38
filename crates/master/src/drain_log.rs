//! Lines of the log about drain jobs: their beginning, progress and end.

use std::collections::BTreeSet;

use mooncake_meta::Meta;
use mooncake_types::{DrainId, DrainReport, DrainStatus, Tick};
use tracing::{info, warn};

use crate::summary::size;

/// Time between two lines about a job that runs.
const PERIOD_MS: u64 = 10_000;

/// Which lines were logged, and when the next are due.
#[derive(Debug, Default)]
pub(crate) struct DrainLog {
    begun: BTreeSet<DrainId>,
    due: Option<Tick>,
}

impl DrainLog {
    /// When the next lines are due; `None` if no job runs.
    pub(crate) fn due(&self) -> Option<Tick> {
        self.due
    }

    /// Logs what is new.
    pub(crate) fn note(&mut self, now: Tick, meta: &mut Meta) {
        let is_due = self.due.is_some_and(|due| due <= now);
        let running = meta.running_drains();
        for job in &running {
            if self.begun.insert(job.id) {
                info!(job = %job.id, segments = ?job.segments, units = job.remaining_units,
                    bytes = size(job.remaining_bytes), "a drain begins");
            } else if is_due {
                progress(job);
            }
        }
        for job in meta.take_ended_drains() {
            self.begun.remove(&job.id);
            ended(&job);
        }
        if running.is_empty() {
            self.due = None;
        } else if is_due || self.due.is_none() {
            self.due = Some(now.after_ms(PERIOD_MS));
        }
    }
}

/// Why a job that runs moves nothing at the moment, if it does not.
pub(crate) fn stall(job: &DrainReport) -> Option<String> {
    let is_stalled = !job.status.has_ended() && job.active_units == 0 && job.failed_units > 0;
    is_stalled.then(|| {
        format!(
            "{} replicas have nowhere to go: no segment that takes puts has room, and a drain evicts nothing; add a \
             node, or cancel the job",
            job.failed_units
        )
    })
}

fn progress(job: &DrainReport) {
    if let Some(why) = stall(job) {
        warn!(job = %job.id, segments = ?job.segments, "{why}");
        return;
    }
    info!(
        job = %job.id,
        segments = ?job.segments,
        moved = job.moved_units,
        moved_bytes = size(job.moved_bytes),
        failed = job.failed_units,
        blocked = job.blocked_units,
        active = job.active_units,
        remaining = job.remaining_units,
        "a drain goes on"
    );
}

fn ended(job: &DrainReport) {
    let line = format!(
        "{} ({} units moved, {}, {} let go, {} left, {:.1} s)",
        job.message,
        job.moved_units,
        size(job.moved_bytes),
        job.released_units,
        job.remaining_units,
        job.created_ms_ago as f64 / 1_000.0
    );
    match job.status {
        DrainStatus::Failed => warn!(job = %job.id, segments = ?job.segments, "{line}"),
        _ => info!(job = %job.id, segments = ?job.segments, "{line}"),
    }
}
