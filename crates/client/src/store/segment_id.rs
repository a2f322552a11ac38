use mooncake_types::{ErrorCode, SegmentId};

/// Parses a segment id: 32 hexadecimal digits, as ids are printed, or two decimal numbers with a hyphen between them,
/// as the C++ package prints them.
///
/// # Errors
/// [`ErrorCode::InvalidParams`] if it is neither.
pub fn parse_segment_id(text: &str) -> Result<SegmentId, ErrorCode> {
    let digits = |part: &str, radix| part.bytes().all(|byte| char::from(byte).is_digit(radix));
    let id = match text.split_once('-') {
        Some((first, second)) if digits(first, 10) && digits(second, 10) => {
            let number = |part: &str| part.parse::<u64>().ok().map(u128::from);
            number(first).zip(number(second)).map(|(first, second)| first << 64 | second)
        }
        None if text.len() == 32 && digits(text, 16) => u128::from_str_radix(text, 16).ok(),
        _ => None,
    };
    id.map(SegmentId).ok_or(ErrorCode::InvalidParams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_printed_by_either_package() {
        let id = SegmentId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(parse_segment_id(&id.to_string()), Ok(id));
        assert_eq!(parse_segment_id("1-2"), Ok(SegmentId(1 << 64 | 2)));
        let most = format!("{}-{}", u64::MAX, u64::MAX);
        assert_eq!(parse_segment_id(&most), Ok(SegmentId(u128::MAX)));
        for text in [
            "",
            "-",
            "1-",
            "-1",
            "1-2-3",
            "+1-2",
            "1-18446744073709551616",
            "0123456789abcdef",
            "0123456789abcdef0123456789abcdeg",
            "+123456789abcdef0123456789abcdef",
        ] {
            assert_eq!(parse_segment_id(text), Err(ErrorCode::InvalidParams), "{text}");
        }
    }
}
