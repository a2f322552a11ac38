/// Longest granule, in bytes: one page, so that long ranges waste almost nothing. Rounding adds less than this to a
/// length.
pub const MAX_GRANULE: u64 = 4096;

/// The length to reserve for `len` bytes: rounded up to a granule of at most 1/64 of `len`. So lengths that differ by
/// a few bytes become equal, and the hole that one object leaves fits the next.
pub(crate) fn reserve_len(len: u64) -> u64 {
    debug_assert!(len > 0);
    let granule = if len < 128 { 1 } else { (1 << (len.ilog2() - 6)).min(MAX_GRANULE) };
    // A granule is a power of two, so rounding needs no division.
    len.checked_add(granule - 1).map_or(len, |end| end & !(granule - 1))
}

#[cfg(test)]
mod tests {
    use super::reserve_len;

    #[test]
    fn lengths_round_up_to_their_granule() {
        let rows = [
            (1, 1),
            (63, 63),
            (127, 127),
            (128, 128),
            (129, 130),
            (255, 256),
            (257, 260),
            (100_000, 100_352),
            ((1 << 18) + 1, (1 << 18) + 4096),
            ((1 << 40) + 1, (1 << 40) + 4096),
            (u64::MAX, u64::MAX),
        ];
        for (len, expected) in rows {
            assert_eq!(reserve_len(len), expected, "length {len}");
        }
    }

    #[test]
    fn rounding_wastes_at_most_one_part_in_64() {
        for len in (1..100_000).chain((1 << 20)..(1 << 20) + 10_000) {
            let reserved = reserve_len(len);
            assert!(reserved >= len && (reserved - len) * 64 <= len, "length {len}: {reserved}");
            assert_eq!(reserve_len(reserved), reserved, "length {len}");
        }
    }
}
