//! Reads of memory that is mapped here, without asking its node.

use mooncake_ops::MoveError;
use mooncake_types::{ErrorCode, RangeRead, Version};

use crate::host::Host;
use crate::ids::Process;
use crate::published::Stale;

/// What the bytes that are copied out are right by, if it is the same afterwards.
#[derive(Clone, Copy)]
pub(crate) enum Seen {
    /// The entry, written under this grant.
    Entry(Version),
    /// The slot with this number.
    Slot(u64),
}

/// By what a thread of the same machine may copy a range out, of the node's own process or of another; `None` if it has to
/// ask the node.
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
