//! Repair: objects that lost replicas with their segments get new ones, in the background.
//!
//! A replica is lost once its segment was struck or unmounted, and this is recorded: the segment comes back empty if at all.
//! So the old replicas of a repaired object never come back. A replica that is only out of sight is not lost. Replicas that
//! were evicted or cleared are not made again.
//!
//! Objects that lack replicas are counted; they are found by walking over all records, some thousand at a time, for as
//! long as there are any. A copy takes only room that is free, and is a task like those of callers, but for its origin.
//! After a walk that repaired nothing there is a rest, each longer than the one before.

use mooncake_types::Tick;

use super::repairs::{FIRST_REST_MS, LONGEST_REST_MS, MOST_UNDER_WAY, Wave};
use crate::Meta;
use crate::counters::Copies;
use crate::notice::Notice;
use crate::objects::ObjectState;
use crate::tasks::Origin;

/// Records that are looked at between two requests.
const OBJECTS_PER_TURN: u32 = 4_096;
/// Copies that are begun between two requests.
const COPIES_PER_TURN: usize = 32;

impl Meta {
    /// When there is something to repair, at the earliest.
    pub(crate) fn repair_due(&self) -> Option<Tick> {
        self.repair.due(self.tasks.under_way(Origin::Repair))
    }

    /// Begins to repair some objects, if it is time to.
    pub(crate) fn repair(&mut self) {
        if self.repair_due().is_none_or(|due| due > self.now) {
            return;
        }
        if !self.recovery.is_over() || self.segments.iter().any(|(_, it)| it.recovering.is_some()) {
            // What seems to be lost may be reported yet.
            self.repair.rest_until = self.now.after_ms(FIRST_REST_MS);
            return;
        }
        let end = self.objects.end();
        let last = self.repair.next.saturating_add(OBJECTS_PER_TURN).min(end);
        let mut begun = 0;
        for object in self.repair.next..last {
            let is_short = self.objects.get(object).is_some_and(|it| it.asked.is_short());
            if !is_short {
                continue;
            }
            let is_full =
                begun == COPIES_PER_TURN || self.tasks.under_way(Origin::Repair) >= MOST_UNDER_WAY;
            if is_full || !self.repair.allowance.is_ready(self.now) {
                self.repair.next = object;
                return;
            }
            begun += usize::from(self.repair_object(object));
        }
        self.repair.next = last;
        if last == end {
            self.end_walk();
        }
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

    /// Has one more replica made of an object, if it can be read and there is room for it. False if not.
    fn repair_object(&mut self, object: u32) -> bool {
        let is_whole = self.objects[object].state == ObjectState::Complete;
        if !is_whole || self.has_task(object) {
            return false;
        }
        let most_used = self.config.eviction_high_watermark_ratio;
        if self.copy_to_roomy_segment(object, most_used, Origin::Repair).is_none() {
            return false;
        }
        let (len, objects) = (self.objects[object].len, self.repair.short);
        self.repair.allowance.spend(len);
        if self.repair.wave.is_none() {
            self.repair.wave = Some(Wave { begun: self.now, before: self.counters.repairs });
            self.notify(Notice::RepairBegins { objects });
        }
        true
    }

    /// A copy has ended.
    pub(crate) fn repair_ended(&mut self) {
        if self.repair.short == 0 {
            self.end_wave();
        }
    }

    /// Nothing more can be done now, unless copies are under way.
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
