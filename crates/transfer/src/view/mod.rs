//! Bytes that callers see where they lie: the node keeps the range as it is until the caller is done with it, or wants it
//! back. Then the caller gets a copy, at the same address, and does not notice.

mod own;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mooncake_memory::{RawSlice, process_id};

pub(crate) use own::OwnViews;

/// The bytes of one range, for as long as this lives, whatever becomes of the object and of its node. Whoever writes them
/// changes them for this view alone.
pub struct View(Arc<Pinned>);

/// A view and what keeps its range as it is.
pub(crate) struct Pinned {
    view: mooncake_memory::View,
    /// `None` once the bytes are the view's own.
    hold: Mutex<Option<Box<dyn Hold>>>,
    process: u32,
}

/// Keeps a range as it is; dropped when it may change.
pub(crate) trait Hold: Send + Sync {}

impl View {
    pub(crate) fn new(pinned: Arc<Pinned>) -> Self {
        Self(pinned)
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.view.len()
    }

    /// Is there nothing in it? Never: there are no views of nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.view.is_empty()
    }

    /// The bytes. The view must outlive every use of them.
    #[must_use]
    pub fn raw(&self) -> RawSlice {
        self.0.view.raw()
    }

    /// Whether the bytes have been copied.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.0.view.is_detached()
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Pinned {
    pub(crate) fn new(view: mooncake_memory::View, hold: Box<dyn Hold>) -> Arc<Self> {
        let hold = Mutex::new(Some(hold));
        Arc::new(Self { view, hold, process: process_id() })
    }

    /// Copies the bytes and lets the range go. False if the system has no memory for them; the range is kept then.
    pub(crate) fn let_go(&self) -> bool {
        let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        if hold.is_none() {
            return true;
        }
        match self.view.detach() {
            Ok(()) => {
                drop(hold.take());
                true
            }
            Err(error) => {
                tracing::warn!(%error, "no memory for a copy of an object that is seen in its segment");
                false
            }
        }
    }
}

impl Drop for Pinned {
    /// The mapping goes first and then, when nobody can look at it any more, what keeps the range.
    fn drop(&mut self) {
        if process_id() != self.process {
            // The parent goes on looking at the range.
            std::mem::forget(self.hold.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
