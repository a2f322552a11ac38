//! Drains that outlive their leader: the membership record marks segments that an operator has drained, and the next
//! leader drains them anew once they have reported.
//!
//! The shell writes the marks. Nothing waits for them: a mark that is lost means that a segment takes puts again.

use std::collections::BTreeSet;

use mooncake_types::{SegmentId, SegmentState, limits};

use crate::Meta;
use crate::segments::Closed;
use crate::timer::Timer;

/// Pause between two looks whether segments that an earlier leader drained are back.
const LOOK_MS: u64 = 250;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct DrainMarks {
    /// Segments that the record marks.
    marked: BTreeSet<SegmentId>,
    /// Marks that were set or removed since the shell last asked.
    changes: Vec<(SegmentId, bool)>,
    /// Marked segments that an earlier leader drained, and this one does not yet.
    to_resume: BTreeSet<SegmentId>,
}

impl Meta {
    /// Has segments drained that an earlier leader drained, as the membership record says. Each begins once the leader
    /// serves and the segment has reported.
    pub fn resume_drains(&mut self, segments: impl IntoIterator<Item = SegmentId>) {
        let marks = &mut self.drains.marks;
        marks.to_resume.extend(segments);
        marks.marked.extend(marks.to_resume.iter().copied());
        self.look_for_drained_again();
    }

    /// Takes the marks that the membership record is to have, or to lose, since the last call.
    pub fn take_drain_marks(&mut self) -> Vec<(SegmentId, bool)> {
        std::mem::take(&mut self.drains.marks.changes)
    }

    /// Has the record mark segments that an operator drains.
    pub(super) fn mark_drained(&mut self, slots: &[u32]) {
        let Meta { segments, drains, .. } = self;
        drains.marks.marked.retain(|&id| segments.find(id).is_some());
        for &slot in slots {
            let id = segments[slot].id;
            drains.marks.to_resume.remove(&id);
            if drains.marks.marked.insert(id) {
                drains.marks.changes.push((id, true));
            }
        }
    }

    /// Has the record mark a segment no longer, if it does.
    pub(super) fn unmark_drained(&mut self, id: SegmentId) {
        let marks = &mut self.drains.marks;
        marks.to_resume.remove(&id);
        if marks.marked.remove(&id) {
            marks.changes.push((id, false));
        }
    }

    fn look_for_drained_again(&mut self) {
        if !self.drains.marks.to_resume.is_empty() {
            self.timers.insert((self.now.after_ms(LOOK_MS), Timer::ResumeDrains));
        }
    }

    /// Drains the marked segments that are back.
    pub(crate) fn resume_drains_due(&mut self) {
        let serves = self.serves();
        let mut ready = Vec::new();
        let all: Vec<SegmentId> = self.drains.marks.to_resume.iter().copied().collect();
        for id in all {
            let Some(slot) = self.segments.find(id) else {
                // A segment that was struck is drained no more.
                if serves && self.members.is_behind(id).is_none() {
                    self.drains.marks.to_resume.remove(&id);
                }
                continue;
            };
            match self.segments[slot].state() {
                SegmentState::Recovering => {}
                SegmentState::Ok if !self.segments[slot].is(Closed::Struck) => {
                    ready.push((id, slot));
                }
                _ => _ = self.drains.marks.to_resume.remove(&id),
            }
        }
        for some in ready.chunks(limits::MAX_DRAIN_SEGMENTS) {
            let slots: Vec<u32> = some.iter().map(|&(_, slot)| slot).collect();
            let concurrency = limits::DEFAULT_DRAIN_CONCURRENCY;
            if self.begin_drain(&slots, Vec::new(), concurrency).is_ok() {
                for (id, _) in some {
                    self.drains.marks.to_resume.remove(id);
                }
            }
        }
        self.look_for_drained_again();
    }
}
