use mooncake_types::{RangeDrop, Request, SegmentId, limits};

use crate::node::LateDrop;

/// Entries that the master has this client's nodes drop.
#[derive(Clone, Debug, Default)]
pub(super) struct Drops {
    /// The master has more of them.
    is_due: bool,
    listed: Vec<RangeDrop>,
    /// What is dropped, and is told with the next question.
    done: Vec<RangeDrop>,
    /// What was dropped for earlier leaders, and this one is still to be told.
    late: Vec<LateDrop>,
}

impl Drops {
    pub(super) fn on_pong(&mut self, has_drops: bool) {
        self.is_due |= has_drops;
    }

    /// The question for more, if it is time for it.
    pub(super) fn fetch(&mut self) -> Option<Request<'static>> {
        if !self.is_due || !self.listed.is_empty() {
            return None;
        }
        self.is_due = false;
        let dropped = std::mem::take(&mut self.done);
        Some(Request::FetchDrops { dropped, limit: limits::MAX_FETCHED_DROPS })
    }

    pub(super) fn note_late(&mut self, late: Vec<LateDrop>) {
        self.late.extend(late);
    }

    /// What lies in a segment is about to be told: what was dropped there before is not among it.
    pub(super) fn on_inventory(&mut self, segment: SegmentId) {
        self.late.retain(|it| it.range.segment != segment);
    }

    /// Whether there were drops for earlier leaders that this one is to be told of.
    pub(super) fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// What tells of them, or of as many as one message holds.
    pub(super) fn tell_late(&self) -> Request<'_> {
        let late = &self.late[..self.late.len().min(limits::MAX_FETCHED_DROPS as usize)];
        let keys = late.iter().map(|it| &*it.key).collect();
        let ranges = late.iter().map(|it| it.range).collect();
        Request::Retract { keys, ranges, are_dropped: true }
    }

    /// The leader has heard the first of them.
    pub(super) fn on_late_told(&mut self) {
        self.late.drain(..self.late.len().min(limits::MAX_FETCHED_DROPS as usize));
    }

    /// The answer. After a full list the next is asked for at once, otherwise with the next pong: while much is evicted
    /// there is always something new.
    pub(super) fn on_listed(&mut self, listed: Vec<RangeDrop>) {
        self.is_due = listed.len() >= limits::MAX_FETCHED_DROPS as usize;
        self.listed = listed;
    }

    /// What is to be dropped now.
    pub(super) fn listed(&self) -> &[RangeDrop] {
        &self.listed
    }

    pub(super) fn on_dropped(&mut self, dropped: Vec<RangeDrop>) {
        self.listed.clear();
        self.done = dropped;
    }

    /// There is another leader, or another connection: what was not confirmed is named again.
    pub(super) fn clear(&mut self) {
        let late = std::mem::take(&mut self.late);
        *self = Self { late, ..Self::default() };
    }
}
