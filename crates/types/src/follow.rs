use crate::{InventoryEntry, SegmentAddress, SegmentId};

/// What a master that stands by asks a node: how its ledger is, page by page, and then what changed there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Follow {
    /// The segment.
    pub segment: SegmentId,
    /// Where the node's changes had come to, as a page said; absent to begin with all entries.
    pub since: Option<u64>,
    /// Where the entries go on, in bytes of the segment; absent for what changed since then.
    pub from: Option<u64>,
}

/// What a node answers to [`Follow`]. Who takes all pages, and then those of the changes until there are no more, knows
/// the ledger as it was when the last of them was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowPage<'a> {
    /// What lies there, at most [`crate::limits::MAX_INVENTORY_PAGE_ENTRIES`]. An entry takes the place of all that
    /// overlapped it.
    pub entries: Vec<InventoryEntry<'a>>,
    /// Where entries may have started of which nothing is left, at most
    /// [`crate::limits::MAX_INVENTORY_PAGE_ENTRIES`].
    pub gone: Vec<u64>,
    /// What to ask for changes since.
    pub cursor: u64,
    /// Where the entries go on; absent if they don't, and in pages of changes.
    pub next: Option<u64>,
    /// More has changed than this page holds.
    pub more: bool,
}

/// A segment that a leader has mounted, as it tells a master that stands by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSegment {
    /// Where it is.
    pub address: SegmentAddress,
    /// Its length in bytes.
    pub len: u64,
}

/// See [`crate::Reply::Segments`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentPage {
    /// The segments, at most [`crate::limits::MAX_LISTED_SEGMENTS`].
    pub segments: Vec<ListedSegment>,
    /// Where the next page begins; absent if no segment is left.
    pub next: Option<u32>,
}
