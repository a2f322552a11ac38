//! Memory that callers name by address: memory of the host can be put and got, memory of devices once it is
//! registered.

use mooncake_device::place_of;
use mooncake_memory::{Mappings, Place, describe_address, is_readable};
use mooncake_types::ErrorCode;

/// Where all of a buffer lies. An invalid range counts as memory of the host; callers of this function refuse it.
///
/// # Errors
/// [`ErrorCode::InvalidParams`] if it is neither memory of the host nor of one device. A warning in the log says what
/// it is.
pub(crate) fn place_of_buffer(start: usize, len: usize) -> Result<Place, ErrorCode> {
    let Some(end) = start.checked_add(len).filter(|_| start > 0 && len > 0) else {
        return Ok(Place::Host);
    };
    match place_of(start, len) {
        Ok(Place::Host) => {}
        Ok(place) => return Ok(place),
        Err(error) => {
            let address = format!("{start:#x}");
            tracing::warn!(address, len, %error, "memory of a GPU cannot be registered");
            return Err(ErrorCode::InvalidParams);
        }
    }
    if is_readable(start) && Mappings::read().access(start as u64, end as u64).read {
        return Ok(Place::Host);
    }
    let what = match is_readable(start) {
        true => "a part of the bytes is mapped nowhere, or must not be read".to_owned(),
        false => describe_address(start as u64),
    };
    tracing::warn!(
        address = format!("{start:#x}"),
        len,
        what,
        "memory of the host or of a GPU can be registered, and this is neither"
    );
    Err(ErrorCode::InvalidParams)
}

/// Describes, for people, the memory at an address that calls refuse.
#[must_use]
pub fn describe_pointer(start: usize) -> String {
    match place_of(start, 1) {
        Ok(Place::Device(ordinal)) => {
            format!("memory of GPU {ordinal}: register it with register_buffer first")
        }
        _ => describe_address(start as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_host_memory_is_refused() {
        let bytes = vec![0_u8; 100_000];
        let start = bytes.as_ptr().addr();
        let refused = Err(ErrorCode::InvalidParams);
        assert_eq!(place_of_buffer(start, bytes.len()), Ok(Place::Host));
        assert_eq!(place_of_buffer(start, 1 << 46), refused);
        assert_eq!(place_of_buffer(4096, 10), refused);
        assert_eq!(place_of_buffer(0, 10), Ok(Place::Host), "others say so");
    }
}
