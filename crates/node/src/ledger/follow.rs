//! What a ledger tells a master that stands by.

use mooncake_types::{ErrorCode, Follow, FollowPage};

use super::Ledger;
use super::inventory::{ChangedEntries, Inventory, ListedEntry};

/// The answer to one question; see [`FollowPage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowAnswer {
    changed: ChangedEntries,
    /// Where the entries go on.
    next: Option<u64>,
}

impl Ledger {
    /// Answers one question, with no more than `limit` entries.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidVersion`] if it is not known any more what changed since then.
    pub fn follow(&self, follow: &Follow, limit: usize) -> Result<FollowAnswer, ErrorCode> {
        let (cursor, from) = match (follow.since, follow.from) {
            (None, _) => (self.cursor(), 0),
            (Some(cursor), Some(from)) => (cursor, from),
            (Some(since), None) => {
                let changed = self.changed(since, limit).ok_or(ErrorCode::InvalidVersion)?;
                return Ok(FollowAnswer { changed, next: None });
            }
        };
        let Inventory { entries, next } = self.inventory(from, limit);
        Ok(FollowAnswer {
            changed: ChangedEntries { entries, cursor, ..ChangedEntries::default() },
            next,
        })
    }
}

impl FollowAnswer {
    /// As the master is told it.
    #[must_use]
    pub fn page(&self) -> FollowPage<'_> {
        let ChangedEntries { entries, gone, cursor, more } = &self.changed;
        FollowPage {
            entries: entries.iter().map(ListedEntry::report).collect(),
            gone: gone.clone(),
            cursor: *cursor,
            next: self.next,
            more: *more,
        }
    }
}
