//! How far drain jobs are.

use mooncake_types::{DrainId, DrainReport, DrainStatus, SegmentId};

use super::job::{Drain, Stage};
use crate::Meta;
use crate::objects::{REPLACED_PLACE, SEGMENT_QUEUES};

impl Drain {
    fn message(&self) -> String {
        let failures = || -> String {
            let reasons = self.pass.failures.iter();
            let reasons: Vec<String> =
                reasons.map(|(reason, count)| format!("{reason}: {count}")).collect();
            reasons.join(", ")
        };
        let gone: Vec<&str> =
            self.sources.iter().filter(|it| it.stage == Stage::Gone).map(|it| &*it.name).collect();
        match self.status {
            DrainStatus::Created => "Drain job created".to_owned(),
            DrainStatus::Canceled => "Drain job canceled".to_owned(),
            DrainStatus::Succeeded => "Drain job finished successfully".to_owned(),
            DrainStatus::Failed if !gone.is_empty() => {
                format!("Drain job failed: {} left the pool before all was moved", gone.join(", "))
            }
            DrainStatus::Failed => {
                format!("Drain job failed: unrecoverable units remain ({})", failures())
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
    /// How far a job is; none if this leader knows of no such job.
    #[must_use]
    pub fn drain(&self, id: DrainId) -> Option<DrainReport> {
        self.drains.find(id).map(|number| self.report_drain(number))
    }

    /// Whether jobs run, or have ended since [`Meta::take_ended_drains`] was last asked.
    #[must_use]
    pub fn has_drains(&self) -> bool {
        self.drains.running() > 0 || self.drains.has_news()
    }

    /// The jobs that run.
    #[must_use]
    pub fn running_drains(&self) -> Vec<DrainReport> {
        let running = self.drains.iter().filter(|(_, job)| !job.status.has_ended());
        running.map(|(number, _)| self.report_drain(number)).collect()
    }

    /// The jobs that have ended since this was last asked; a hundred are kept at most.
    pub fn take_ended_drains(&mut self) -> Vec<DrainReport> {
        let news = self.drains.take_news();
        news.into_iter().map(|number| self.report_drain(number)).collect()
    }

    pub(crate) fn report_drain(&self, number: u32) -> DrainReport {
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
            remaining_units: slots().map(|slot| self.finished_ranges(slot)).sum(),
            remaining_bytes: slots().map(|slot| self.segments[slot].allocator.used()).sum(),
            message: job.message(),
        }
    }

    /// Ranges of finished objects on a segment.
    pub(crate) fn finished_ranges(&self, slot: u32) -> u64 {
        let queues = &self.segments[slot].queues;
        let counted = (0..SEGMENT_QUEUES).filter(|&place| place != REPLACED_PLACE);
        counted.map(|place| u64::from(queues[place].len)).sum()
    }

    /// The last job that drained a segment, running or ended.
    pub(crate) fn last_drain_of(&self, id: SegmentId) -> Option<u32> {
        let drains = |job: &Drain| job.sources.iter().any(|source| source.id == id);
        self.drains.iter().rev().find(|(_, job)| drains(job)).map(|(number, _)| number)
    }
}
