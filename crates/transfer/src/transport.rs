use mooncake_types::Epoch;

use crate::{ReadOp, TransferError, WriteOp};

/// A way to the memory of nodes. Calls block; results are by position. Once a call has returned, nothing reads or
/// writes the callers' memory.
pub trait Transport: Send + Sync {
    /// Reads ranges. `Ok` means: all bytes of that version, checked.
    fn read(&self, ops: &[ReadOp]) -> Vec<Result<(), TransferError>>;

    /// Writes ranges that were granted under `epoch`. `Ok` means: the node's ledger holds the entry, complete.
    fn write(&self, epoch: Epoch, ops: &[WriteOp<'_>]) -> Vec<Result<(), TransferError>>;
}
