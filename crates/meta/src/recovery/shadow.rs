//! Shadows: a standby keeps a copy of each segment's ledger, which the node sends page by page.
//!
//! Like the rest of this crate it is pure: [`Shadow::ask`] gives the next request to the node, [`Shadow::take`] takes
//! the answer. When the standby becomes leader, [`Meta::remember`](crate::Meta::remember) takes the shadows.

use std::collections::BTreeMap;

use mooncake_types::{
    EntryState, Follow, FollowPage, InventoryEntry, RangeDrop, Seal, SegmentId, Version, limits,
};

use super::entry::{ImplausibleReport, read_entry};

/// A copy of one segment's ledger.
#[derive(Debug)]
pub struct Shadow {
    /// Length of the segment, in bytes.
    len: u64,
    place: FollowProgress,
    /// By offset. No two entries overlap.
    entries: BTreeMap<u64, ShadowEntry>,
    /// Number of entries that a leader takes up at once.
    page_entries: usize,
    /// The page of changes that a leader expects next.
    pub(super) next_page: u32,
}

/// How much of the ledger the shadow has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowProgress {
    Beginning,
    /// The node still has to list the entries from the offset `from` on, and then the changes since `cursor`.
    Listing {
        cursor: u64,
        from: u64,
    },
    /// The node has listed all entries, and sends the changes since `cursor`.
    Changes {
        cursor: u64,
    },
}

/// An entry of the ledger, without its offset.
#[derive(Debug)]
pub(crate) struct ShadowEntry {
    len: u64,
    key: Box<str>,
    version: Version,
    grant: Version,
    object_len: u64,
    object_offset: u64,
    state: EntryState,
    attributes: Box<[u8]>,
}

impl Shadow {
    /// An empty shadow of a segment of this length, in bytes.
    #[must_use]
    pub const fn new(len: u64) -> Self {
        Self {
            len,
            place: FollowProgress::Beginning,
            entries: BTreeMap::new(),
            page_entries: limits::MAX_INVENTORY_PAGE_ENTRIES,
            next_page: 0,
        }
    }

    /// Limits the number of entries that a leader takes up at once.
    #[must_use]
    pub fn with_pages_of(self, entries: usize) -> Self {
        Self { page_entries: entries.max(1), ..self }
    }

    /// Length of the segment, in bytes.
    #[must_use]
    pub const fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Number of known entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The next request to the node.
    #[must_use]
    pub const fn ask(&self, segment: SegmentId) -> Follow {
        let (since, from) = match self.place {
            FollowProgress::Beginning => (None, None),
            FollowProgress::Listing { cursor, from } => (Some(cursor), Some(from)),
            FollowProgress::Changes { cursor } => (Some(cursor), None),
        };
        Follow { segment, since, from, seal: Seal::NONE }
    }

    /// The cursor from which changes are to come. `None` until all entries are listed: before that, a leader cannot
    /// use the shadow.
    #[must_use]
    pub const fn since(&self) -> Option<u64> {
        match self.place {
            FollowProgress::Changes { cursor } => Some(cursor),
            _ => None,
        }
    }

    /// Takes the answer to [`Shadow::ask`]. Returns whether to ask again at once.
    ///
    /// # Errors
    /// No node can have made the page: the shadow is useless.
    pub fn take(&mut self, page: &FollowPage<'_>) -> Result<bool, ImplausibleReport> {
        let next = match (self.place, page.next) {
            (FollowProgress::Beginning, Some(from)) if from > 0 => {
                FollowProgress::Listing { cursor: page.cursor, from }
            }
            (FollowProgress::Beginning, None) => FollowProgress::Changes { cursor: page.cursor },
            (FollowProgress::Listing { cursor, from }, Some(next)) if next > from => {
                FollowProgress::Listing { cursor, from: next }
            }
            (FollowProgress::Listing { cursor, .. }, None) => FollowProgress::Changes { cursor },
            (FollowProgress::Changes { cursor }, None)
                if page.cursor > cursor || page.cursor == cursor && !page.more =>
            {
                FollowProgress::Changes { cursor: page.cursor }
            }
            _ => return Err(ImplausibleReport),
        };
        self.change(&page.entries, &page.gone)?;
        let has_listed = matches!(self.place, FollowProgress::Changes { .. });
        self.place = next;
        Ok(page.more || !has_listed)
    }

    /// Removes the entries at the offsets in `gone`, then adds `entries`.
    pub(crate) fn change(
        &mut self,
        entries: &[InventoryEntry<'_>],
        gone: &[u64],
    ) -> Result<(), ImplausibleReport> {
        for offset in gone {
            self.entries.remove(offset);
        }
        entries.iter().try_for_each(|entry| self.put(entry))
    }

    fn put(&mut self, entry: &InventoryEntry<'_>) -> Result<(), ImplausibleReport> {
        read_entry(entry)?;
        let end = entry.offset.checked_add(entry.len).filter(|&end| end <= self.len);
        let end = end.ok_or(ImplausibleReport)?;
        // Nodes report an entry once its range holds nothing else. So overlapping entries are older, and gone.
        while let Some((&at, other)) = self.entries.range(..end).next_back()
            && at + other.len > entry.offset
        {
            self.entries.remove(&at);
        }
        let kept = ShadowEntry {
            len: entry.len,
            key: entry.key.into(),
            version: entry.version,
            grant: entry.grant,
            object_len: entry.object_len,
            object_offset: entry.object_offset,
            state: entry.state,
            attributes: entry.attributes.into(),
        };
        self.entries.insert(entry.offset, kept);
        Ok(())
    }

    /// Removes an entry that the node has dropped.
    pub(super) fn drop_entry(&mut self, range: &RangeDrop) {
        let kept = self.entries.get(&range.offset);
        if kept.is_some_and(|kept| kept.version == range.version && kept.grant <= range.grant) {
            self.entries.remove(&range.offset);
        }
    }

    /// Removes one page of entries, in the order of their offsets.
    pub(super) fn take_page(&mut self) -> Vec<(u64, ShadowEntry)> {
        let first = std::iter::from_fn(|| self.entries.pop_first());
        first.take(self.page_entries).collect()
    }
}

impl ShadowEntry {
    /// The entry in the form in which its node reports it.
    pub(crate) fn entry(&self, offset: u64) -> InventoryEntry<'_> {
        InventoryEntry {
            offset,
            len: self.len,
            key: &self.key,
            version: self.version,
            grant: self.grant,
            object_len: self.object_len,
            object_offset: self.object_offset,
            state: self.state,
            attributes: &self.attributes,
        }
    }
}
