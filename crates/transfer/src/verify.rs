//! Checks of bytes that come without their checksums: out of shared memory, or one-sided. The node has told a digest of
//! the checksums with the place of the range.

use mooncake_memory::{SlotRow, digest};
use mooncake_types::RangeRead;

use crate::sums::ChunkSums;
use crate::{ReadOp, TransferError};

/// Whether the bytes of a range can be checked by what its slot says. Others are read by message: then the node checks
/// the chunks that are read in part, and the reader those that are read whole.
pub(crate) fn is_checkable(range: &RangeRead, row: &SlotRow) -> bool {
    row.digest.is_some() && range.from == 0 && range.len == row.len
}

/// Checks the bytes of a range that were copied to the caller's memory.
///
/// # Errors
/// [`TransferError::Corrupt`] if they are not those that were written.
pub(crate) fn check(op: &ReadOp, row: &SlotRow) -> Result<(), TransferError> {
    let mut sums = ChunkSums::default();
    sums.restart([op.range.len]);
    op.dst.sub(0, op.range.len).for_each(|piece| sums.feed(piece));
    match row.digest == Some(digest(sums.sums())) {
        true => Ok(()),
        false => Err(TransferError::Corrupt { endpoint: op.endpoint.clone() }),
    }
}
