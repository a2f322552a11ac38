//! What the state machine does as time passes.

use mooncake_types::Tick;

use crate::Meta;
use crate::effort::{CHANGE, Effort};
use crate::timer::Timer;

/// The kinds of due work. Each begins every so many turns, and then has the effort of a whole turn. So none waits
/// for ever for another.
const WORK: [fn(&mut Meta); 10] = [
    Meta::discard_overdue,
    Meta::fire_timers,
    Meta::replay_page,
    Meta::fail_tasks_of_the_dead,
    Meta::forget_dying,
    Meta::advance_reviews,
    Meta::relieve_crowded,
    Meta::relieve_crowded_tenants,
    Meta::advance_drains,
    Meta::repair,
];

/// A timer that fires this late shows that the master was held up: requests may have arrived that it has not read.
const HELD_UP_MS: u64 = 100;

impl Meta {
    /// Whether the master was held up when a timer fires that was due at this time.
    pub(crate) fn was_held_up(&self, due: Tick) -> bool {
        self.now.since_ms(due) >= HELD_UP_MS
    }

    /// The time at which [`Meta::handle_timeout`] is due: the present time if work is left, none if nothing is ever
    /// due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Tick> {
        let more = self.segments.has_work()
            || self.tenants.has_work()
            || self.tasks.has_work()
            || self.reviews.has_work()
            || self.drains.has_work()
            || self.recovery.has_work();
        if more {
            return Some(self.now);
        }
        let discard = self.next_discard().map(|(due, _)| due);
        let timer = self.timers.first().map(|&(due, _)| due);
        [discard, timer, self.repair_due()].into_iter().flatten().min()
    }

    /// Does as much of the work that is due as one turn may. If some is left, [`Meta::poll_timeout`]
    /// gives the present time.
    pub fn handle_timeout(&mut self, now: Tick) {
        self.advance(now);
        self.effort = Effort::of_turn();
        let first = self.first_work;
        self.first_work = (first + 1) % WORK.len();
        for work in WORK.iter().cycle().skip(first).take(WORK.len()) {
            work(self);
            self.settle_sunk();
        }
    }

    /// A page of a shadow is as much as a whole turn may do.
    fn replay_page(&mut self) {
        if self.recovery.has_work() && self.effort.spend(u32::MAX) {
            self.replay();
        }
    }

    fn fire_timers(&mut self) {
        loop {
            let Some(&entry) = self.timers.first().filter(|&&(due, _)| due <= self.now) else {
                return;
            };
            if !self.effort.spend(CHANGE) {
                return;
            }
            self.timers.remove(&entry);
            match entry.1 {
                Timer::Client(client) => self.client_due(client, entry.0),
                Timer::Grace(id) => self.grace_due(id, entry.0),
                Timer::RoutesOver(id) => self.routes_over_due(id),
                Timer::SoftPin(object) => self.soft_pin_due(object),
                Timer::LeasedTombstone(object) => self.drop_object(object),
                Timer::Release(id) => self.release(id),
                Timer::Task(number) => self.task_due(number),
                Timer::Retry(number) => self.tasks.note_retry(number),
                Timer::Doubt(client) => self.doubt_due(client, entry.0),
                Timer::FormerRoutesOver => self.former_routes_over_due(),
                Timer::Window => self.window_due(entry.0),
                Timer::DiskWindow => self.give_up_silent(),
                Timer::Silence => self.silence_due(entry.0),
                Timer::Drain(number) => self.drains.wake(number),
                Timer::ResumeDrains => self.resume_drains_due(),
                Timer::NameAgain => self.name_what_is_free(),
                Timer::SinkNotice => self.sink_notice_due(),
            }
        }
    }
}
