use std::sync::Arc;

use mooncake_memory::SliceList;
use mooncake_types::{RangeRead, RangeWrite};

use crate::TransferError;

/// A range to be read into the caller's memory.
#[derive(Clone, Debug)]
pub struct ReadOp {
    /// The node's data port, `host:port`.
    pub endpoint: Arc<str>,
    /// What to read.
    pub range: RangeRead,
    /// Where to: exactly `range.len` bytes. They stay valid, and nobody else uses them, until the read has returned;
    /// what they hold after a failed read is unspecified.
    pub dst: SliceList,
}

/// A range whose bytes are to be seen where they lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewOp {
    /// The node's data port, `host:port`.
    pub endpoint: Arc<str>,
    /// What to see.
    pub range: RangeRead,
}

/// A range to be written from the caller's memory.
#[derive(Clone, Debug)]
pub struct WriteOp<'a> {
    /// The node's data port, `host:port`.
    pub endpoint: Arc<str>,
    /// What to write.
    pub range: RangeWrite<'a>,
    /// Where from: exactly `range.len` bytes. They stay valid and unchanged until the write has returned.
    pub src: SliceList,
}

/// The result of each operation of a call; `None` for those that are for another transport.
pub(crate) type Settled = Vec<Option<Result<(), TransferError>>>;
