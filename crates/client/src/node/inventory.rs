//! What a ledger holds, page by page, as a new leader wants to know it.

use mooncake_types::{EntryState as Reported, InventoryEntry, Version, limits};

use super::entry::{Entry, EntryState};
use super::ledger::Ledger;

/// Most fences that are passed over in one page: the ledger is locked meanwhile.
const MAX_FENCES: usize = 1 << 16;

/// One page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The entries, in the order of their offsets.
    pub entries: Vec<Listed>,
    /// Where the next page begins; absent if nothing is left.
    pub next: Option<u64>,
}

/// One entry that can be read, or is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
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
            match Listed::new(offset, entry) {
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

impl Listed {
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
