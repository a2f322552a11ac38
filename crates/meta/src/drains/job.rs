//! Drain jobs: segments whose replicas are moved to others, so that their nodes can leave. This file keeps the jobs;
//! `drain_walk` looks for what is to be moved and says when a job is over, `drain_move` chooses where to, `drain_release` lets go of
//! what need not be moved, `drain_report` tells.
//!
//! A job goes over all ranges in passes, a bounded page at a time. In each pass a replica on its segments is tried once;
//! after [`MOST_FAILED_PASSES`] passes that left something that cannot be moved it has failed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use mooncake_types::{
    ClientId, DrainId, DrainOrder, DrainReport, DrainStatus, ErrorCode, SegmentId, SegmentState,
    TaskStatus, Tick, limits,
};

use super::release::Withheld;
use crate::Meta;
use crate::segments::Closed;
use crate::tasks::Ending;

/// Passes that leave something that cannot be moved before a job gives up.
pub(crate) const MOST_FAILED_PASSES: u32 = 3;
/// Jobs that have ended and can still be asked about.
const MAX_ENDED: usize = 100;

/// One job.
#[derive(Debug)]
pub(crate) struct Drain {
    pub(crate) id: DrainId,
    pub(crate) status: DrainStatus,
    pub(crate) sources: Vec<Source>,
    /// Names of the segments to move to; empty: all that take puts.
    pub(crate) targets: Vec<String>,
    pub(crate) max_concurrency: usize,
    pub(crate) created: Tick,
    pub(crate) updated: Tick,
    /// The numbers of the tasks that move its units, each with the segment that it writes to once that is chosen.
    pub(crate) active: BTreeMap<u64, Option<SegmentId>>,
    /// The range that is looked at next.
    pub(crate) cursor: u32,
    /// The node of its segments asks how far it is, and has not heard how it ended.
    is_awaited: bool,
    /// It waits for its timer.
    pub(crate) is_resting: bool,
    /// The next turn begins a new pass.
    pub(crate) begins_anew: bool,
    pub(crate) pass: Pass,
    pub(crate) failed_passes: u32,
    /// How often a move to a segment failed: those with fewer failures are tried first.
    pub(crate) faults: BTreeMap<SegmentId, u32>,
    pub(crate) moved: u64,
    pub(crate) moved_bytes: u64,
    pub(crate) released: u64,
}

/// A segment that is drained.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) id: SegmentId,
    pub(crate) name: Arc<str>,
    pub(crate) stage: Stage,
}

/// How far a segment of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
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
    pub(crate) failures: BTreeMap<String, u64>,
    /// Units that wait for something else.
    pub(crate) blocked: u64,
    /// Slots on which something lies that is no finished object, and may become one.
    pub(crate) unfinished: BTreeSet<u32>,
}

impl Pass {
    pub(crate) fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    pub(crate) fn fail(&mut self, reason: String) {
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
    jobs: BTreeMap<u32, Drain>,
    /// Jobs that have something to do now.
    awake: BTreeSet<u32>,
    /// The job that was served last, so that all have their turns.
    served: u32,
    /// Ended, oldest first.
    ended: VecDeque<u32>,
    /// Ended since the shell last asked.
    news: Vec<u32>,
    created: u32,
    pub(crate) withheld: Withheld,
}

impl Drains {
    pub(crate) fn has_work(&self) -> bool {
        !self.awake.is_empty()
    }

    pub(crate) fn running(&self) -> usize {
        self.jobs.len() - self.ended.len()
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The jobs that have ended since this was last asked.
    pub(crate) fn take_news(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.news)
    }

    /// All jobs, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &Drain)> {
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
    pub(crate) fn next_awake(&mut self) -> Option<u32> {
        let after = self.awake.range(self.served.saturating_add(1)..).next();
        self.served = *after.or_else(|| self.awake.first())?;
        Some(self.served)
    }

    /// Notes whether a job has something to do, now that the ranges end there.
    pub(crate) fn settle(&mut self, number: u32, end: u32) {
        match self.jobs[&number].has_work(end) {
            true => self.awake.insert(number),
            false => self.awake.remove(&number),
        };
    }

    /// The job that drains a segment, if one does.
    pub(crate) fn of_segment(&self, id: SegmentId) -> Option<u32> {
        let drains = |job: &Drain| job.sources.iter().any(|source| source.id == id);
        let mut running = self.jobs.iter().filter(|(_, job)| !job.status.has_ended());
        running.find(|(_, job)| drains(job)).map(|(&number, _)| number)
    }

