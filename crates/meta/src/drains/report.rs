//! Reports the progress of drain jobs.

use mooncake_types::{DrainId, DrainReport, DrainStatus, ErrorCode};

use super::job::{Drain, SourceStage};
use crate::Meta;

impl Drain {
    fn message(&self) -> String {
        let failures = || -> String {
            let reasons = self.pass.failures.iter();
            let reasons: Vec<String> =
                reasons.map(|(reason, count)| format!("{reason}: {count}")).collect();
            reasons.join(", ")
        };
        let gone: Vec<&str> = self
            .sources
            .iter()
            .filter(|it| it.stage == SourceStage::Gone)
            .map(|it| &*it.name)
            .collect();
        match self.status {
            DrainStatus::Created => "Drain job created".to_owned(),
            DrainStatus::Canceled => "Drain job canceled".to_owned(),
            DrainStatus::Succeeded => "Drain job finished successfully".to_owned(),
            DrainStatus::Failed if !gone.is_empty() => {
                format!("Drain job failed: {} left the pool before all was moved", gone.join(", "))
            }
            DrainStatus::Failed => {
                let full = ErrorCode::NoAvailableHandle.to_string();
                let remedy = match self.pass.failures.contains_key(&full) {
                    true => {
                        "; no segment that takes puts has room, and a drain evicts nothing: add a node"
                    }
                    false => "",
                };
                format!("Drain job failed: unrecoverable units remain ({}){remedy}", failures())
            }
            DrainStatus::Planning | DrainStatus::Running if self.pass.failures.is_empty() => {
                "Drain job running".to_owned()
            }
            DrainStatus::Planning | DrainStatus::Running => {
                format!("Drain job running ({})", failures())
            }
        }
    }
}

impl Meta {
    /// The progress of a job. `None` if this leader knows no such job.
    #[must_use]
    pub fn drain(&self, id: DrainId) -> Option<DrainReport> {
        self.drains.find(id).map(|number| self.report_drain(number))
    }

    /// The progress of all running jobs.
    #[must_use]
    pub fn running_drains(&self) -> Vec<DrainReport> {
        if self.drains.running() == 0 {
            return Vec::new();
        }
        let running = self.drains.iter().filter(|(_, job)| !job.status.has_ended());
        running.map(|(number, _)| self.report_drain(number)).collect()
    }

    /// The progress of all jobs that can be queried, ended ones included, in the order of their creation.
    #[must_use]
    pub fn drain_jobs(&self) -> Vec<DrainReport> {
        self.drains.iter().map(|(number, _)| self.report_drain(number)).collect()
    }

    /// Takes the jobs that have ended since the last call, a hundred at most.
    pub fn take_ended_drains(&mut self) -> Vec<DrainReport> {
        let ended_unreported = std::mem::take(&mut self.drains.ended_unreported);
        ended_unreported.into_iter().map(|number| self.report_drain(number)).collect()
    }

    pub(super) fn report_drain(&self, number: u32) -> DrainReport {
        let job = self.drains.get(number).expect("the job is known");
        let slots = || job.sources.iter().filter_map(|source| self.segments.find(source.id));
        DrainReport {
            id: job.id,
            status: job.status,
            created_ms_ago: self.now.since_ms(job.created),
            updated_ms_ago: self.now.since_ms(job.updated),
            segments: job.sources.iter().map(|source| source.name.to_string()).collect(),
            moved_units: job.moved,
            moved_bytes: job.moved_bytes,
            released_units: job.released,
            failed_units: job.pass.failed(),
            blocked_units: job.pass.blocked,
            active_units: job.active.len() as u64,
            remaining_units: slots().map(|slot| self.segments[slot].finished_ranges()).sum(),
            remaining_bytes: slots().map(|slot| self.segments[slot].allocator.used()).sum(),
            message: job.message(),
        }
    }
}
