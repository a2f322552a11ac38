//! What a ledger holds, page by page, as a new leader wants to know it; and what changed there, for one that followed.

use std::collections::BTreeSet;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{EntryState as Reported, InventoryEntry, Version, limits};

use super::Ledger;
use super::entry::{Entry, EntryState};

/// Most fences that are passed over in one page: the ledger is locked meanwhile.
const MAX_FENCES: usize = 1 << 16;

/// One page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The entries, in the order of their offsets.
    pub entries: Vec<ListedEntry>,
    /// Where the next page begins; absent if nothing is left.
    pub next: Option<u64>,
}

/// Most changes that one page looks at.
const MAX_CHANGES: usize = 1 << 15;

/// One page of what changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedEntries {
    /// What lies there now.
    pub entries: Vec<ListedEntry>,
    /// Where nothing lies that can be read or is being written.
    pub gone: Vec<u64>,
    /// What to ask for changes since.
    pub cursor: u64,
    /// More has changed than this page holds.
    pub more: bool,
}

/// One entry that can be read, or is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Where the range starts in its segment, in bytes.
    pub offset: u64,
    /// Length of the range in bytes.
    pub len: u64,
    /// The object's key.
    pub key: Box<str>,
    /// The version of the object.
    pub version: Version,
    /// The grant that the range was taken under.
    pub grant: Version,
    /// Length of the whole object in bytes.
    pub object_len: u64,
    /// Where this range's bytes lie in the object.
    pub object_offset: u64,
    /// Whether all its bytes are in place.
    pub state: Reported,
    /// What the master gave with the grant.
    pub attributes: Box<[u8]>,
}

impl Ledger {
    /// The entries that start at `from` or after it, `limit` at most and no more than fit into one page.
    #[must_use]
    pub fn inventory(&self, from: u64, limit: usize) -> Inventory {
        let mut entries = Vec::new();
        let (mut bytes, mut fences) = (0, 0);
        for (offset, entry) in self.entries_from(from) {
            let is_full = entries.len() >= limit || bytes >= limits::MAX_INVENTORY_PAGE_BYTES;
            if is_full || fences >= MAX_FENCES {
                return Inventory { entries, next: Some(offset) };
            }
            match ListedEntry::new(offset, entry) {
                Some(listed) => {
                    bytes += listed.key.len() + listed.attributes.len();
                    entries.push(listed);
                }
                None => fences += 1,
            }
        }
        Inventory { entries, next: None }
    }
}

impl Ledger {
    /// What to ask for changes since, of those that are still to come.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.changes.head()
    }

    /// What lies where something changed since then, no more than `limit` of either kind and no more than fit into one page.
    /// Nothing if that is not known any more.
    #[must_use]
    pub fn changed(&self, since: u64, limit: usize) -> Option<ChangedEntries> {
        let mut page = ChangedEntries { cursor: since, ..ChangedEntries::default() };
        let (mut bytes, mut told) = (0, BTreeSet::new());
        for (count, offset) in self.changes.since(since)?.enumerate() {
            let is_full = page.entries.len() >= limit
                || page.gone.len() >= limit
                || bytes >= limits::MAX_INVENTORY_PAGE_BYTES;
            if is_full || count >= MAX_CHANGES {
                page.more = true;
                break;
            }
            page.cursor += 1;
            if !told.insert(offset) {
                continue;
            }
            match self.entries.get(&offset).and_then(|entry| ListedEntry::new(offset, entry)) {
                Some(listed) => {
                    bytes += listed.key.len() + listed.attributes.len();
                    page.entries.push(listed);
                }
                None if is_broken(Rule::DropsAreTold) => {}
                None => page.gone.push(offset),
            }
        }
        Some(page)
    }
}

impl ListedEntry {
    /// Nothing if the entry is only a fence.
    fn new(offset: u64, entry: &Entry) -> Option<Self> {
        let state = match entry.state {
            EntryState::Complete => Reported::Complete,
            EntryState::Writing => Reported::Writing,
            EntryState::Abandoned => return None,
        };
        Some(Self {
            offset,
            len: entry.len,
            key: entry.key.clone(),
            version: entry.version,
            grant: entry.grant,
            object_len: entry.object_len,
            object_offset: entry.object_offset,
            state,
            attributes: entry.attributes.clone(),
        })
    }

    /// As the master is told of it.
    #[must_use]
    pub fn report(&self) -> InventoryEntry<'_> {
        InventoryEntry {
            offset: self.offset,
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
