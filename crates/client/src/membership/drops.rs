use mooncake_types::{RangeDrop, Request, limits};

/// Entries that the master wants this client's nodes to drop.
#[derive(Clone, Debug, Default)]
pub(super) struct Drops {
    /// Whether to ask the master for more.
    is_due: bool,
    listed: Vec<RangeDrop>,
    /// Dropped entries, to be confirmed by the next request.
    done: Vec<RangeDrop>,
}

impl Drops {
    pub(super) fn on_pong(&mut self, has_drops: bool) {
        self.is_due |= has_drops;
    }

    /// The request for more, if it is due.
    pub(super) fn fetch(&mut self) -> Option<Request<'static>> {
        if !self.is_due || !self.listed.is_empty() {
            return None;
        }
        self.is_due = false;
        let dropped = std::mem::take(&mut self.done);
        Some(Request::FetchDrops { dropped, limit: limits::MAX_FETCHED_DROPS })
    }

    /// Takes the list from the master. After a full list the next is requested at once, otherwise after the next
    /// pong: while the master evicts much, there is always something new.
    pub(super) fn on_listed(&mut self, listed: Vec<RangeDrop>) {
        self.is_due = listed.len() >= limits::MAX_FETCHED_DROPS as usize;
        self.listed = listed;
    }

    /// The entries to drop now.
    pub(super) fn listed(&self) -> &[RangeDrop] {
        &self.listed
    }

    /// Notes the dropped entries. If there are none, the master would list the same ones again, so the next list
    /// waits for the next pong.
    pub(super) fn on_dropped(&mut self, dropped: Vec<RangeDrop>) {
        self.is_due &= !dropped.is_empty();
        self.listed.clear();
        self.done = dropped;
    }

    /// Forgets everything, for another leader or connection: the master lists unconfirmed entries again.
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
