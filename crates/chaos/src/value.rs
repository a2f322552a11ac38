//! Values that describe themselves: every byte follows from the key, the value's id and the offset.

use mooncake_types::Chance;

/// The length of the head: id and length of the value, eight bytes each.
const HEAD_BYTES: usize = 16;

/// The id of a value. No two writes share one.
pub(crate) type ValueId = u64;

/// The bytes of a value. They are at least as long as the head, whatever `len_bytes` says.
pub(crate) fn make(key: &str, id: ValueId, len_bytes: usize) -> Vec<u8> {
    let len_bytes = len_bytes.max(HEAD_BYTES);
    let mut bytes = Vec::with_capacity(len_bytes + 8);
    bytes.extend(id.to_le_bytes());
    bytes.extend((len_bytes as u64).to_le_bytes());
    let mut chance = Chance::new(key.bytes().fold(id, |sum, byte| {
        sum.rotate_left(7).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(byte)
    }));
    while bytes.len() < len_bytes {
        bytes.extend(chance.bits().to_le_bytes());
    }
    bytes.truncate(len_bytes);
    bytes
}

/// The id of the value, if all bytes are right.
///
/// # Errors
/// The first byte that is wrong, or a length that is.
pub(crate) fn read(key: &str, bytes: &[u8]) -> Result<ValueId, String> {
    let head = |from: usize| bytes.get(from..from + 8).and_then(|word| word.try_into().ok());
    let (Some(id), Some(len)) = (head(0), head(8)) else {
        return Err(format!("{} bytes are shorter than any value", bytes.len()));
    };
    let (id, len) = (u64::from_le_bytes(id), u64::from_le_bytes(len));
    if len != bytes.len() as u64 {
        return Err(format!("value {id:x} of {len} bytes came with {}", bytes.len()));
    }
    let expected = make(key, id, bytes.len());
    match expected.iter().zip(bytes).position(|(expected, byte)| expected != byte) {
        None => Ok(id),
        Some(at) => Err(format!("value {id:x} of {len} bytes is wrong from byte {at} on")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_by_its_bytes_and_no_other_passes() {
        for len in [0, 16, 17, 1000, 4096] {
            let value = make("key", 7, len);
            assert_eq!((read("key", &value), value.len()), (Ok(7), len.max(HEAD_BYTES)));
        }
        let (one, other) = (make("key", 7, 1000), make("key", 8, 1000));
        let torn = [&one[..504], &other[504..]].concat();
        let cut = &one[..992];
        let foreign = make("yek", 7, 1000);
        for (bytes, expected) in [
            (&torn[..], "value 7 of 1000 bytes is wrong from byte 504 on"),
            (cut, "value 7 of 1000 bytes came with 992"),
            (&foreign, "value 7 of 1000 bytes is wrong from byte 16 on"),
            (&one[..15], "15 bytes are shorter than any value"),
        ] {
            assert_eq!(read("key", bytes), Err(expected.to_owned()));
        }
    }
}
