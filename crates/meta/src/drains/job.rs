//! The records of drain jobs.
//!
//! A job goes over the ranges of its segments in passes, as many at a time as a turn [may](crate::effort). Each pass
//! tries every replica there once. The job fails after [`MOST_FAILED_PASSES`] passes with replicas that cannot be moved. It fails after
//! the first of these passes if there is no target segment at all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use mooncake_types::{DrainId, DrainStatus, SegmentId, Tick};

use super::marks::DrainMarks;
use super::withheld::Withheld;

/// Number of passes with replicas that cannot be moved, after which a job fails.
pub(super) const MOST_FAILED_PASSES: u32 = 3;
/// Number of ended jobs that can still be queried.
const MAX_ENDED: usize = 100;

/// One job.
#[derive(Debug)]
pub(crate) struct Drain {
    pub(super) id: DrainId,
    pub(super) status: DrainStatus,
    pub(super) sources: Vec<Source>,
    /// Names of the segments to move to. If empty, all segments that take puts.
    pub(super) targets: Vec<String>,
    pub(super) max_concurrency: usize,
    pub(super) created: Tick,
    pub(super) updated: Tick,
    /// The tasks that move its units. Each has the segment that it writes to, once that is chosen.
    pub(super) active: BTreeMap<u64, Option<SegmentId>>,
    /// The place of each segment in `sources`.
    pub(super) places: BTreeMap<SegmentId, usize>,
    /// The range that the walk checks next.
    pub(super) cursor: WalkCursor,
    /// A node asked to drain its own segments, and has not been told the end yet.
    pub(super) is_awaited: bool,
    /// The job waits for its timer.
    pub(super) is_resting: bool,
    /// The next turn begins a new pass.
    pub(super) begins_anew: bool,
    pub(super) pass: Pass,
    pub(super) failed_passes: u32,
    /// How often moves to a segment failed. Segments with fewer failures are tried first.
    pub(super) faults: BTreeMap<SegmentId, u32>,
    pub(super) moved: u64,
    pub(super) moved_bytes: u64,
    pub(super) released: u64,
}

/// A range on a segment of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WalkCursor {
    /// The place of the segment in the job's `sources`.
    pub(super) source: usize,
    /// The number of the range on its segment.
    pub(super) number: usize,
}

/// A segment that a job drains.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(super) id: SegmentId,
    pub(super) name: Arc<str>,
    pub(super) stage: SourceStage,
}

/// The progress on a segment of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceStage {
    Draining,
    /// No replica is left there.
    Drained,
    /// The segment left the pool before all replicas were moved.
    Gone,
}

/// The results of one pass so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    /// Number of units that could not be moved, by the reason.
    pub(super) failures: BTreeMap<String, u64>,
    /// Number of units that cannot be moved yet.
    pub(super) blocked: u64,
    /// Number of ranges that it has checked.
    pub(super) ranges: u64,
    /// Slots with ranges of unfinished objects, which may become finished.
    pub(super) unfinished: BTreeSet<u32>,
}

impl Pass {
    pub(super) fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    pub(super) fn fail(&mut self, reason: String) {
        *self.failures.entry(reason).or_default() += 1;
    }
}

impl Drain {
    /// The progress on a segment, if the job drains it.
    pub(super) fn stage_of(&self, id: SegmentId) -> Option<SourceStage> {
        Some(self.sources[*self.places.get(&id)?].stage)
    }

    /// Whether the pass has checked all ranges.
    pub(super) fn is_pass_over(&self) -> bool {
        self.cursor.source >= self.sources.len()
    }

    /// Whether the job has work before one of its tasks ends or its timer fires.
    fn has_work(&self) -> bool {
        let walks = !self.is_pass_over() && self.active.len() < self.max_concurrency;
        let is_over = self.is_pass_over() && self.active.is_empty();
        !self.status.has_ended() && !self.is_resting && (walks || is_over)
    }
}

