//! Repair: objects that lost replicas with their segments get new ones, in the background.
//!
//! A replica is lost once that is recorded: its segment was struck, buried or unmounted, and comes back empty if at all.
//! So what was repaired never has its old replicas again. What is only out of sight is not lost. What was evicted or
//! cleared was given up on purpose: it is asked for no longer.
//!
//! Objects that lack replicas are counted; they are found by walking over all records, some thousand at a time, for as
//! long as there are any. A copy takes only room that is free, and is a task like those of callers, but for its origin.
//! After a walk that repaired nothing there is a rest, each longer than the one before.

use mooncake_types::Tick;

use super::allowance::Allowance;
use crate::Meta;
use crate::notice::Notice;
use crate::objects::ObjectState;
use crate::tasks::Origin;

/// Records that are looked at between two requests.
const OBJECTS_PER_TURN: u32 = 4_096;
/// Copies that are begun between two requests.
const COPIES_PER_TURN: usize = 32;
/// Copies under way at a time.
const MOST_UNDER_WAY: usize = 64;
/// The rest after a walk that repaired nothing, and its bounds.
const FIRST_REST_MS: u64 = 500;
const LONGEST_REST_MS: u64 = 60_000;

/// What repair knows.
#[derive(Debug)]
pub(crate) struct Repair {
    /// Objects that lack replicas.
    short: usize,
    under_way: usize,
    allowance: Allowance,
    /// The record that is looked at next.
    next: u32,
    /// Copies that had succeeded when the walk began.
    made_before: u64,
    rest_until: Tick,
    rest_ms: u64,
    wave: Option<Wave>,
}

/// Repairs from the first one to a moment at which there is nothing to do.
#[derive(Clone, Copy, Debug)]
struct Wave {
    begun: Tick,
    replicas: u64,
    bytes: u64,
    failures: u64,
}

impl Repair {
    pub(crate) fn new(bytes_per_second: u64, now: Tick) -> Self {
        Self {
            short: 0,
            under_way: 0,
            allowance: Allowance::new(bytes_per_second, now),
            next: 0,
            made_before: 0,
            rest_until: Tick::ZERO,
            rest_ms: FIRST_REST_MS,
            wave: None,
        }
    }

    /// One more object lacks replicas, or one less.
    pub(crate) fn count(&mut self, is_short: bool) {
        self.short = self.short.strict_add_signed(if is_short { 1 } else { -1 });
    }

    pub(crate) fn short(&self) -> usize {
        self.short
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// There is more to repair, or more room: the next walk begins at once.
    pub(crate) fn wake(&mut self) {
        (self.rest_until, self.rest_ms) = (Tick::ZERO, FIRST_REST_MS);
    }

    /// When there is something to do, at the earliest.
    pub(crate) fn due(&self) -> Option<Tick> {
        if self.short == 0 || self.under_way >= MOST_UNDER_WAY {
            return None;
        }
        self.allowance.ready_at().map(|ready| ready.max(self.rest_until))
    }
}

impl Meta {
    /// Begins to repair some objects, if it is time to.
    pub(crate) fn repair(&mut self) {
        if self.repair.due().is_none_or(|due| due > self.now) {
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
            let is_full = begun == COPIES_PER_TURN || self.repair.under_way >= MOST_UNDER_WAY;
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
        let made = self.counters.repaired_replicas;
        let repair = &mut self.repair;
        repair.rest_ms = match repair.made_before == made && repair.under_way == 0 {
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
        self.repair.under_way += 1;
        if self.repair.wave.is_none() {
            self.repair.wave = Some(Wave { begun: self.now, replicas: 0, bytes: 0, failures: 0 });
            self.notify(Notice::RepairBegins { objects });
        }
        true
    }

    /// A copy has ended: `made` bytes, or none if it failed.
    pub(crate) fn end_repair(&mut self, made: Option<u64>) {
        self.repair.under_way -= 1;
        match made {
            Some(bytes) => {
                self.counters.repaired_replicas += 1;
                self.counters.repaired_bytes += bytes;
            }
            None => self.counters.repairs_failed += 1,
        }
        let Some(wave) = &mut self.repair.wave else { return };
        wave.replicas += u64::from(made.is_some());
        wave.bytes += made.unwrap_or(0);
        wave.failures += u64::from(made.is_none());
        if self.repair.short == 0 {
            self.end_wave();
        }
    }

    /// Nothing more can be done now, unless copies are under way.
    fn end_wave(&mut self) {
        if self.repair.under_way > 0 {
            return;
        }
        let Some(wave) = self.repair.wave.take() else { return };
        self.notify(Notice::RepairEnds {
            replicas: wave.replicas,
            bytes: wave.bytes,
            failures: wave.failures,
            left: self.repair.short,
            took_ms: self.now.since_ms(wave.begun),
        });
    }
}
