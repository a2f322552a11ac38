//! All that there is, page by page.

use std::pin::Pin;

use crate::event::Event;

/// A page of what there is, as events that say so, and where the next page begins.
pub type Page = (Vec<Event>, Option<u64>);

/// Who knows all keys.
pub trait Snapshot: Send + Sync {
    /// The page that begins there; 0 is the first one's beginning. Nothing if nobody knows at this moment.
    fn page(&self, from: u64) -> Pin<Box<dyn Future<Output = Option<Page>> + Send + '_>>;
}
