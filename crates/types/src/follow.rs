use crate::{InventoryEntry, SegmentAddress, SegmentId};

/// What a standby asks a node: the entries of a ledger, page by page, and then what changed in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Follow {
    /// The segment.
    pub segment: SegmentId,
    /// The [`FollowPage::cursor`] of the page before; absent to begin with all entries.
    pub since: Option<u64>,
    /// The [`FollowPage::next`] of the page before; absent to ask for the changes after `since`.
    pub from: Option<u64>,
}

/// What a node answers to [`Follow`]. A standby that takes all pages of entries, and then pages of changes until there are
/// no more, knows the ledger as it was when the node made the last page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowPage<'a> {
    /// Entries, at most [`crate::limits::MAX_INVENTORY_PAGE_ENTRIES`]. An entry replaces all earlier ones that overlap it.
    pub entries: Vec<InventoryEntry<'a>>,
    /// Offsets at which an entry may have started and none starts now, at most
    /// [`crate::limits::MAX_INVENTORY_PAGE_ENTRIES`].
    pub gone: Vec<u64>,
    /// What [`Follow::since`] must be in the next question.
    pub cursor: u64,
    /// Offset of the first entry of the next page; absent on the last page of entries, and in pages of changes.
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