/// All jobs, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    pub(super) jobs: BTreeMap<u32, Drain>,
    /// The last job over each segment, running or ended.
    last: BTreeMap<SegmentId, u32>,
    /// Jobs that have work now.
    pub(super) awake: BTreeSet<u32>,
    /// The job that had the last turn, so that all jobs get turns.
    pub(super) served: u32,
    /// Ended jobs, oldest first.
    pub(super) ended: VecDeque<u32>,
    /// Jobs that ended since the shell last asked.
    pub(super) ended_unreported: Vec<u32>,
    pub(super) created: u32,
    pub(super) withheld: Withheld,
    pub(super) marks: DrainMarks,
}

impl Drains {
    pub(crate) fn has_work(&self) -> bool {
        !self.awake.is_empty()
    }

    pub(crate) fn running(&self) -> usize {
        self.jobs.len() - self.ended.len()
    }

    /// All jobs, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Drain)> {
        self.jobs.iter().map(|(&number, job)| (number, job))
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Drain> {
        self.jobs.get(&number)
    }

    /// The record of a job, which must exist.
    pub(crate) fn job(&mut self, number: u32) -> &mut Drain {
        self.jobs.get_mut(&number).expect("the job is known")
    }

    pub(crate) fn find(&self, id: DrainId) -> Option<u32> {
        // The number is the lower part of the id.
        let number = id.0 as u32;
        self.jobs.get(&number).filter(|job| job.id == id).map(|_| number)
    }

    /// Notes the segment that a task of a job writes to.
    pub(crate) fn note_target(&mut self, number: u32, task: u64, target: SegmentId) {
        self.job(number).active.insert(task, Some(target));
    }

    /// Forgets withheld replicas of an object (bits) that are gone.
    pub(crate) fn forget_withheld(&mut self, object: u32, set: u32) {
        self.withheld.forget(object, set);
    }

    /// The timer of a job has fired.
    pub(crate) fn wake(&mut self, number: u32) {
        if let Some(job) = self.jobs.get_mut(&number).filter(|job| !job.status.has_ended()) {
            job.is_resting = false;
            if std::mem::take(&mut job.begins_anew) {
                (job.cursor, job.pass) = (WalkCursor::default(), Pass::default());
            }
            self.awake.insert(number);
        }
    }

    /// The job whose turn it is.
    pub(super) fn next_awake(&mut self) -> Option<u32> {
        let after = self.awake.range(self.served.saturating_add(1)..).next();
        self.served = *after.or_else(|| self.awake.first())?;
        Some(self.served)
    }

    /// Notes whether a job has work.
    pub(crate) fn note_work(&mut self, number: u32) {
        match self.jobs[&number].has_work() {
            true => self.awake.insert(number),
            false => self.awake.remove(&number),
        };
    }

    /// The last job over a segment, running or ended.
    pub(super) fn last_of(&self, id: SegmentId) -> Option<u32> {
        self.last.get(&id).copied()
    }

    /// Adds a job, which has work.
    pub(super) fn insert(&mut self, number: u32, job: Drain) {
        self.last.extend(job.sources.iter().map(|source| (source.id, number)));
        self.jobs.insert(number, job);
        self.awake.insert(number);
    }

    fn forget(&mut self, number: u32) {
        let Some(job) = self.jobs.remove(&number) else { return };
        for source in job.sources {
            if self.last.get(&source.id) == Some(&number) {
                self.last.remove(&source.id);
            }
        }
    }

    /// The running job over a segment, if there is one.
    pub(super) fn of_segment(&self, id: SegmentId) -> Option<u32> {
        self.last_of(id).filter(|number| !self.jobs[number].status.has_ended())
    }

    /// Remembers an ended job, so that its result can be queried, and forgets the oldest one above the limit.
    pub(super) fn remember(&mut self, number: u32) {
        self.awake.remove(&number);
        self.ended_unreported.push(number);
        self.ended.push_back(number);
        // Tasks that still run report to their job, so it is kept.
        let is_idle = |jobs: &BTreeMap<u32, Drain>, job: u32| jobs[&job].active.is_empty();
        while self.ended.len() > MAX_ENDED
            && let Some(&oldest) = self.ended.front()
            && is_idle(&self.jobs, oldest)
        {
            self.ended.pop_front();
            self.ended_unreported.retain(|&other| other != oldest);
            self.forget(oldest);
        }
    }
}
