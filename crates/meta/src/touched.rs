//! How many records a thread has looked at, for tests that bound what one turn does. Only builds with debug assertions
//! count.

#[cfg(debug_assertions)]
std::thread_local! {
    static TOUCHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many records of objects, ranges, segments and members the calling thread has looked at so far, in all its pools.
#[cfg(debug_assertions)]
#[must_use]
pub fn records_touched() -> u64 {
    TOUCHED.get()
}

/// The calling thread looks at one more record.
#[cfg(debug_assertions)]
pub(crate) fn touch() {
    TOUCHED.set(TOUCHED.get() + 1);
}

/// The calling thread looks at one more record.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) const fn touch() {}
