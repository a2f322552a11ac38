//! A ledger's answers to a standby master that follows it.

use mooncake_types::{ErrorCode, Follow, FollowPage};

use super::Ledger;
use super::inventory::{ChangedEntries, Inventory, ListedEntry};

/// The answer to one [`Follow`]; see [`FollowPage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowAnswer {
    changed: ChangedEntries,
    /// Offset at which the next page of entries begins.
    next: Option<u64>,
}

impl Ledger {
    /// Answers one request with at most `limit` entries.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidVersion`] if some changes since then were forgotten.
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
    /// The answer as a message to the master.
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
