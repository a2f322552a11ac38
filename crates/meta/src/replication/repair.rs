//! Repair: objects that lost replicas with a segment get new ones, in the background.
//!
//! A replica is lost once its segment is struck or unmounted and the record says so. If the segment returns, it
//! returns empty, so lost replicas never come back. A replica on a segment that is out of sight is not lost. Replicas
//! that were evicted or cleared are not made again.
//!
//! The leader counts the objects that lack replicas. While there are any, it finds them by walking over all records,
//! as many at a time as a turn [may](crate::effort). A copy takes only free room. It is a task like those of callers, with another origin.
//! After each walk repair rests. The rests grow while walks repair nothing.

use mooncake_types::Tick;

use super::repairs::{FIRST_REST_MS, LONGEST_REST_MS, MOST_UNDER_WAY, Wave};
use crate::Meta;
use crate::counters::Copies;
use crate::effort::CHANGE;
use crate::notice::Notice;
use crate::objects::ObjectState;
use crate::tasks::Origin;

impl Meta {
    /// The earliest moment at which repair has work.
    pub(crate) fn repair_due(&self) -> Option<Tick> {
        self.repair.due(self.tasks.under_way(Origin::Repair))
    }

    /// Begins to repair some objects, if it is due.
    pub(crate) fn repair(&mut self) {
        if self.repair_due().is_none_or(|due| due > self.now) {
            return;
        }
        if !self.recovery.is_over() || self.segments.reporting() > 0 {
            // A member may still report the replicas that seem lost.
            self.repair.rest_until = self.now.after_ms(FIRST_REST_MS);
            return;
        }
        while self.repair.next < self.objects.end() {
            if !self.effort.spend(1) {
                return;
            }
            let object = self.repair.next;
            if self.objects.get(object).is_some_and(|it| it.asked.is_short()) {
                let is_full = self.tasks.under_way(Origin::Repair) >= MOST_UNDER_WAY;
                let may_copy = !is_full && self.repair.allowance.is_ready(self.now);
                if !may_copy {
                    return;
                }
                self.effort.spend(CHANGE);
                self.repair_object(object);
            }
            self.repair.next = object + 1;
        }
        self.end_walk();
    }

    fn end_walk(&mut self) {
        let made = self.counters.repairs.made;
        let is_idle = self.tasks.under_way(Origin::Repair) == 0;
        let repair = &mut self.repair;
        repair.rest_ms = match repair.made_before == made && is_idle {
            true => (repair.rest_ms * 2).min(LONGEST_REST_MS),
            false => FIRST_REST_MS,
        };
        repair.rest_until = self.now.after_ms(repair.rest_ms);
        (repair.next, repair.made_before) = (0, made);
        self.end_wave();
    }

    /// Begins a copy of an object, unless the object cannot be read, has a task, or no segment has room.
    fn repair_object(&mut self, object: u32) {
        let is_whole = self.objects[object].state == ObjectState::Complete;
        if !is_whole || self.has_task(object) {
            return;
        }
        let most_used = self.config.eviction_high_watermark_ratio;
        if self.copy_to_roomy_segment(object, most_used, Origin::Repair).is_none() {
            return;
        }
        let (len, objects) = (self.objects[object].len, self.repair.short);
        self.repair.allowance.spend(len);
        if self.repair.wave.is_none() {
            self.repair.wave = Some(Wave { begun: self.now, before: self.counters.repairs });
            self.notify(Notice::RepairBegins { objects });
        }
    }

    /// A repair copy has ended. The wave ends with the last object that lacks replicas.
    pub(crate) fn repair_ended(&mut self) {
        if self.repair.short == 0 {
            self.end_wave();
        }
    }

    /// Ends the wave and notifies, unless copies are under way.
    fn end_wave(&mut self) {
        if self.tasks.under_way(Origin::Repair) > 0 {
            return;
        }
        let Some(Wave { begun, before }) = self.repair.wave.take() else { return };
        let Copies { made, bytes, failed } = self.counters.repairs;
        self.notify(Notice::RepairEnds {
            replicas: made - before.made,
            bytes: bytes - before.bytes,
            failures: failed - before.failed,
            left: self.repair.short,
            took_ms: self.now.since_ms(begun),
        });
    }
}
