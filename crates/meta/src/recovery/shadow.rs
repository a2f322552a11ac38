//! What a master that stands by knows of a segment: the entries of its ledger, as its node tells them page by page.
//!
//! Pure, like the rest: [`Shadow::ask`] says what to ask the node next, [`Shadow::take`] takes the answer. When the
//! master leads, [`Meta::remember`](crate::Meta::remember) takes the shadows.

use std::collections::BTreeMap;

use mooncake_types::{
    EntryState, Follow, FollowPage, InventoryEntry, RangeDrop, SegmentId, Version, limits,
};

use super::entry::{Senseless, read_entry};

/// The entries of one segment's ledger.
#[derive(Debug)]
pub struct Shadow {
    /// Length of the segment, in bytes.
    len: u64,
    place: FollowProgress,
    /// No two of them overlap.
    entries: BTreeMap<u64, Kept>,
    /// Entries in one page of those that a leader takes up.
    page_entries: usize,
    /// The next page of changes that a leader is told.
    pub(super) next_page: u32,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowProgress {
    Beginning,
    /// The entries from there on are to come, and then what changed since the beginning.
    Listing {
        cursor: u64,
        from: u64,
    },
    /// All entries were told; what changed since is to come.
    Changes {
        cursor: u64,
    },
}

/// What is kept of an entry.
#[derive(Debug)]
pub(crate) struct Kept {
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
    /// Nothing is known yet of a segment of this length, in bytes.
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

    /// Has a leader take up no more than this many entries at once.
    #[must_use]
    pub fn with_pages_of(self, entries: usize) -> Self {
        Self { page_entries: entries.max(1), ..self }
    }

    /// Length of the segment, in bytes.
    #[must_use]
    pub const fn len_bytes(&self) -> u64 {
        self.len
    }

    /// How many entries are known.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// What to ask the node next.
    #[must_use]
    pub const fn ask(&self, segment: SegmentId) -> Follow {
        let (since, from) = match self.place {
            FollowProgress::Beginning => (None, None),
            FollowProgress::Listing { cursor, from } => (Some(cursor), Some(from)),
            FollowProgress::Changes { cursor } => (Some(cursor), None),
        };
        Follow { segment, since, from }
    }

    /// Since when changes are to come, once all entries were told: a leader can use it from then on.
    #[must_use]
    pub const fn since(&self) -> Option<u64> {
        match self.place {
            FollowProgress::Changes { cursor } => Some(cursor),
            _ => None,
        }
    }

    /// Takes the answer to [`Shadow::ask`]. Gives whether there is more to be asked at once.
    ///
    /// # Errors
    /// The page is none that a node makes: the shadow is of no use any more.
    pub fn take(&mut self, page: &FollowPage<'_>) -> Result<bool, Senseless> {
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
            _ => return Err(Senseless),
        };
        self.change(&page.entries, &page.gone)?;
        let has_listed = matches!(self.place, FollowProgress::Changes { .. });
        self.place = next;
        Ok(page.more || !has_listed)
    }

    /// Takes up what lies there, and forgets what is gone.
    pub(crate) fn change(
        &mut self,
        entries: &[InventoryEntry<'_>],
        gone: &[u64],
    ) -> Result<(), Senseless> {
        for offset in gone {
            self.entries.remove(offset);
        }
        entries.iter().try_for_each(|entry| self.put(entry))
    }

    fn put(&mut self, entry: &InventoryEntry<'_>) -> Result<(), Senseless> {
        read_entry(entry)?;
        let end = entry.offset.checked_add(entry.len).filter(|&end| end <= self.len);
        let end = end.ok_or(Senseless)?;
        // The node told of this when it had nothing else there: what overlaps it was told before, and is gone.
        while let Some((&at, other)) = self.entries.range(..end).next_back()
            && at + other.len > entry.offset
        {
            self.entries.remove(&at);
        }
        let kept = Kept {
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

    /// The node has dropped this.
    pub(super) fn drop_entry(&mut self, range: &RangeDrop) {
        let kept = self.entries.get(&range.offset);
        if kept.is_some_and(|kept| kept.version == range.version && kept.grant <= range.grant) {
            self.entries.remove(&range.offset);
        }
    }

    /// Takes the first entries out, in the order of their offsets, as many as one page holds.
    pub(super) fn take_page(&mut self) -> Vec<(u64, Kept)> {
        let first = std::iter::from_fn(|| self.entries.pop_first());
        first.take(self.page_entries).collect()
    }
}

impl Kept {
    /// As its node reports it.
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
