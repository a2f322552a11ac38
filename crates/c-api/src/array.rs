//! Arrays of C.

use mooncake_client::ErrorCode;

use crate::guard::refuse;

/// The most items of one call. A negative number that became a `size_t` is larger.
const MAX_ITEMS: usize = 1 << 20;

/// Refuses a count that no caller means.
///
/// # Errors
/// `InvalidParams` if the count is too large.
pub(crate) fn check_count(operation: &str, name: &str, count: usize) -> Result<(), ErrorCode> {
    match count <= MAX_ITEMS {
        true => Ok(()),
        false => Err(refuse(operation, name, "is more than 1048576")),
    }
}

/// A copy of the `count` items of an array. Without items, the pointer may be null.
///
/// # Errors
/// `InvalidParams` if the array is null.
///
/// # Safety
/// `items` is null, or points to `count` readable items. [`check_count`] has accepted the count.
pub(crate) unsafe fn items<T: Copy>(
    operation: &str,
    name: &str,
    items: *const T,
    count: usize,
) -> Result<Vec<T>, ErrorCode> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if items.is_null() {
        return Err(refuse(operation, name, "is null"));
    }
    // SAFETY: the caller says that the items are readable. They may lie at any address.
    Ok((0..count).map(|at| unsafe { items.add(at).read_unaligned() }).collect())
}

/// The array of a batch's results, which the caller of the batch lends.
#[derive(Clone, Copy)]
pub(crate) struct Results<T> {
    start: *mut T,
    count: usize,
}

impl<T: Copy> Results<T> {
    /// # Errors
    /// `InvalidParams` if the array is null and has to hold items.
    ///
    /// # Safety
    /// `start` is null, or points to `count` writable items until the last use of the result.
    pub(crate) unsafe fn at(
        operation: &str,
        start: *mut T,
        count: usize,
    ) -> Result<Self, ErrorCode> {
        match start.is_null() && count > 0 {
            true => Err(refuse(operation, "results_out", "is null")),
            false => Ok(Self { start, count }),
        }
    }

    /// Writes the results, one for each item.
    pub(crate) fn fill(self, results: impl IntoIterator<Item = T>) {
        for (at, result) in results.into_iter().take(self.count).enumerate() {
            // SAFETY: `at` is below the count, and `at` of this type was promised so many writable items.
            unsafe { self.start.add(at).write_unaligned(result) };
        }
    }

    /// Writes the same result for each item.
    pub(crate) fn fill_all(self, result: T) {
        self.fill(std::iter::repeat_n(result, self.count));
    }
}
