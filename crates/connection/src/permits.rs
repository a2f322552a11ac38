use std::sync::{Condvar, Mutex, PoisonError};

/// A number of things that may go on at once; further ones wait.
#[derive(Debug)]
pub struct Permits {
    left: Mutex<usize>,
    returned: Condvar,
}

/// One of them; given back when dropped.
#[derive(Debug)]
pub struct Permit<'a>(&'a Permits);

impl Permits {
    /// So many, at least one.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { left: Mutex::new(count.max(1)), returned: Condvar::new() }
    }

    /// Waits for one.
    pub fn take(&self) -> Permit<'_> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.returned.wait_while(left, |left| *left == 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.returned.notify_one();
    }
}
