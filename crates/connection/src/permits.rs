use std::sync::{Condvar, Mutex, PoisonError};

/// A counting semaphore.
#[derive(Debug)]
pub struct Permits {
    left: Mutex<usize>,
    returned: Condvar,
}

/// One permit, given back on drop.
#[derive(Debug)]
pub struct Permit<'a>(&'a Permits);

impl Permits {
    /// `count` permits, at least one.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { left: Mutex::new(count.max(1)), returned: Condvar::new() }
    }

    /// Takes a permit; waits while all are taken.
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
