use std::sync::Arc;

use mooncake_memory::SliceList;
use mooncake_types::{RangeRead, RangeWrite};

/// A range to be read into the caller's memory.
#[derive(Clone, Debug)]
pub struct ReadOp<'m> {
    /// The node's data port, `host:port`.
    pub endpoint: Arc<str>,
    /// What to read.
    pub range: RangeRead,
    /// The destination, of exactly `range.len` bytes. It is in no other use until the read has returned. After a failed read its contents are unspecified.
    pub dst: SliceList<'m>,
}

/// A range to view in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewOp {
    /// The node's data port, `host:port`.
    pub endpoint: Arc<str>,
    /// The range.
    pub range: RangeRead,
}

/// A range to be written from the caller's memory.
#[derive(Clone, Debug)]
pub struct WriteOp<'a> {
    /// The node's data port, `host:port`.
    pub endpoint: Arc<str>,
    /// What to write.
    pub range: RangeWrite<'a>,
    /// The source, of exactly `range.len` bytes. It stays unchanged until the write has returned.
    pub src: SliceList<'a>,
}