    /// The number under which a job's last state can be asked for is kept, and the oldest is forgotten.
    fn remember(&mut self, number: u32) {
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

impl Meta {
    /// Begins to drain segments: nothing more is put there from now on.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for no segment or too many, one that is named twice or is a target too, and no
    /// concurrency; [`ErrorCode::SegmentNotFound`] for a name that no segment has;
    /// [`ErrorCode::UnavailableInCurrentStatus`] for a segment that is drained already or is not whole, a target that takes
    /// no puts, too many jobs, and before the master serves.
    pub fn start_drain(&mut self, now: Tick, order: &DrainOrder) -> Result<DrainId, ErrorCode> {
        self.advance(now);
        let counts = 1..=limits::MAX_DRAIN_SEGMENTS;
        let distinct: BTreeSet<&String> = order.segments.iter().collect();
        let makes_sense = counts.contains(&order.segments.len())
            && distinct.len() == order.segments.len()
            && order.targets.len() <= limits::MAX_DRAIN_SEGMENTS
            && order.max_concurrency > 0
            && !order.targets.iter().any(|target| distinct.contains(target));
        if !makes_sense {
            return Err(ErrorCode::InvalidParams);
        }
        let mut slots = Vec::new();
        for name in &order.segments {
            match self.segments.named(name) {
                [] => return Err(ErrorCode::SegmentNotFound),
                named => slots.extend_from_slice(named),
            }
        }
        for target in &order.targets {
            if self.segments.named(target).is_empty() {
                return Err(ErrorCode::SegmentNotFound);
            }
            self.ensure_grantable(target)?;
        }
        let whole = |&slot: &u32| {
            let segment = &self.segments[slot];
            segment.state() == SegmentState::Ok && !segment.is(Closed::Struck)
        };
        if !slots.iter().all(whole) {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        let number = self.begin_drain(&slots, order.targets.clone(), order.max_concurrency)?;
        Ok(self.drains.job(number).id)
    }

    /// A job over slots that nobody drains. Those that take puts do so no longer.
    fn begin_drain(
        &mut self,
        slots: &[u32],
        targets: Vec<String>,
        max_concurrency: u32,
    ) -> Result<u32, ErrorCode> {
        let is_full = self.drains.running() >= limits::MAX_DRAINS;
        if is_full || slots.len() > limits::MAX_DRAIN_SEGMENTS || !self.serves() {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        let mut sources = Vec::with_capacity(slots.len());
        for &slot in slots {
            let segment = &self.segments[slot];
            let (id, name) = (segment.id, Arc::clone(&segment.name));
            sources.push(Source { id, name, stage: Stage::Draining });
            self.segments.set(slot, Closed::Draining, true);
        }
        self.drains.created = self.drains.created.wrapping_add(1);
        let number = self.drains.created;
        let low = self.rng.next_u64() << u32::BITS | u64::from(number);
        let id = DrainId(u128::from(self.epoch.0) << 64 | u128::from(low));
        let job = Drain {
            id,
            status: DrainStatus::Created,
            sources,
            targets,
            max_concurrency: max_concurrency.min(limits::MAX_DRAIN_CONCURRENCY) as usize,
            created: self.now,
            updated: self.now,
            active: BTreeMap::new(),
            cursor: 0,
            is_awaited: false,
            is_resting: false,
            begins_anew: false,
            pass: Pass::default(),
            failed_passes: 0,
            faults: BTreeMap::new(),
            moved: 0,
            moved_bytes: 0,
            released: 0,
        };
        self.drains.jobs.insert(number, job);
        self.drains.awake.insert(number);
        Ok(number)
    }

    /// A client asks that what lies on its segments be moved, or how far that is.
    pub(crate) fn drain_own(
        &mut self,
        from: ClientId,
        ids: &[SegmentId],
    ) -> Result<DrainReport, ErrorCode> {
        let mut slots = Vec::new();
        for &id in ids {
            let slot = self.segments.find(id).ok_or(ErrorCode::SegmentNotFound)?;
            if self.segments[slot].client != from {
                return Err(ErrorCode::IllegalClient);
            }
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
        let first = *ids.first().ok_or(ErrorCode::InvalidParams)?;
        let undrained = |&slot: &u32| self.drains.of_segment(self.segments[slot].id).is_none();
        let new: Vec<u32> = slots.iter().copied().filter(undrained).collect();
        let unready = |&slot: &u32| {
            let state = self.segments[slot].state();
            !matches!(state, SegmentState::Ok | SegmentState::Drained)
        };
        if new.iter().any(unready) {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        if let Some(number) = self.last_drain_of(first) {
            let job = self.drains.job(number);
            if job.status.has_ended() && std::mem::take(&mut job.is_awaited) {
                return Ok(self.report_drain(number));
            }
        }
        let is_drained = |&slot: &u32| self.segments[slot].state() == SegmentState::Drained;
        if slots.iter().all(is_drained)
            && let Some(number) = self.last_drain_of(first)
        {
            return Ok(self.report_drain(number));
        }
        let number = match new.is_empty() {
            true => self.drains.of_segment(first).expect("all of them are drained"),
            false => self.begin_drain(&new, Vec::new(), limits::DEFAULT_DRAIN_CONCURRENCY)?,
        };
        self.drains.job(number).is_awaited = true;
        Ok(self.report_drain(number))
    }

    /// A segment that leaves after a while: what lies there is moved until then, as far as there is room.
    pub(crate) fn drain_leaving(&mut self, slot: u32) {
        if self.drains.of_segment(self.segments[slot].id).is_none() {
            // What cannot be moved goes with the segment, whatever the reason.
            let _ = self.begin_drain(&[slot], Vec::new(), limits::DEFAULT_DRAIN_CONCURRENCY);
        }
    }

    /// Ends a job before it has moved everything: its segments take puts again. What is on its way arrives.
    ///
    /// # Errors
    /// [`ErrorCode::JobNotFound`], and [`ErrorCode::UnavailableInCurrentStatus`] for a job that has ended.
    pub fn cancel_drain(&mut self, now: Tick, id: DrainId) -> Result<(), ErrorCode> {
        self.advance(now);
        let number = self.drains.find(id).ok_or(ErrorCode::JobNotFound)?;
        if self.drains.job(number).status.has_ended() {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        self.end_drain(number, DrainStatus::Canceled);
        let active: Vec<u64> = self.drains.job(number).active.keys().copied().collect();
        for task in active {
            if self.tasks.known[&task].status == TaskStatus::Pending {
                self.finish_task(task, Ending::Refused(ErrorCode::UnavailableInCurrentStatus));
            }
        }
        Ok(())
    }

    /// A job is over. Unless it has succeeded its segments take puts again.
    pub(crate) fn end_drain(&mut self, number: u32, status: DrainStatus) {
        let now = self.now;
        let job = self.drains.job(number);
        (job.status, job.updated) = (status, now);
        let ids: Vec<SegmentId> = job.sources.iter().map(|source| source.id).collect();
        self.drains.remember(number);
        self.drains.withheld.forget_job(number);
        if status == DrainStatus::Succeeded {
            // What failed has gone since.
            self.drains.job(number).pass = Pass::default();
            return;
        }
        for slot in ids.into_iter().filter_map(|id| self.segments.find(id)).collect::<Vec<_>>() {
            for reason in [Closed::Draining, Closed::Drained] {
                self.segments.set(slot, reason, false);
            }
        }
    }

    /// A task that moves a unit has ended. The object may be about to go.
    pub(crate) fn drain_task_ended(
        &mut self,
        number: u32,
        (task, object): (u64, u32),
        ending: Ending,
    ) {
        let len = self.objects.get(object).map_or(0, |object| object.len);
        let was_moved = self.tasks.known[&task].moved.is_some();
        let Some(job) = self.drains.jobs.get_mut(&number) else { return };
        let target = job.active.remove(&task).flatten();
        job.updated = self.now;
        match ending {
            Ending::Success if was_moved => {
                job.moved += 1;
                job.moved_bytes += len;
                self.counters.drain_moved += 1;
                self.counters.drain_moved_bytes += len;
            }
            // It went elsewhere by itself, was let go, or is no more.
            Ending::Success | Ending::ObjectGone => {}
            // It gave way to a caller's, or is to be let go once nobody reads it.
            Ending::Refused(ErrorCode::ObjectHasReplicationTask | ErrorCode::ObjectHasLease) => {
                job.pass.blocked += 1;
            }
            failed => {
                if let Some(target) = target {
                    *job.faults.entry(target).or_default() += 1;
                }
                if !job.status.has_ended() {
                    job.pass.fail(failed.message());
                    self.counters.drain_failures += 1;
                }
            }
        }
        self.drains.settle(number, self.ranges.end());
    }

    /// A unit was dropped without a move.
    pub(crate) fn count_released(&mut self, number: u32) {
        self.counters.drain_released += 1;
        let now = self.now;
        let job = self.drains.job(number);
        job.released += 1;
        job.updated = now;
    }
}
