//! Drain jobs: segments whose replicas are moved to others, so that their nodes can leave. This file keeps the jobs.
//!
//! A job goes over all ranges in passes, a bounded page at a time. In each pass a replica on its segments is tried once;
//! after [`MOST_FAILED_PASSES`] passes that left something that cannot be moved it has failed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use mooncake_types::{DrainId, DrainStatus, SegmentId, Tick};

use super::withheld::Withheld;

/// Passes that leave something that cannot be moved before a job gives up.
pub(super) const MOST_FAILED_PASSES: u32 = 3;
/// Jobs that have ended and can still be asked about.
const MAX_ENDED: usize = 100;

/// One job.
#[derive(Debug)]
pub(crate) struct Drain {
    pub(super) id: DrainId,
    pub(super) status: DrainStatus,
    pub(super) sources: Vec<Source>,
    /// Names of the segments to move to; empty: all that take puts.
    pub(super) targets: Vec<String>,
    pub(super) max_concurrency: usize,
    pub(super) created: Tick,
    pub(super) updated: Tick,
    /// The numbers of the tasks that move its units, each with the segment that it writes to once that is chosen.
    pub(super) active: BTreeMap<u64, Option<SegmentId>>,
    /// The range that is looked at next.
    pub(super) cursor: u32,
    /// The node that lends the segments asked for the drain, and has not been told yet how it ended.
    pub(super) is_awaited: bool,
    /// It waits for its timer.
    pub(super) is_resting: bool,
    /// The next turn begins a new pass.
    pub(super) begins_anew: bool,
    pub(super) pass: Pass,
    pub(super) failed_passes: u32,
    /// How often a move to a segment failed: those with fewer failures are tried first.
    pub(super) faults: BTreeMap<SegmentId, u32>,
    pub(super) moved: u64,
    pub(super) moved_bytes: u64,
    pub(super) released: u64,
}

/// A segment that is drained.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(super) id: SegmentId,
    pub(super) name: Arc<str>,
    pub(super) stage: SourceStage,
}

/// How far a segment of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceStage {
    Draining,
    /// Nothing is left there.
    Drained,
    /// It left the pool while something lay there.
    Gone,
}

/// What one pass over all ranges has come to so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    /// Units that could not be moved, by the reason.
    pub(super) failures: BTreeMap<String, u64>,
    /// Units that wait for something else.
    pub(super) blocked: u64,
    /// Slots on which something lies that is no finished object, and may become one.
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
    /// Whether it has something to do before a task of it ends or its timer fires.
    fn has_work(&self, end: u32) -> bool {
        let walks = self.cursor < end && self.active.len() < self.max_concurrency;
        let is_over = self.cursor >= end && self.active.is_empty();
        !self.status.has_ended() && !self.is_resting && (walks || is_over)
    }
}

/// All jobs, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    pub(super) jobs: BTreeMap<u32, Drain>,
    /// Jobs that have something to do now.
    pub(super) awake: BTreeSet<u32>,
    /// The job that was served last, so that all have their turns.
    pub(super) served: u32,
    /// Ended, oldest first.
    pub(super) ended: VecDeque<u32>,
    /// Ended since the shell last asked.
    pub(super) news: Vec<u32>,
    pub(super) created: u32,
    pub(super) withheld: Withheld,
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

    /// A job that is known.
    pub(crate) fn job(&mut self, number: u32) -> &mut Drain {
        self.jobs.get_mut(&number).expect("the job is known")
    }

    pub(crate) fn find(&self, id: DrainId) -> Option<u32> {
        // The number is the lower part of the id.
        let number = id.0 as u32;
        self.jobs.get(&number).filter(|job| job.id == id).map(|_| number)
    }

    /// A task of a job writes to this segment.
    pub(crate) fn note_target(&mut self, number: u32, task: u64, target: SegmentId) {
        self.job(number).active.insert(task, Some(target));
    }

    /// These replicas of an object, as bits, are no more.
    pub(crate) fn forget_withheld(&mut self, object: u32, set: u32) {
        self.withheld.forget(object, set);
    }

    /// The timer of a job fires.
    pub(crate) fn wake(&mut self, number: u32) {
        if let Some(job) = self.jobs.get_mut(&number).filter(|job| !job.status.has_ended()) {
            job.is_resting = false;
            if std::mem::take(&mut job.begins_anew) {
                (job.cursor, job.pass) = (0, Pass::default());
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

    /// Notes whether a job has something to do, now that the ranges end there.
    pub(crate) fn note_work(&mut self, number: u32, end: u32) {
        match self.jobs[&number].has_work(end) {
            true => self.awake.insert(number),
            false => self.awake.remove(&number),
        };
    }

    /// The last job that drained a segment, running or ended.
    pub(super) fn last_of(&self, id: SegmentId) -> Option<u32> {
        let drains = |job: &Drain| job.sources.iter().any(|source| source.id == id);
        self.jobs.iter().rev().find(|(_, job)| drains(job)).map(|(&number, _)| number)
    }

    /// The job that drains a segment, if one does.
    pub(super) fn of_segment(&self, id: SegmentId) -> Option<u32> {
        self.last_of(id).filter(|number| !self.jobs[number].status.has_ended())
    }

    /// Remembers a job that has ended, so that its last state can be asked for, and forgets the oldest one.
    pub(super) fn remember(&mut self, number: u32) {
        self.awake.remove(&number);
        self.news.push(number);
        self.ended.push_back(number);
        // What still moves reports to its job.
        let idle = self.ended.front().filter(|&&oldest| self.jobs[&oldest].active.is_empty());
        if let Some(&oldest) = idle.filter(|_| self.ended.len() > MAX_ENDED) {
            self.ended.pop_front();
            self.news.retain(|&other| other != oldest);
            self.jobs.remove(&oldest);
        }
    }
}
