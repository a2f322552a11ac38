//! Everything that happens because time passes.

use mooncake_types::{ClientId, SegmentId, Tick};

use crate::Meta;
use crate::objects::SEGMENT_QUEUES;
use crate::slab::NONE;

/// Puts that are discarded between two requests.
const PUTS_PER_TURN: usize = 256;
/// Replicas of unmounted segments that are forgotten between two requests.
const REPLICAS_PER_TURN: usize = 256;
/// Timers that fire between two requests.
const TIMERS_PER_TURN: usize = 256;

/// What is due at a moment of its own. Running puts need no timers: their queue is in the order of their starts. Leases
/// need none: they are looked at when something is to be evicted or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A client may have been silent for its whole time to live.
    Client(ClientId),
    /// The grace period of an unmount ends.
    Grace(SegmentId),
    /// Routes from within it are over.
    Retired(SegmentId),
    /// A soft pin may end.
    SoftPin(u32),
    /// The leases of a replaced object are over.
    Replaced(u32),
    /// Ranges that outlived their put or copy are free: see [`Meta::release`].
    Release(u32),
    /// A task has been waiting, or worked on, for too long.
    Task(u64),
    /// A client that others could not reach has not pinged since.
    Doubt(ClientId),
    /// Routes from under an earlier leader are over.
    Settle,
    /// Members have had their time to report.
    Window,
    /// A drain job looks at its segments again.
    Drain(u32),
    /// Puts that were under way when the epoch changed may be over.
    NameAgain,
}

impl Meta {
    /// When [`Meta::handle_timeout`] has something to do; a moment that has passed if it has work left.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Tick> {
        let more = !self.segments.crowded.is_empty()
            || !self.segments.dying.is_empty()
            || !self.tasks.bereaved.is_empty()
            || self.reviews.has_work()
            || self.drains.has_work()
            || self.recovery.shadows.has_work();
        if more {
            return Some(self.now);
        }
        let discard = self.next_discard().map(|(due, _)| due);
        let timer = self.timers.first().map(|&(due, _)| due);
        [discard, timer, self.repair.due()].into_iter().flatten().min()
    }

    /// Does what is due, or a bounded part of it: [`Meta::poll_timeout`] then says that more is.
    pub fn handle_timeout(&mut self, now: Tick) {
        self.advance(now);
        self.discard_overdue();
        self.fire_timers();
        self.replay();
        self.fail_bereaved();
        self.forget_dying();
        self.advance_reviews();
        self.relieve_crowded();
        self.advance_drains();
        self.repair();
    }

    fn fire_timers(&mut self) {
        for _ in 0..TIMERS_PER_TURN {
            let Some(&entry) = self.timers.first().filter(|&&(due, _)| due <= self.now) else {
                return;
            };
            self.timers.remove(&entry);
            match entry.1 {
                Timer::Client(client) => self.client_due(client),
                Timer::Grace(id) => self.grace_due(id),
                Timer::Retired(id) => self.retired_due(id),
                Timer::SoftPin(object) => self.soft_pin_due(object),
                Timer::Replaced(object) => self.drop_object(object),
                Timer::Release(id) => self.release(id),
                Timer::Task(number) => self.task_due(number),
                Timer::Doubt(client) => self.doubt_due(client, entry.0),
                Timer::Settle => self.settle_due(),
                Timer::Window => self.close_window(),
                Timer::Drain(number) => self.drains.wake(number),
                Timer::NameAgain => self.name_what_is_free(),
            }
        }
    }

    fn client_due(&mut self, client: ClientId) {
        let Some(record) = self.clients.get(client) else { return };
        let ttl_ms = self.config.client_ttl_ms;
        let due = record.last_heard.after_ms(ttl_ms);
        if due > self.now {
            self.timers.insert((due, Timer::Client(client)));
        } else if self.clients.all_silent_for(self.now, ttl_ms / 2) && self.clients.spare(client) {
            // All of them at once: it is rather the master that was cut off or held up. They have one more time to live.
            self.timers.insert((self.now.after_ms(ttl_ms), Timer::Client(client)));
        } else if let Some(end) = self.lose_sight_of_silent(client) {
            self.timers.insert((end, Timer::Client(client)));
        } else {
            self.bury(client);
        }
    }

    /// Gives up puts that nobody ended.
    fn discard_overdue(&mut self) {
        for _ in 0..PUTS_PER_TURN {
            match self.next_discard() {
                Some((due, object)) if due <= self.now => self.discard(object),
                _ => return,
            }
        }
    }

    /// The put that is given up next, and when.
    fn next_discard(&self) -> Option<(Tick, u32)> {
        let first = self.processing.head;
        let object = (first != NONE).then(|| self.ranges[first].object)?;
        Some((self.objects[object].touched.after_ms(self.config.put_discard_ms), object))
    }

    /// Forgets replicas of unmounted segments. Those of running puts go when the put ends.
    fn forget_dying(&mut self) {
        for _ in 0..REPLICAS_PER_TURN {
            let Some(&slot) = self.segments.dying.first() else { return };
            let queues = &self.segments[slot].queues;
            let head = (0..SEGMENT_QUEUES).map(|i| queues[i].head).find(|&head| head != NONE);
            let Some(head) = head else {
                self.segments.dying.remove(&slot);
                continue;
            };
            let (object, replica) = (self.ranges[head].object, self.ranges[head].replica);
            self.lose_replica(object, replica);
        }
    }
}
