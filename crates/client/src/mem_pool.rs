use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_alloc::{Allocation, Handle, RangeAllocator};
use mooncake_memory::{MapError, RawSlice, Region};

/// Lengths are rounded up to this many bytes: a line of the processor's cache, so that no two ranges share one.
const GRANULE: u64 = 64;

/// Ranges that are handed out of one region and given back.
pub struct MemPool {
    region: Arc<Region>,
    state: Mutex<PoolState>,
    /// Signalled when a range was given back.
    freed: Condvar,
}

struct PoolState {
    allocator: RangeAllocator,
    /// Handles of the ranges of [`MemPool::alloc`], by offset.
    handles: BTreeMap<u64, Handle>,
    /// Number of ranges that calls use for a short time.
    passing: usize,
}

/// A range for the duration of one call; given back when dropped.
pub struct CallRange<'a> {
    pool: &'a MemPool,
    offset: u64,
    len: u64,
    /// `None` once the range is set aside.
    handle: Option<Handle>,
}

/// A range whose call is over for its caller, but not for another process, which may still use it.
#[derive(Debug)]
#[must_use = "the pool has less room until this is taken back"]
pub struct SetAside(Handle);

impl MemPool {
    /// A pool of `len` bytes. The system provides pages when they are first touched.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn map(len: u64) -> Result<Self, MapError> {
        let len = len.checked_next_multiple_of(GRANULE).ok_or(MapError::TooLarge { len })?;
        let region = Arc::new(Region::anonymous(len)?);
        let allocator = RangeAllocator::new(len);
        let state = Mutex::new(PoolState { allocator, handles: BTreeMap::new(), passing: 0 });
        Ok(Self { region, state, freed: Condvar::new() })
    }

    /// The region of the pool.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Hands out `len` bytes until [`MemPool::free`], and returns their address. `None` if no free range is as long.
    #[must_use]
    pub fn alloc(&self, len: u64) -> Option<usize> {
        let mut state = self.lock();
        let Allocation { offset, handle } = state.alloc(len)?;
        state.handles.insert(offset, handle);
        Some(self.start() + offset as usize)
    }

    /// Takes back the range that [`MemPool::alloc`] handed out at this address. False if there is none.
    pub fn free(&self, address: usize) -> bool {
        let Some(offset) = address.checked_sub(self.start()) else { return false };
        let mut state = self.lock();
        let Some(handle) = state.handles.remove(&(offset as u64)) else { return false };
        state.allocator.free(handle);
        drop(state);
        self.freed.notify_all();
        true
    }

    /// Hands out `len` bytes for the duration of a call. Waits at most `patience` for other calls to give ranges
    /// back. `None` if there is no room, and waiting would not help or took too long.
    #[must_use]
    pub fn pass(&self, len: u64, patience: Duration) -> Option<CallRange<'_>> {
        let begun = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(Allocation { offset, handle }) = state.alloc(len) {
                state.passing += 1;
                return Some(CallRange { pool: self, offset, len, handle: Some(handle) });
            }
            let left = patience.saturating_sub(begun.elapsed());
            if state.passing == 0 || left.is_zero() || len > self.region.len() {
                return None;
            }
            let woken = self.freed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes back a range that no other process uses any more.
    pub fn take_back(&self, range: SetAside) {
        self.lock().allocator.free(range.0);
        self.freed.notify_all();
    }

    /// The offset in the pool of `len` bytes at `address`; `None` unless all of them lie in it.
    #[must_use]
    pub fn offset_of(&self, address: usize, len: usize) -> Option<u64> {
        let offset = address.checked_sub(self.start())? as u64;
        let end = offset.checked_add(len as u64)?;
        (end <= self.region.len()).then_some(offset)
    }

    fn start(&self) -> usize {
        self.region.whole().as_ptr().expose_provenance()
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    fn alloc(&mut self, len: u64) -> Option<Allocation> {
        self.allocator.alloc(len.checked_next_multiple_of(GRANULE)?)
    }
}

impl CallRange<'_> {
    /// The memory of the range.
    #[must_use]
    pub fn slice(&self) -> RawSlice<'_> {
        let slice = self.pool.region.slice(self.offset, self.len);
        slice.expect("the pool hands out no range outside of its region")
    }

    /// Offset of the range in the pool.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Keeps the range from others, since another process may go on writing to it, until [`MemPool::take_back`].
    pub fn set_aside(mut self) -> SetAside {
        SetAside(self.handle.take().expect("a range is set aside once"))
    }
}

impl Drop for CallRange<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.passing -= 1;
        if let Some(handle) = self.handle.take() {
            state.allocator.free(handle);
        }
        drop(state);
        // Wake waiters even if the range is set aside: no other may come back, and they must not wait in vain.
        self.pool.freed.notify_all();
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
    fn a_range_that_a_call_passes_through_is_not_freed_by_its_address() {
        let pool = MemPool::map(1 << 12).expect("a little memory");
        let passing = pool.pass(1 << 12, Duration::ZERO).expect("room");
        assert!(!pool.free(pool.start() + passing.offset() as usize));
        assert_eq!(pool.alloc(64), None, "the call has it still");
        drop(passing);
        assert!(pool.alloc(64).is_some());
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
        assert!(pool.pass(1 << 13, NOT_LONG).is_none(), "it will never fit");
        let held = pool.alloc(1 << 12).expect("room");
        assert!(pool.pass(64, NOT_LONG).is_none(), "nobody is about to give any back");
        assert!(pool.free(held));
        let passing = pool.pass(1 << 12, Duration::ZERO).expect("room");
        assert!(pool.pass(64, Duration::from_millis(1)).is_none(), "not in time");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.pass(64, NOT_LONG).map(|it| it.slice().len()));
            drop(passing);
            assert_eq!(waiting.join().expect("it does not panic"), Some(64));
        });
        let aside = pool.pass(1 << 12, Duration::ZERO).expect("all is back").set_aside();
        assert!(pool.pass(64, NOT_LONG).is_none(), "another process uses it");
        pool.take_back(aside);
        assert!(pool.pass(1 << 12, Duration::ZERO).is_some());
    }
}
