use mooncake_types::{Placement, SegmentAddress, SegmentId, limits};

/// Whether placements describe whole replicas of an object of `len` bytes. They come from the network, and code after
/// this check indexes with them without further checks.
pub(super) fn placements_are_whole(
    placements: &[Placement],
    segments: &[SegmentAddress],
    len: u64,
) -> bool {
    let mut seen = 0u32;
    let each_is_whole = replicas(placements).all(|ranges| {
        let number = ranges[0].replica;
        let bit = 1u32.checked_shl(number).unwrap_or(0);
        let fresh = bit != 0 && seen & bit == 0;
        seen |= bit;
        fresh && ranges.len() <= limits::MAX_STRIPES && covers(ranges, segments, len)
    });
    each_is_whole && seen != 0
}

fn covers(ranges: &[Placement], segments: &[SegmentAddress], len: u64) -> bool {
    let mut total = 0u64;
    for range in ranges {
        let inside = range.offset.checked_add(range.len).is_some();
        if range.len == 0 || !inside || range.segment as usize >= segments.len() {
            return false;
        }
        let Some(sum) = total.checked_add(range.len) else { return false };
        total = sum;
    }
    total == len
}

/// The ranges of each replica, in the order of the object's bytes.
pub(super) fn replicas(placements: &[Placement]) -> impl Iterator<Item = &[Placement]> {
    placements.chunk_by(|one, next| one.replica == next.replica)
}

/// Whether all of a replica lies in segments of `own`.
pub(super) fn is_own(ranges: &[Placement], segments: &[SegmentAddress], own: &[SegmentId]) -> bool {
    !own.is_empty() && ranges.iter().all(|range| own.contains(&segments[range.segment as usize].id))
}

#[cfg(test)]
mod tests {
    use mooncake_types::Medium;

    use super::*;

    fn placement(replica: u32, segment: u32, offset: u64, len: u64) -> Placement {
        Placement { replica, segment, offset, len, ..Placement::default() }
    }

    #[test]
    fn only_whole_replicas_in_known_segments_pass() {
        let segments = [SegmentAddress {
            id: SegmentId(1),
            name: "n".into(),
            endpoint: "e".into(),
            medium: Medium::Memory,
        }];
        let stripes = |count: u32| (0..count).map(|_| placement(0, 0, 0, 1)).collect::<Vec<_>>();
        for (placements, len, expected) in [
            (vec![placement(0, 0, 8, 10)], 10, true),
            (vec![placement(3, 0, 8, 10)], 10, true),
            (vec![placement(0, 0, 8, 4), placement(0, 0, 20, 6)], 10, true),
            (vec![placement(0, 0, 8, 10), placement(1, 0, 20, 10)], 10, true),
            (stripes(64), 64, true),
            (stripes(65), 65, false),
            (vec![], 10, false),
            (vec![placement(0, 1, 8, 10)], 10, false),
            (vec![placement(0, 0, 8, 9)], 10, false),
            (vec![placement(0, 0, 8, 11)], 10, false),
            (vec![placement(0, 0, 8, 0)], 0, false),
            (vec![placement(32, 0, 8, 10)], 10, false),
            (vec![placement(0, 0, u64::MAX, 10)], 10, false),
            (vec![placement(0, 0, 0, u64::MAX), placement(0, 0, 0, 11)], 10, false),
            (vec![placement(0, 0, 8, 10), placement(0, 0, 20, 10)], 10, false),
            (
                vec![placement(0, 0, 8, 10), placement(1, 0, 8, 10), placement(0, 0, 8, 10)],
                10,
                false,
            ),
        ] {
            assert_eq!(
                placements_are_whole(&placements, &segments, len),
                expected,
                "{placements:?} for {len} bytes"
            );
        }
    }
}
