//! What a ledger tells a master that stands by.

use mooncake_types::{ErrorCode, Follow, FollowPage};

use super::inventory::{Changed, Inventory, Listed};
use super::ledger::Ledger;

/// The answer to one question; see [`FollowPage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    changed: Changed,
    /// Where the entries go on.
    next: Option<u64>,
}

impl Ledger {
    /// Answers one question, with no more than `limit` entries.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidVersion`] if it is not known any more what changed since then.
    pub fn follow(&self, follow: &Follow, limit: usize) -> Result<Told, ErrorCode> {
        let (cursor, from) = match (follow.since, follow.from) {
            (None, _) => (self.cursor(), 0),
            (Some(cursor), Some(from)) => (cursor, from),
            (Some(since), None) => {
                let changed = self.changed(since, limit).ok_or(ErrorCode::InvalidVersion)?;
                return Ok(Told { changed, next: None });
            }
        };
        let Inventory { entries, next } = self.inventory(from, limit);
        Ok(Told { changed: Changed { entries, cursor, ..Changed::default() }, next })
    }
}

impl Told {
    /// As the master is told it.
    #[must_use]
    pub fn page(&self) -> FollowPage<'_> {
        let Changed { entries, gone, cursor, more } = &self.changed;
        FollowPage {
            entries: entries.iter().map(Listed::report).collect(),
            gone: gone.clone(),
            cursor: *cursor,
            next: self.next,
            more: *more,
        }
    }
}
