//! Views: callers see bytes in place. The node keeps the range unchanged until the caller is done. If the node
//! recalls it before, the view becomes a copy at the same address, and the caller does not notice.

mod own;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mooncake_memory::{RawSlice, process_id};

pub(crate) use own::OwnViews;

/// The bytes of one range, valid for as long as this lives, even if the object or its node goes. A write changes them
/// for this view alone.
pub struct View(Arc<Pinned>);

/// A view, and the hold that keeps its range unchanged.
pub(crate) struct Pinned {
    view: mooncake_memory::View,
    /// `None` once the bytes are the view's own.
    hold: Mutex<Option<Box<dyn Hold>>>,
    process: u32,
}

/// Keeps a range unchanged until it is dropped.
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

    /// Whether it has no bytes. No view is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.view.is_empty()
    }

    /// The bytes, for as long as the view is borrowed.
    #[must_use]
    pub fn raw(&self) -> RawSlice<'_> {
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

    /// Copies the bytes, and releases the range. False if the system has no memory for the copy; then the range is
    /// kept.
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
    /// The fields drop in order: first the mapping, and the hold only when no thread can see the range.
    fn drop(&mut self) {
        if process_id() != self.process {
            // In a forked child, the hold is not released: the parent still views the range.
            std::mem::forget(self.hold.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
