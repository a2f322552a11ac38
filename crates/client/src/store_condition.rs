use std::sync::atomic::{AtomicBool, Ordering};

/// The condition of a store. Its heartbeat keeps this up to date, and its HTTP server reports it.
#[derive(Debug, Default)]
pub(crate) struct StoreCondition {
    is_open: AtomicBool,
    is_well: AtomicBool,
    is_unreached: AtomicBool,
}

impl StoreCondition {
    /// Whether the master answered the last ping; `None` unless the store is open.
    pub(crate) fn health(&self) -> Option<bool> {
        self.is_open.load(Ordering::Relaxed).then(|| self.is_well())
    }

    /// Sets whether the store is open.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    /// Whether the master answered the last ping.
    pub(crate) fn is_well(&self) -> bool {
        self.is_well.load(Ordering::Relaxed)
    }

    pub(crate) fn set_well(&self, is_well: bool) {
        self.is_well.store(is_well, Ordering::Relaxed);
    }

    /// Whether others cannot reach the store at its endpoint.
    pub(crate) fn is_unreached(&self) -> bool {
        self.is_unreached.load(Ordering::Relaxed)
    }

    /// Sets whether others cannot reach the store. Returns whether that has changed.
    pub(crate) fn set_unreached(&self, is_unreached: bool) -> bool {
        self.is_unreached.swap(is_unreached, Ordering::Relaxed) != is_unreached
    }
}
