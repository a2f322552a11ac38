use std::io;

use mooncake_memory::{RawSlice, SliceList, copy_to_caller, scatter_to_caller};

use crate::TransferError;

/// Copies a segment's memory to a caller's.
///
/// # Errors
/// [`TransferError::BadMemory`] if the caller's memory is not accessible.
pub(crate) fn copy_out(memory: RawSlice, dst: &SliceList) -> Result<(), TransferError> {
    let copied = match dst.slices() {
        &[piece] => copy_to_caller(memory, piece.sub(0, memory.len())),
        _ => scatter_to_caller(memory, dst.sub(0, memory.len() as u64)),
    };
    copied.map_err(|error| bad_memory(&error))
}

/// The error of a copy that failed. The segment's memory stays mapped while its ticket exists, so the caller's is at
/// fault.
pub(crate) fn bad_memory(error: &io::Error) -> TransferError {
    TransferError::BadMemory { reason: error.to_string() }
}
