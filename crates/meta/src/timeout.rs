//! What the state machine does as time passes.

use mooncake_types::Tick;

use crate::Meta;
use crate::timer::Timer;

/// Most timers that fire between two requests.
const TIMERS_PER_TURN: usize = 256;

impl Meta {
    /// The time at which [`Meta::handle_timeout`] is due: the present time if work is left, none if nothing is ever
    /// due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Tick> {
        let more = self.segments.has_work()
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

    /// Does a bounded part of the work that is due. If some is left, [`Meta::poll_timeout`] gives the present time.
    pub fn handle_timeout(&mut self, now: Tick) {
        self.advance(now);
        self.discard_overdue();
        self.fire_timers();
        self.replay();
        self.fail_tasks_of_the_dead();
        self.settle_sunk();
        self.forget_dying();
        self.advance_reviews();
        self.relieve_crowded();
        self.advance_drains();
        self.repair();
        self.settle_sunk();
    }

    fn fire_timers(&mut self) {
        for _ in 0..TIMERS_PER_TURN {
            let Some(&entry) = self.timers.first().filter(|&&(due, _)| due <= self.now) else {
                return;
            };
            self.timers.remove(&entry);
            match entry.1 {
                Timer::Client(client) => self.client_due(client),
                Timer::Grace(id) => self.grace_due(id, entry.0),
                Timer::RoutesOver(id) => self.routes_over_due(id),
                Timer::SoftPin(object) => self.soft_pin_due(object),
                Timer::LeasedTombstone(object) => self.drop_object(object),
                Timer::Release(id) => self.release(id),
                Timer::Task(number) => self.task_due(number),
                Timer::Retry(number) => self.tasks.note_retry(number),
                Timer::Doubt(client) => self.doubt_due(client, entry.0),
                Timer::FormerRoutesOver => self.former_routes_over_due(),
                Timer::Window => self.window_due(),
                Timer::DiskWindow => self.give_up_silent(),
                Timer::Silence => self.silence_due(entry.0),
                Timer::Drain(number) => self.drains.wake(number),
                Timer::NameAgain => self.name_what_is_free(),
                Timer::SinkNotice => self.sink_notice_due(),
            }
        }
    }
}
