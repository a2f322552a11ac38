//! Begins, cancels and ends drain jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mooncake_types::{
    ClientId, DrainId, DrainOrder, DrainReport, DrainStatus, ErrorCode, SegmentId, SegmentState,
    Tick, limits,
};

use super::job::{Drain, Pass, Source, SourceStage, WalkCursor};
use crate::Meta;
use crate::segments::Closed;
use crate::tasks::Ending;

impl Meta {
    /// Begins to drain segments. They take no puts from now on.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidParams`]: no segment, too many segments or targets, a segment that is named twice or is
    ///   also a target, or zero concurrency.
    /// - [`ErrorCode::SegmentNotFound`]: no segment has one of the names.
    /// - [`ErrorCode::NotSupported`]: a target is a disk.
    /// - [`ErrorCode::UnavailableInCurrentStatus`]: a segment is drained already or not in its normal state, or a
    ///   target takes no puts. Also if the names stand for too many segments, too many jobs run, or the master does
    ///   not serve yet.
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
        self.mark_drained(&slots);
        Ok(self.drains.job(number).id)
    }

    /// Begins a job over slots that no job drains. They take no puts from now on.
    pub(super) fn begin_drain(
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
            sources.push(Source { id, name, stage: SourceStage::Draining });
            self.segments.set(slot, Closed::Draining, true);
        }
        let places = (0..).zip(&sources).map(|(place, source)| (source.id, place)).collect();
        self.drains.created = self.drains.created.wrapping_add(1);
        let number = self.drains.created;
        let job = Drain {
            id: DrainId(self.draw_id(number.into(), u32::BITS)),
            status: DrainStatus::Created,
            sources,
            targets,
            max_concurrency: max_concurrency.min(limits::MAX_DRAIN_CONCURRENCY) as usize,
            created: self.now,
            updated: self.now,
            active: BTreeMap::new(),
            places,
            cursor: WalkCursor::default(),
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
        self.drains.insert(number, job);
        Ok(number)
    }

    /// A client asks to drain its own segments, or asks for the progress of that drain.
    pub(crate) fn drain_own(
        &mut self,
        from: ClientId,
        ids: &[SegmentId],
    ) -> Result<DrainReport, ErrorCode> {
        let mut slots = BTreeSet::new();
        for &id in ids {
            let slot = self.segments.find(id).ok_or(ErrorCode::SegmentNotFound)?;
            if self.segments[slot].client != from {
                return Err(ErrorCode::IllegalClient);
            }
            slots.insert(slot);
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
        if let Some(number) = self.drains.last_of(first) {
            let job = self.drains.job(number);
            if job.status.has_ended() && std::mem::take(&mut job.is_awaited) {
                return Ok(self.report_drain(number));
            }
        }
        let is_drained = |&slot: &u32| self.segments[slot].state() == SegmentState::Drained;
        if slots.iter().all(is_drained)
            && let Some(number) = self.drains.last_of(first)
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

    /// Drains a segment that leaves after a grace period, as far as there is room and time.
    pub(crate) fn drain_in_grace(&mut self, slot: u32) {
        if self.drains.of_segment(self.segments[slot].id).is_none() {
            // Replicas that are not moved are lost with the segment, whatever the reason.
            let _ = self.begin_drain(&[slot], Vec::new(), limits::DEFAULT_DRAIN_CONCURRENCY);
        }
    }

    /// Ends a job before it has moved everything. Its segments take puts again. Moves that have begun go on.
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
            if self.tasks.is_pending(task) {
                self.finish_task(task, Ending::Refused(ErrorCode::UnavailableInCurrentStatus));
            }
        }
        Ok(())
    }

    /// Ends a job. Unless it has succeeded, its segments take puts again.
    pub(super) fn end_drain(&mut self, number: u32, status: DrainStatus) {
        let now = self.now;
        let job = self.drains.job(number);
        (job.status, job.updated) = (status, now);
        let ids: Vec<SegmentId> = job.sources.iter().map(|source| source.id).collect();
        self.drains.remember(number);
        self.drains.withheld.forget_job(number);
        if status == DrainStatus::Succeeded {
            // The units that failed have left the segments since.
            self.drains.job(number).pass = Pass::default();
            return;
        }
        for &id in &ids {
            self.unmark_drained(id);
        }
        for slot in ids.into_iter().filter_map(|id| self.segments.find(id)).collect::<Vec<_>>() {
            for reason in [Closed::Draining, Closed::Drained] {
                self.segments.set(slot, reason, false);
            }
        }
    }

    /// A task that moves a unit of this length has ended.
    pub(crate) fn drain_task_ended(
        &mut self,
        number: u32,
        (task, len): (u64, u64),
        ending: Ending,
    ) {
        let was_moved = self.tasks.is_move(task);
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
            // The unit already left the segment, was dropped, or its object is gone.
            Ending::Success | Ending::ObjectGone => {}
            // The task gave way to one of a caller, or the unit can be dropped once its leases are over.
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
        self.drains.note_work(number);
    }

    /// Counts a unit that was dropped instead of moved.
    pub(super) fn count_released(&mut self, number: u32) {
        self.counters.drain_released += 1;
        let now = self.now;
        let job = self.drains.job(number);
        job.released += 1;
        job.updated = now;
    }
}
