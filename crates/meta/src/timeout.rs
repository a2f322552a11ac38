//! Everything that happens because time passes.

use mooncake_types::{ClientId, SegmentId, Tick};

use crate::Meta;

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
    /// Nobody can have a route from within it any more.
    RoutesOver(SegmentId),
    /// A soft pin may end.
    SoftPin(u32),
    /// Nobody can have a route to a leased tombstone any more.
    LeasedTombstone(u32),
    /// Ranges that outlived their put or copy are free: see [`Meta::release`].
    Release(u32),
    /// A task has been waiting, or worked on, for too long.
    Task(u64),
    /// A task that found no room is tried again.
    Retry(u64),
    /// A client that others could not reach has not pinged since.
    Doubt(ClientId),
    /// Routes from under an earlier leader are over.
    Settle,
    /// Members have had their time to report.
    Window,
    /// Disks have, too.
    DiskWindow,
    /// A drain job looks at its segments again.
    Drain(u32),
    /// Puts that were under way when the epoch changed may be over.
    NameAgain,
    /// What became of victims is told.
    SinkNotice,
}

impl Meta {
    /// When [`Meta::handle_timeout`] has something to do; a moment that has passed if it has work left.
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
        [discard, timer, self.repair.due()].into_iter().flatten().min()
    }

    /// Does what is due, or a bounded part of it: [`Meta::poll_timeout`] then says that more is.
    pub fn handle_timeout(&mut self, now: Tick) {
        self.advance(now);
        self.discard_overdue();
        self.fire_timers();
        self.replay();
        self.fail_bereaved();
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
                Timer::Grace(id) => self.grace_due(id),
                Timer::RoutesOver(id) => self.routes_over_due(id),
                Timer::SoftPin(object) => self.soft_pin_due(object),
                Timer::LeasedTombstone(object) => self.drop_object(object),
                Timer::Release(id) => self.release(id),
                Timer::Task(number) => self.task_due(number),
                Timer::Retry(number) => self.tasks.note_retry(number),
                Timer::Doubt(client) => self.doubt_due(client, entry.0),
                Timer::Settle => self.settle_due(),
                Timer::Window => self.window_due(),
                Timer::DiskWindow => self.disk_window_due(),
                Timer::Drain(number) => self.drains.wake(number),
                Timer::NameAgain => self.name_what_is_free(),
                Timer::SinkNotice => self.sink_notice_due(),
            }
        }
    }
}
