//! A drain job walks over all ranges.

use mooncake_types::{DrainStatus, ErrorCode, TaskKind};

use super::job::{MOST_FAILED_PASSES, Source, SourceStage};
use crate::Meta;
use crate::objects::ObjectState;
use crate::segments::Closed;
use crate::tasks::{NewTask, Origin, Tasks};
use crate::timer::Timer;

/// Number of ranges that one turn of a job checks.
const RANGES_PER_TURN: u32 = 1_024;
/// The pause between two passes. It grows by a millisecond for each `RANGES_PER_PAUSE_MS` ranges, since each pass
/// checks all of them.
const PAUSE_MS: u64 = 500;
const RANGES_PER_PAUSE_MS: u64 = 1_024;

impl Meta {
    /// Does a bounded step of the job whose turn it is.
    pub(crate) fn advance_drains(&mut self) {
        let Some(number) = self.drains.next_awake() else { return };
        let slots = self.drained_slots(number);
        let end = self.ranges.end();
        let job = self.drains.job(number);
        job.status = DrainStatus::Running;
        if slots.is_empty() {
            job.cursor = end;
        }
        for _ in 0..RANGES_PER_TURN {
            let job = self.drains.job(number);
            if job.cursor >= end || job.active.len() >= job.max_concurrency {
                break;
            }
            job.cursor += 1;
            let id = job.cursor - 1;
            self.drain_range(number, id, &slots);
        }
        let job = self.drains.job(number);
        if job.cursor >= end && job.active.is_empty() {
            self.end_pass(number, &slots);
        }
        self.drains.note_work(number, self.ranges.end());
    }

    /// The slots of a job that may still hold replicas, in order. Notes the segments that have left the pool.
    pub(super) fn drained_slots(&mut self, number: u32) -> Vec<u32> {
        let mut slots = Vec::new();
        let segments = &self.segments;
        for source in &mut self.drains.job(number).sources {
            match segments.find(source.id) {
                None if source.stage == SourceStage::Draining => source.stage = SourceStage::Gone,
                Some(slot) if source.stage == SourceStage::Draining => slots.push(slot),
                _ => {}
            }
        }
        slots.sort_unstable();
        slots
    }

    fn drain_range(&mut self, number: u32, id: u32, slots: &[u32]) {
        let Some(&range) = self.ranges.get(id) else { return };
        if slots.binary_search(&range.segment).is_err() {
            return;
        }
        match self.objects[range.object].state {
            ObjectState::Complete => {}
            // The object may become readable, and is moved then.
            ObjectState::Processing
            | ObjectState::Waiting
            | ObjectState::Copying
            | ObjectState::Gathering => {
                let pass = &mut self.drains.job(number).pass;
                pass.unfinished.insert(range.segment);
                pass.blocked += 1;
                return;
            }
            ObjectState::Overtaken | ObjectState::Tombstone => return,
        }
        let is_there = |slot: u32| slots.binary_search(&slot).is_ok();
        let mut of_unit = self
            .ranges_of(range.object)
            .filter(|(_, other)| other.replica == range.replica && is_there(other.segment));
        let first = of_unit.next().map(|(first, _)| first);
        drop(of_unit);
        if first == Some(id) {
            self.drain_unit(number, range.object, range.replica, slots);
        }
    }

    /// Submits a task to move a replica. If that is impossible now, drops the replica or notes the reason.
    fn drain_unit(&mut self, number: u32, object: u32, replica: u8, slots: &[u32]) {
        let is_busy = self.has_task(object)
            || self.awaits_former_routes(object)
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
        let source = self
            .ranges_of(object)
            .find(|(_, range)| {
                range.replica == replica && slots.binary_search(&range.segment).is_ok()
            })
            .map(|(_, range)| range.segment)
            .expect("the unit lies on one of them");
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
    fn end_pass(&mut self, number: u32, slots: &[u32]) {
        for &slot in slots {
            let id = self.segments[slot].id;
            let job = self.drains.job(number);
            if job.pass.unfinished.contains(&slot) || self.segments[slot].finished_ranges() > 0 {
                continue;
            }
            let job = self.drains.job(number);
            let source = job.sources.iter_mut().find(|source| source.id == id);
            source.expect("the slot is one of the job's").stage = SourceStage::Drained;
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
        let pause_ms = PAUSE_MS + u64::from(self.ranges.end()) / RANGES_PER_PAUSE_MS;
        let job = self.drains.job(number);
        (job.is_resting, job.begins_anew) = (true, true);
        self.timers.insert((self.now.after_ms(pause_ms), Timer::Drain(number)));
    }
}
