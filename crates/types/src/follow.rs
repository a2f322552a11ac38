use crate::{InventoryEntry, Seal, SegmentAddress, SegmentId};

/// A request of a standby to a node: for the entries of a ledger, page by page, and then for its changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Follow {
    /// The segment.
    pub segment: SegmentId,
    /// The [`FollowPage::cursor`] of the page before; absent to begin with all entries.
    pub since: Option<u64>,
    /// The [`FollowPage::next`] of the page before; absent to ask for the changes after `since`.
    pub from: Option<u64>,
    /// The leader's seal on following this segment.
    pub seal: Seal,
}

/// The answer of a node to [`Follow`]. A standby first takes all pages of entries, then pages of changes until
/// [`FollowPage::more`] is unset. It then knows the ledger as it was when the node made the last page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowPage<'a> {
    /// Entries, at most [`crate::limits::MAX_INVENTORY_PAGE_ENTRIES`]. An entry replaces all earlier ones that overlap
    /// it.
    pub entries: Vec<InventoryEntry<'a>>,
    /// Offsets at which an entry may have started and none starts now, at most
    /// [`crate::limits::MAX_INVENTORY_PAGE_ENTRIES`].
    pub gone: Vec<u64>,
    /// The [`Follow::since`] of the next request.
    pub cursor: u64,
    /// The offset of the first entry of the next page; absent on the last page of entries, and in pages of changes.
    pub next: Option<u64>,
    /// Whether more has changed than this page holds.
    pub more: bool,
}

/// A mounted segment, as a leader lists it for a standby.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSegment {
    /// Its id, name and endpoint.
    pub address: SegmentAddress,
    /// Its length in bytes.
    pub len: u64,
    /// The leader's seal on following it.
    pub seal: Seal,
}

/// One page of the mounted segments; see [`crate::Reply::Segments`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentPage {
    /// The segments, at most [`crate::limits::MAX_LISTED_SEGMENTS`].
    pub segments: Vec<ListedSegment>,
    /// The start of the next page; absent on the last page.
    pub next: Option<u32>,
    /// Why puts may be refused at the moment, for people. Only on the first page; empty if the master does not say. It
    /// is cut to [`crate::limits::MAX_TASK_MESSAGE_BYTES`].
    pub put_obstacle: String,
}
