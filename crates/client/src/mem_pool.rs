use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_alloc::{Handle, RangeAllocator};
use mooncake_memory::{MapError, RawSlice, Region};

/// What lengths are rounded up to, in bytes: a line of the processor's cache, so that no two ranges share one.
const GRANULE: u64 = 64;

/// Ranges that are handed out of one region and given back.
pub struct MemPool {
    region: Arc<Region>,
    books: Mutex<Books>,
    /// Told when a range was given back.
    freed: Condvar,
}

struct Books {
    allocator: RangeAllocator,
    handles: BTreeMap<u64, Handle>,
    /// Ranges that their users give back soon.
    passing: usize,
}

/// A range that a call uses on its way; given back when dropped.
pub struct Passing<'a> {
    pool: &'a MemPool,
    offset: u64,
    len: u64,
    /// Somebody else may still write it: it is never given back.
    forsaken: bool,
}

impl MemPool {
    /// A pool of `len` bytes; pages are provided when they are first touched.
    ///
    /// # Errors
    /// The system's.
    pub fn map(len: u64) -> Result<Self, MapError> {
        let len = len.checked_next_multiple_of(GRANULE).ok_or(MapError::TooLarge { len })?;
        let region = Arc::new(Region::anonymous(len)?);
        let allocator = RangeAllocator::new(len);
        let books = Mutex::new(Books { allocator, handles: BTreeMap::new(), passing: 0 });
        Ok(Self { region, books, freed: Condvar::new() })
    }

    /// The region that it hands ranges out of.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Hands out `len` bytes until [`MemPool::free`]; gives their address. `None` if there are not as many together.
    #[must_use]
    pub fn alloc(&self, len: u64) -> Option<usize> {
        let offset = self.lock().alloc(len)?;
        Some(self.start() + offset as usize)
    }

    /// Takes back what was handed out at this address; false if nothing was.
    pub fn free(&self, address: usize) -> bool {
        let Some(offset) = address.checked_sub(self.start()) else { return false };
        self.give_back(offset as u64, false)
    }

    /// Hands out `len` bytes for as long as a call takes, if they are there.
    #[must_use]
    pub fn pass(&self, len: u64) -> Option<Passing<'_>> {
        let mut books = self.lock();
        let offset = books.alloc(len)?;
        books.passing += 1;
        Some(Passing { pool: self, offset, len, forsaken: false })
    }

    /// As [`MemPool::pass`], and waits for other calls to give ranges back. `None` if that would not help, or took
    /// longer than `patience`.
    #[must_use]
    pub fn pass_waiting(&self, len: u64, patience: Duration) -> Option<Passing<'_>> {
        let begun = Instant::now();
        let mut books = self.lock();
        loop {
            if let Some(offset) = books.alloc(len) {
                books.passing += 1;
                return Some(Passing { pool: self, offset, len, forsaken: false });
            }
            let left = patience.saturating_sub(begun.elapsed());
            if books.passing == 0 || left.is_zero() || len > self.region.len() {
                return None;
            }
            let woken = self.freed.wait_timeout(books, left);
            books = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How far into the pool `len` bytes at `address` start; `None` if not all of them lie in it.
    #[must_use]
    pub fn offset_of(&self, address: usize, len: usize) -> Option<u64> {
        let offset = address.checked_sub(self.start())? as u64;
        let end = offset.checked_add(len as u64)?;
        (end <= self.region.len()).then_some(offset)
    }

    fn start(&self) -> usize {
        self.region.whole().as_ptr().expose_provenance()
    }

    fn give_back(&self, offset: u64, passing: bool) -> bool {
        let mut books = self.lock();
        let Some(handle) = books.handles.remove(&offset) else { return false };
        books.allocator.free(handle);
        books.passing -= usize::from(passing);
        drop(books);
        self.freed.notify_all();
        true
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn alloc(&mut self, len: u64) -> Option<u64> {
        let rounded = len.checked_next_multiple_of(GRANULE)?;
        let allocation = self.allocator.alloc(rounded)?;
        self.handles.insert(allocation.offset, allocation.handle);
        Some(allocation.offset)
    }
}

impl Passing<'_> {
    /// The range.
    #[must_use]
    pub fn slice(&self) -> RawSlice {
        let slice = self.pool.region.slice(self.offset, self.len);
        slice.expect("the pool hands out no range outside of its region")
    }

    /// Where it starts in the pool.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Never gives the range back: another process may go on writing to it.
    pub fn forsake(mut self) {
        self.forsaken = true;
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        if self.forsaken {
            self.pool.lock().passing -= 1;
            // Who waited for this range waits in vain.
            self.pool.freed.notify_all();
        } else {
            self.pool.give_back(self.offset, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_LONG: Duration = Duration::from_secs(20);

    #[test]
    fn ranges_lie_apart_and_come_back() {
        let pool = MemPool::map(1 << 16).expect("a little memory");
        let (one, two) = (pool.alloc(10).expect("room"), pool.alloc(100).expect("room"));
        assert_eq!((one % 64, two % 64), (0, 0));
        assert!(one.abs_diff(two) >= 64);
        assert_eq!(pool.alloc(1 << 16), None);
        assert!(pool.free(one) && !pool.free(one) && !pool.free(two + 1) && !pool.free(0));
        assert!(pool.free(two) && pool.alloc(1 << 16).is_some());
        assert_eq!([pool.alloc(1), pool.alloc(0), pool.alloc(u64::MAX)], [None; 3]);
    }

    #[test]
    fn addresses_inside_are_told_from_those_outside() {
        let pool = MemPool::map(1 << 12).expect("a little memory");
        let start = pool.start();
        for (address, len, expected) in [
            (start, 1 << 12, Some(0)),
            (start + 100, 1, Some(100)),
            (start + 4095, 1, Some(4095)),
            (start + 4095, 2, None),
            (start - 1, 1, None),
            (start, usize::MAX, None),
        ] {
            assert_eq!(pool.offset_of(address, len), expected);
        }
    }

    #[test]
    fn who_finds_no_room_waits_for_calls_under_way_only() {
        let pool = MemPool::map(1 << 12).expect("a little memory");
        assert!(pool.pass_waiting(1 << 13, NOT_LONG).is_none(), "it will never fit");
        let held = pool.alloc(1 << 12).expect("room");
        assert!(pool.pass_waiting(64, NOT_LONG).is_none(), "nobody is about to give any back");
        assert!(pool.free(held));
        let passing = pool.pass(1 << 12).expect("room");
        assert!(pool.pass_waiting(64, Duration::from_millis(1)).is_none(), "not in time");
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| pool.pass_waiting(64, NOT_LONG).map(|it| it.slice().len()));
            drop(passing);
            assert_eq!(waiting.join().expect("it does not panic"), Some(64));
        });
        pool.pass(1 << 12).expect("all is back").forsake();
        assert!(pool.pass_waiting(64, NOT_LONG).is_none(), "it is lost for good");
    }
}
