//! The pool as a replay sees it.

use mooncake_memory::RawSlice;
use mooncake_types::ErrorCode;

/// A key and where its bytes go to, or come from.
pub(crate) type Item<'a> = (&'a str, RawSlice);

/// What a replay asks of the pool. Results stand in the order of what was asked.
pub(crate) trait Pool: Send {
    fn exist(&self, keys: &[&str]) -> Vec<Result<bool, ErrorCode>>;

    /// The length of each object that was read.
    fn get_into(&self, items: &[Item<'_>]) -> Vec<Result<u64, ErrorCode>>;

    fn put(&self, items: &[Item<'_>]) -> Vec<Result<(), ErrorCode>>;
}
