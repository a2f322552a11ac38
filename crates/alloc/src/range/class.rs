//! Size classes of free ranges. Each length below 64 is a class of its own; each power of two above is cut into 32
//! classes of equal width. A class is a number; classes are ordered as their lengths are.

/// Classes per power of two.
pub(crate) const SUBDIVISIONS: u32 = 1 << SUB_BITS;
const SUB_BITS: u32 = 5;

/// One more than the highest class.
#[cfg(test)]
const END: u32 = (64 - SUB_BITS + 1) * SUBDIVISIONS;

/// The class that holds `len`.
pub(crate) fn floor(len: u64) -> u32 {
    if len < u64::from(SUBDIVISIONS) {
        return len as u32;
    }
    let shift = len.ilog2() - SUB_BITS;
    (shift + 1) * SUBDIVISIONS + ((len >> shift) as u32 & (SUBDIVISIONS - 1))
}

/// The class that holds `len`, and the lowest class whose members are all at least `len`. Both are the same if `len`
/// is the shortest length of its class; otherwise the second is the next class.
pub(crate) fn around(len: u64) -> (u32, u32) {
    let own = floor(len);
    let shift = (len | u64::from(SUBDIVISIONS)).ilog2() - SUB_BITS;
    let is_shortest = len & ((1 << shift) - 1) == 0;
    (own, own + u32::from(!is_shortest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shortest length of a class.
    fn shortest(class: u32) -> u64 {
        let (level, sub) = (class / SUBDIVISIONS, u64::from(class % SUBDIVISIONS));
        if level == 0 { sub } else { (u64::from(SUBDIVISIONS) + sub) << (level - 1) }
    }

    #[test]
    fn classes_are_ordered_and_leave_no_length_out() {
        for class in 1..END {
            let len = shortest(class);
            assert_eq!((floor(len), around(len)), (class, (class, class)), "length {len}");
            let above = if shortest(class - 1) == len - 1 { class - 1 } else { class };
            assert_eq!(around(len - 1), (class - 1, above), "length {}", len - 1);
        }
        assert_eq!(around(u64::MAX), (END - 1, END));
    }

    #[test]
    fn a_class_is_no_wider_than_one_part_in_32_of_its_lengths() {
        for class in 1..END - 1 {
            let (low, next) = (shortest(class), shortest(class + 1));
            assert!(next - low <= (low / 32).max(1), "class {class}");
        }
    }
}
