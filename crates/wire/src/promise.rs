use mooncake_types::RangeRead;

use crate::{Kind, read};

/// Appends a [`Kind::Promise`] frame: ranges of which the sender has copies. [`crate::decode_read`] decodes the frame.
///
/// # Panics
/// As [`crate::encode_read`].
pub fn encode_promise(out: &mut Vec<u8>, request_id: u64, ranges: &[RangeRead]) {
    read::append_ranges(out, (Kind::Promise, request_id), ranges);
}
