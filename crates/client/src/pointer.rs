//! Addresses that callers name: only memory of the host can be put and got.

use std::time::Instant;

use mooncake_memory::{Mappings, describe_address, is_readable};
use mooncake_types::{ErrorCode, LogLimiter};

/// Whether all of a buffer is host memory. What is no range at all is for others to refuse.
///
/// # Errors
/// [`ErrorCode::InvalidParams`], and a warning that says what it is.
pub(crate) fn check_buffer(start: usize, len: usize) -> Result<(), ErrorCode> {
    let Some(end) = start.checked_add(len).filter(|_| start > 0 && len > 0) else { return Ok(()) };
    if is_readable(start) && Mappings::read().access(start as u64, end as u64).read {
        return Ok(());
    }
    let what = match is_readable(start) {
        true => "a part of the bytes is mapped nowhere, or must not be read".to_owned(),
        false => describe_address(start as u64),
    };
    tracing::warn!(
        address = format!("{start:#x}"),
        len,
        what,
        "only host memory can be registered, and this is none that the processor can read"
    );
    Err(ErrorCode::InvalidParams)
}

/// Whether an address that was not registered is one of host memory.
///
/// # Errors
/// As [`check_buffer`].
pub(crate) fn check_start(start: usize) -> Result<(), ErrorCode> {
    static REFUSED: LogLimiter<()> = LogLimiter::new();
    if is_readable(start) {
        return Ok(());
    }
    if let Some(kept_back) = REFUSED.admit((), Instant::now()) {
        let (address, what) = (format!("{start:#x}"), describe_address(start as u64));
        tracing::warn!(
            address,
            what,
            kept_back,
            "only host memory can be put and got, and this is none that the processor can read"
        );
    }
    Err(ErrorCode::InvalidParams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_host_memory_is_refused() {
        let bytes = vec![0_u8; 100_000];
        let start = bytes.as_ptr().addr();
        let refused = Err(ErrorCode::InvalidParams);
        assert_eq!(check_buffer(start, bytes.len()), Ok(()));
        assert_eq!(check_buffer(start, 1 << 46), refused);
        assert_eq!(check_buffer(4096, 10), refused);
        assert_eq!(check_buffer(0, 10), Ok(()), "others say so");
        assert_eq!([check_start(start), check_start(4096)], [Ok(()), refused]);
    }
}
