//! Reads of memory that this process maps, without a question to its node.

use mooncake_ops::MoveError;
use mooncake_types::{ErrorCode, RangeRead, Version};

use crate::host::Host;
use crate::ids::Process;
use crate::published::Stale;

/// How a reader finds out, after its copy, that the bytes are right: this must not have changed.
#[derive(Clone, Copy)]
pub(crate) enum Seen {
    /// The entry still has this grant.
    Entry(Version),
    /// The range still has the slot with this number.
    Slot(u64),
}

/// What a reader on the same host must check after copying a range. Readers of the node's own process check the entry,
/// others the slot. `None` if the reader must ask the node.
pub(crate) fn see(
    range: &RangeRead,
    is_own: bool,
    host: &Host,
) -> Option<Result<(Process, Seen), MoveError>> {
    if !host.is_alive {
        return Some(Err(MoveError::Broken));
    }
    let seen = match is_own {
        true => read_result(host.find(range)).map(Seen::Entry),
        false => host.find_slot(range)?.map(Seen::Slot).map_err(|Stale| MoveError::Stale),
    };
    Some(seen.map(|seen| (host.process, seen)))
}

pub(crate) fn read_result<T>(found: Result<T, ErrorCode>) -> Result<T, MoveError> {
    found.map_err(|code| match code {
        ErrorCode::ObjectNotFound => MoveError::Stale,
        ErrorCode::TransferFail => MoveError::Broken,
        code => MoveError::Refused(code),
    })
}
