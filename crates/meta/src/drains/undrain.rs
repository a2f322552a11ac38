//! Gives drained segments back to puts.

use mooncake_types::{DrainId, ErrorCode, Tick};

use crate::Meta;
use crate::segments::Closed;

impl Meta {
    /// Has all segments of this name take puts again, whether a drain of them runs or has ended. What was moved away
    /// stays where it is. A job that drains one of them is canceled, with all its segments.
    ///
    /// # Errors
    /// [`ErrorCode::SegmentNotFound`]: no segment has the name. [`ErrorCode::UnavailableInCurrentStatus`]: all of them
    /// are leaving the pool.
    pub fn undrain(&mut self, now: Tick, name: &str) -> Result<(), ErrorCode> {
        self.advance(now);
        let slots = self.segments.named(name).to_vec();
        if slots.is_empty() {
            return Err(ErrorCode::SegmentNotFound);
        }
        let stays = |slot: &u32| {
            let segment = &self.segments[*slot];
            !segment.is(Closed::GracePeriod) && !segment.is(Closed::Struck)
        };
        let slots: Vec<u32> = slots.into_iter().filter(stays).collect();
        if slots.is_empty() {
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        for slot in slots {
            if let Some(job) = self.running_drain_of(slot) {
                self.cancel_drain(now, job)?;
            }
            self.unmark_drained(self.segments[slot].id);
            for reason in [Closed::Draining, Closed::Drained] {
                self.segments.set(slot, reason, false);
            }
        }
        self.repair.wake();
        Ok(())
    }

    fn running_drain_of(&self, slot: u32) -> Option<DrainId> {
        let number = self.drains.of_segment(self.segments[slot].id)?;
        self.drains.get(number).map(|job| job.id)
    }
}
