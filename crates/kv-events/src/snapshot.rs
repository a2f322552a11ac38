//! Snapshots of all keys, in pages.

use std::pin::Pin;

use crate::event::Event;

/// A page of a snapshot: events that report keys as stored, and where the next page begins.
pub type Page = (Vec<Event>, Option<u64>);

/// Knows all keys of the publisher's owner.
pub trait Snapshot: Send + Sync {
    /// The page that begins at `from`; the first page begins at 0. `None` if the keys are unknown at the moment.
    fn page(&self, from: u64) -> Pin<Box<dyn Future<Output = Option<Page>> + Send + '_>>;
}
