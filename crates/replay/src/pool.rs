//! The calls of a replay to the pool.

use mooncake_memory::RawSlice;
use mooncake_types::ErrorCode;

/// A key, and the memory that its bytes are read to or written from.
pub(crate) type Item<'a> = (&'a str, RawSlice<'a>);

/// A pool, as a replay uses it. Results have the order of the items.
pub(crate) trait Pool: Send {
    fn exist(&self, keys: &[&str]) -> Vec<Result<bool, ErrorCode>>;

    /// Returns the length of each object that was read.
    fn get_into(&self, items: &[Item<'_>]) -> Vec<Result<u64, ErrorCode>>;

    fn put(&self, items: &[Item<'_>]) -> Vec<Result<(), ErrorCode>>;
}
