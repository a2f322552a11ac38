use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Signals that the last user of a registered range has released it.
#[derive(Debug, Default)]
pub(crate) struct Released {
    done: Mutex<bool>,
    changed: Condvar,
}

impl Released {
    /// Waits for the release until the deadline. True if it came.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(done, left, |done| !*done);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Owned by a registered region. It is dropped when the last user releases the region.
#[derive(Debug)]
pub(crate) struct Keeper {
    released: Arc<Released>,
}

impl Keeper {
    pub(crate) fn new(released: &Arc<Released>) -> Box<Keeper> {
        Box::new(Keeper { released: Arc::clone(released) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        *self.released.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.released.changed.notify_all();
    }
}
