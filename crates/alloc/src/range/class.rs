//! Size classes of free ranges: lengths below 64 have a class each, and every power of two above is cut into
//! 32 classes of equal width. A class is a number; classes are ordered as their lengths are.

/// Classes per power of two.
pub(crate) const SUBDIVISIONS: u32 = 1 << SUB_BITS;
const SUB_BITS: u32 = 5;

/// One more than the greatest class.
const END: u32 = (64 - SUB_BITS + 1) * SUBDIVISIONS;

/// The class that holds `len`.
pub(crate) fn floor(len: u64) -> u32 {
    if len < u64::from(SUBDIVISIONS) {
        return len as u32;
    }
    let shift = len.ilog2() - SUB_BITS;
    (shift + 1) * SUBDIVISIONS + ((len >> shift) as u32 & (SUBDIVISIONS - 1))
}

/// The lowest class of which every member is at least `len`.
pub(crate) fn ceil(len: u64) -> u32 {
    if len < u64::from(SUBDIVISIONS) {
        return len as u32;
    }
    let width = 1 << (len.ilog2() - SUB_BITS);
    len.checked_add(width - 1).map_or(END, floor)
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
            assert_eq!((floor(len), ceil(len)), (class, class), "length {len}");
            assert_eq!(floor(len - 1), class - 1, "length {}", len - 1);
            assert_eq!(
                ceil(len - 1),
                if shortest(class - 1) == len - 1 { class - 1 } else { class }
            );
        }
        assert_eq!((floor(u64::MAX), ceil(u64::MAX)), (END - 1, END));
    }

    #[test]
    fn a_class_is_no_wider_than_one_part_in_32_of_its_lengths() {
        for class in 1..END - 1 {
            let (low, next) = (shortest(class), shortest(class + 1));
            assert!(next - low <= (low / 32).max(1), "class {class}");
        }
    }
}
