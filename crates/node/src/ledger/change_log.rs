use std::collections::VecDeque;

use mooncake_types::limits;

/// The latest changes of a ledger: numbered offsets of entries that came, went or became complete. A follower
/// that knows the ledger as of some number reads the offsets from that number on again, and is then up to date.
#[derive(Clone, Debug)]
pub(super) struct ChangeLog {
    offsets: VecDeque<u64>,
    /// Number of the oldest change that is kept.
    first: u64,
    /// Most changes that are kept; older ones are forgotten.
    most: usize,
}

impl ChangeLog {
    pub(super) const fn new() -> Self {
        Self { offsets: VecDeque::new(), first: 0, most: limits::MAX_LEDGER_CHANGES }
    }

    /// Starts an empty log that numbers changes from `first` on, and keeps at most `most` of them.
    pub(super) fn begin(&mut self, first: u64, most: usize) {
        *self = Self { offsets: VecDeque::new(), first, most };
    }

    pub(super) fn note(&mut self, offset: u64) {
        if self.offsets.len() >= self.most {
            self.offsets.pop_front();
            self.first += 1;
        }
        self.offsets.push_back(offset);
    }

    /// Forgets all changes, so that every follower must begin anew.
    pub(super) fn forget(&mut self) {
        self.first = self.head() + 1;
        self.offsets.clear();
    }

    /// The number of the next change.
    pub(super) fn head(&self) -> u64 {
        self.first + self.offsets.len() as u64
    }

    /// The offsets from this number on; `None` if some are forgotten, or there has been no such number.
    pub(super) fn since(&self, cursor: u64) -> Option<impl Iterator<Item = u64>> {
        let from = usize::try_from(cursor.checked_sub(self.first)?).ok()?;
        (from <= self.offsets.len()).then(|| self.offsets.range(from..).copied())
    }
}

/// A first change number that no other process uses.
pub(crate) fn first_change() -> u64 {
    // The keys of a `RandomState` differ from process to process.
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), "changes") >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(changes: &ChangeLog, cursor: u64) -> Option<Vec<u64>> {
        changes.since(cursor).map(Iterator::collect)
    }

    #[test]
    fn changes_are_remembered_until_there_are_too_many() {
        let mut changes = ChangeLog::new();
        changes.begin(7, 3);
        assert_eq!((changes.head(), since(&changes, 7)), (7, Some(vec![])));
        for offset in [10, 20, 10] {
            changes.note(offset);
        }
        assert_eq!((changes.head(), since(&changes, 7)), (10, Some(vec![10, 20, 10])));
        changes.note(30);
        assert_eq!((changes.head(), since(&changes, 7)), (11, None));
        for (cursor, expected) in [
            (8, Some(vec![20, 10, 30])),
            (11, Some(vec![])),
            (12, None),
            (u64::MAX, None),
            (0, None),
        ] {
            assert_eq!(since(&changes, cursor), expected, "{cursor}");
        }
    }

    #[test]
    fn who_followed_before_everything_was_forgotten_begins_anew() {
        let mut changes = ChangeLog::new();
        changes.note(1);
        let before = changes.head();
        changes.forget();
        assert_eq!((since(&changes, 0), since(&changes, before)), (None, None));
        assert_eq!(since(&changes, changes.head()), Some(vec![]));
    }
}
