//! Pages of a ledger: all entries for a new leader, and the changes for a leader that followed it.

use std::collections::BTreeSet;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{EntryState as Reported, InventoryEntry, Version, limits};

use super::Ledger;
use super::entry::{Entry, EntryState};

/// Most fences that one page skips, since the ledger is locked meanwhile.
const MAX_FENCES: usize = 1 << 16;

/// One page of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The entries, in the order of their offsets.
    pub entries: Vec<ListedEntry>,
    /// Offset at which the next page begins; absent if nothing is left.
    pub next: Option<u64>,
}

/// Most changes that one page covers.
const MAX_CHANGES: usize = 1 << 15;

/// One page of changed entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedEntries {
    /// The entries that now lie at changed offsets.
    pub entries: Vec<ListedEntry>,
    /// Changed offsets at which no entry can be read or is being written.
    pub gone: Vec<u64>,
    /// The number from which to ask for the next changes.
    pub cursor: u64,
    /// Whether more has changed than this page holds.
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
    /// The entries that start at `from` or after it: at most `limit`, and at most as many as fit into one page.
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
    /// The number of the next change. A follower that knows the ledger as it is now asks for changes from this number
    /// on.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.changes.head()
    }

    /// The entries at the offsets that changed from number `since` on: at most `limit` of either kind, and at most as
    /// many as fit into one page. `None` if some of these changes were forgotten.
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
    /// `None` if the entry is only a fence.
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

    /// The entry as a message to the master.
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
