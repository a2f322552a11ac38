use mooncake_types::{RangeDrop, Request, limits};

/// Entries that the master has this client's nodes drop.
#[derive(Clone, Debug, Default)]
pub(super) struct Drops {
    /// The master has more of them.
    is_due: bool,
    listed: Vec<RangeDrop>,
    /// What is dropped, and is told with the next question.
    done: Vec<RangeDrop>,
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

    /// If nothing could be dropped now, the same would be listed again: the next list is asked for with the next pong.
    pub(super) fn on_dropped(&mut self, dropped: Vec<RangeDrop>) {
        self.is_due &= !dropped.is_empty();
        self.listed.clear();
        self.done = dropped;
    }

    /// There is another leader, or another connection: what was not confirmed is named again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::{SegmentId, Version};

    use super::*;

    #[test]
    fn more_is_asked_for_at_once_only_after_a_full_list_of_which_something_was_dropped() {
        let range = RangeDrop {
            segment: SegmentId(1),
            offset: 0,
            version: Version::default(),
            grant: Version::default(),
        };
        let full = limits::MAX_FETCHED_DROPS as usize;
        for (listed, dropped, asks) in
            [(full, full, true), (full, 1, true), (full, 0, false), (3, 3, false)]
        {
            let mut drops = Drops::default();
            drops.on_pong(true);
            assert!(drops.fetch().is_some());
            drops.on_listed(vec![range; listed]);
            drops.on_dropped(vec![range; dropped]);
            assert_eq!(drops.fetch().is_some(), asks, "{dropped} of {listed}");
            drops.on_pong(true);
            assert!(drops.fetch().is_some(), "with the next pong");
        }
    }
}
