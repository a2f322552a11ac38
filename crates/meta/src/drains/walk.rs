//! A drain job walks over the ranges of its segments.

use mooncake_types::{DrainStatus, ErrorCode, TaskKind};

use super::job::{MOST_FAILED_PASSES, Source, SourceStage, WalkCursor};
use crate::Meta;
use crate::effort::CHANGE;
use crate::objects::{ObjectState, Range};
use crate::segments::Closed;
use crate::tasks::{NewTask, Origin, Tasks};
use crate::timer::Timer;

/// The pause between two passes. It grows by a millisecond for each `RANGES_PER_PAUSE_MS` ranges, since each pass
/// checks all of them.
const PAUSE_MS: u64 = 500;
const RANGES_PER_PAUSE_MS: u64 = 1_024;

impl Meta {
    /// Does a part of the job whose turn it is.
    pub(crate) fn advance_drains(&mut self) {
        if !self.effort.is_left() {
            return;
        }
        let Some(number) = self.drains.next_awake() else { return };
        self.drains.job(number).status = DrainStatus::Running;
        while let Some(id) = self.next_drained(number) {
            self.drain_range(number, id);
        }
        let job = self.drains.job(number);
        if job.is_pass_over() && job.active.is_empty() {
            self.end_pass(number);
        }
        self.drains.note_work(number);
    }

    /// The next range on the segments of a job, if the job may move one more and the turn is not over.
    fn next_drained(&mut self, number: u32) -> Option<u32> {
        loop {
            let job = self.drains.job(number);
            let cursor = job.cursor;
            if job.is_pass_over()
                || job.active.len() >= job.max_concurrency
                || !self.effort.spend(1)
            {
                return None;
            }
            let slot = self.drained_slot(number, cursor.source);
            let job = self.drains.job(number);
            let Some(slot) = slot.filter(|&slot| cursor.number < self.segments[slot].owners.len())
            else {
                job.cursor = WalkCursor { source: cursor.source + 1, number: 0 };
                continue;
            };
            job.cursor.number += 1;
            job.pass.ranges += 1;
            let id = self.segments[slot].owners[cursor.number];
            let is_there = |range: &Range| {
                (range.segment, range.handle.number() as usize) == (slot, cursor.number)
            };
            if self.ranges.get(id).is_some_and(is_there) {
                return Some(id);
            }
        }
    }

    /// The slot of a segment of a job that may still hold replicas. Notes if the segment has left the pool.
    fn drained_slot(&mut self, number: u32, source: usize) -> Option<u32> {
        let source = &mut self.drains.job(number).sources[source];
        if source.stage != SourceStage::Draining {
            return None;
        }
        let slot = self.segments.find(source.id);
        if slot.is_none() {
            source.stage = SourceStage::Gone;
        }
        slot
    }

    fn drain_range(&mut self, number: u32, id: u32) {
        let Range { object, replica, segment, .. } = self.ranges[id];
        match self.objects[object].state {
            ObjectState::Complete => {}
            // The object may become readable, and is moved then.
            ObjectState::Processing
            | ObjectState::Waiting
            | ObjectState::Copying
            | ObjectState::Gathering => {
                let pass = &mut self.drains.job(number).pass;
                pass.unfinished.insert(segment);
                pass.blocked += 1;
                return;
            }
            ObjectState::Overtaken | ObjectState::Tombstone => return,
        }
        if self.first_drained_range(number, object, replica).is_some_and(|(first, _)| first == id) {
            self.effort.spend(CHANGE);
            self.drain_unit(number, object, replica);
        }
    }

    /// The first range of a replica that lies on the segments of a job, and its slot.
    fn first_drained_range(&self, number: u32, object: u32, replica: u8) -> Option<(u32, u32)> {
        let mut of_replica = self.ranges_of(object).filter(|(_, range)| range.replica == replica);
        let first = of_replica.find(|(_, range)| self.is_drained_by(number, range.segment));
        first.map(|(id, range)| (id, range.segment))
    }

    /// Submits a task to move a replica. If that is impossible now, drops the replica or notes the reason.
    fn drain_unit(&mut self, number: u32, object: u32, replica: u8) {
        self.reveal(object);
        let is_busy = self.has_task(object)
            || self.is_hidden(object)
            || self.unreadable_replicas(object) & 1 << replica != 0;
        if is_busy {
            self.drains.job(number).pass.blocked += 1;
            return;
        }
        let Some(pieces) = self.place_drained(number, object, replica) else {
            return match self.release_drained(number, object, replica) {
                Ok(()) => {}
                Err(ErrorCode::ObjectHasLease) => self.drains.job(number).pass.blocked += 1,
                Err(code) => self.fail_unit(number, code),
            };
        };
        // This only checks for room. The ranges are reserved when a client begins the task, so that pending tasks
        // reserve nothing.
        self.unreserve(&pieces);
        let source = self.first_drained_range(number, object, replica);
        let (_, source) = source.expect("the unit lies on one of them");
        let (name, assigned) = (self.segments[source].name.clone(), self.segments[source].client);
        let task = self.submit_task(NewTask {
            origin: Origin::Drain(number),
            object,
            kind: TaskKind::Move,
            source: &name,
            targets: &[],
            assigned,
        });
        self.drains.job(number).active.insert(Tasks::number(task), None);
    }

    fn fail_unit(&mut self, number: u32, code: ErrorCode) {
        self.counters.drain_failures += 1;
        self.drains.job(number).pass.fail(code.to_string());
    }

    /// Ends a pass: all ranges are checked, and no task of the job runs.
    fn end_pass(&mut self, number: u32) {
        for source in 0..self.drains.job(number).sources.len() {
            let Some(slot) = self.drained_slot(number, source) else { continue };
            let job = self.drains.job(number);
            if job.pass.unfinished.contains(&slot) || self.segments[slot].finished_ranges() > 0 {
                continue;
            }
            job.sources[source].stage = SourceStage::Drained;
            self.segments.set(slot, Closed::Drained, true);
        }
        let job = self.drains.job(number);
        let is_at = |stage: SourceStage| move |source: &Source| source.stage == stage;
        if !job.sources.iter().any(is_at(SourceStage::Draining)) {
            let lost_one = job.sources.iter().any(is_at(SourceStage::Gone));
            let status = if lost_one { DrainStatus::Failed } else { DrainStatus::Succeeded };
            return self.end_drain(number, status);
        }
        let has_failures = job.pass.failed() > 0;
        job.failed_passes += u32::from(has_failures);
        let is_hopeless = job.failed_passes >= MOST_FAILED_PASSES;
        if is_hopeless || has_failures && !self.has_target(number) {
            return self.end_drain(number, DrainStatus::Failed);
        }
        self.rest(number);
    }

    /// Schedules the next pass after a pause. Until then the results of this pass can be queried.
    fn rest(&mut self, number: u32) {
        let job = self.drains.job(number);
        let pause_ms = PAUSE_MS + job.pass.ranges / RANGES_PER_PAUSE_MS;
        (job.is_resting, job.begins_anew) = (true, true);
        self.timers.insert((self.now.after_ms(pause_ms), Timer::Drain(number)));
    }
}
