//! Staging memory, through which bytes pass on their way to a disk and back.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_alloc::{Handle, RangeAllocator};
use mooncake_memory::{MapError, Region};
use mooncake_types::ErrorCode;

/// Buffers begin and end at multiples of this, as disks require.
const PAGE: u64 = 4096;

/// A fixed amount of memory, lent in buffers. Returned buffers are lent again unchanged, so the system clears
/// and provides each page only once.
#[derive(Debug)]
pub(super) struct Staging {
    memory: Arc<Region>,
    /// Free ranges, in pages.
    free: Mutex<RangeAllocator>,
    returned: Condvar,
}

/// Returns a buffer when the last holder of its region drops it.
#[derive(Debug)]
struct Lent {
    staging: Arc<Staging>,
    handle: Handle,
}

impl Staging {
    pub(super) fn new(bytes: u64) -> Result<Arc<Staging>, MapError> {
        let memory = Arc::new(Region::anonymous(bytes.next_multiple_of(PAGE))?);
        let free = Mutex::new(RangeAllocator::new(memory.len() / PAGE));
        Ok(Arc::new(Staging { memory, free, returned: Condvar::new() }))
    }

    /// A buffer of `len` bytes with arbitrary content. Waits at most `patience` for it.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] if no buffer can have this length, [`ErrorCode::ObjectReplicaBusy`] if none
    /// became free in time.
    pub(super) fn take(
        self: &Arc<Self>,
        len: u64,
        patience: Duration,
    ) -> Result<Arc<Region>, ErrorCode> {
        let pages = len.div_ceil(PAGE);
        let mut free = self.lock();
        if len == 0 || pages > free.capacity() {
            return Err(ErrorCode::InvalidParams);
        }
        let until = Instant::now() + patience;
        let allocation = loop {
            if let Some(allocation) = free.alloc(pages) {
                break allocation;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorCode::ObjectReplicaBusy);
            }
            let waited = self.returned.wait_timeout(free, left);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        let offset = free.range(allocation.handle).offset * PAGE;
        drop(free);
        let bytes = self.memory.hold(offset, len).expect("the allocator knows its bounds");
        let lent = Lent { staging: Arc::clone(self), handle: allocation.handle };
        let region = Region::lent_part(bytes, Box::new(lent)).expect("it has a length");
        Ok(Arc::new(region))
    }

    fn lock(&self) -> MutexGuard<'_, RangeAllocator> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.staging.lock().free(self.handle);
        self.staging.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn a_buffer_that_is_given_back_is_lent_again() {
        let staging = Staging::new(8 * PAGE).expect("a little memory");
        let first = staging.take(5 * PAGE + 1, SHORT).expect("it is free");
        assert_eq!(first.len(), 5 * PAGE + 1);
        assert!(first.whole().as_ptr().addr().is_multiple_of(PAGE as usize));
        assert_eq!(staging.take(3 * PAGE, SHORT).err(), Some(ErrorCode::ObjectReplicaBusy));
        assert_eq!(staging.take(9 * PAGE, SHORT).err(), Some(ErrorCode::InvalidParams));
        assert_eq!(staging.take(0, SHORT).err(), Some(ErrorCode::InvalidParams));
        let other = staging.take(2 * PAGE, SHORT).expect("it is free");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| staging.take(3 * PAGE, Duration::from_secs(60)).is_ok());
            drop(first);
            assert!(waits.join().expect("no thread panics"));
        });
        drop(other);
        assert!(staging.take(8 * PAGE, SHORT).is_ok(), "all came back");
    }
}
