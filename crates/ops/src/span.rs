use mooncake_types::Placement;
use smallvec::SmallVec;

/// Some of an object's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first of them, counted from the start of the object.
    pub from: u64,
    /// Their number.
    pub len: u64,
}

impl Part {
    /// Whether an object of `object_len` bytes has all of them.
    #[must_use]
    pub fn lies_within(&self, object_len: u64) -> bool {
        self.from.checked_add(self.len).is_some_and(|end| end <= object_len)
    }
}

/// Bytes that lie together in an object and in an item's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The first of them, counted from the start of the object.
    pub(super) from: u64,
    /// Their number, not zero.
    pub(super) len: u64,
    /// Their offset in the item's memory, where parts lie one behind the other.
    pub(super) at: u64,
}

impl Span {
    /// All bytes of an object.
    pub(super) const fn whole(object_len: u64) -> Self {
        Self { from: 0, len: object_len, at: 0 }
    }

    /// Whether two have a byte of the object in common.
    pub(super) const fn overlaps(&self, other: &Self) -> bool {
        self.from < other.from + other.len && other.from < self.from + self.len
    }
}

/// The spans of one object that are read or written together; nearly always one.
pub(super) type Spans = SmallVec<[Span; 1]>;

/// The spans of the parts that lie within an object of `object_len` bytes. Adjacent parts become one span.
pub(super) fn spans(parts: &[Part], object_len: u64) -> Spans {
    let mut spans = Spans::with_capacity(parts.len());
    let mut at = 0_u64;
    for part in parts {
        if part.len > 0 && part.lies_within(object_len) {
            match spans.last_mut() {
                Some(last) if (last.from + last.len, last.at + last.len) == (part.from, at) => {
                    last.len += part.len;
                }
                _ => spans.push(Span { from: part.from, len: part.len, at }),
            }
        }
        at = at.saturating_add(part.len);
    }
    spans
}

/// The bytes of a span that lie in one range of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut<'r> {
    /// The range.
    pub(super) range: &'r Placement,
    /// Where the range's bytes begin in the object.
    pub(super) object_offset: u64,
    /// First byte, counted from the start of the range.
    pub(super) from: u64,
    /// Number of bytes, not zero.
    pub(super) len: u64,
    /// Their offset in the item's memory.
    pub(super) at: u64,
}

/// Cuts spans along the ranges of one replica.
pub(super) fn cut<'r>(ranges: &'r [Placement], spans: &[Span], mut each: impl FnMut(Cut<'r>)) {
    for span in spans {
        let span_end = span.from + span.len;
        let mut object_offset = 0;
        for range in ranges {
            let from = span.from.max(object_offset);
            let end = span_end.min(object_offset + range.len);
            if from < end {
                let at = span.at + (from - span.from);
                let (from, len) = (from - object_offset, end - from);
                each(Cut { range, object_offset, from, len, at });
            }
            object_offset += range.len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(from: u64, len: u64) -> Part {
        Part { from, len }
    }

    fn span(from: u64, len: u64, at: u64) -> Span {
        Span { from, len, at }
    }

    #[test]
    fn neighbours_are_joined_and_what_is_not_there_is_left_out() {
        for (parts, expected) in [
            (vec![], vec![]),
            (vec![part(3, 4)], vec![span(3, 4, 0)]),
            (vec![part(0, 4), part(4, 6)], vec![span(0, 10, 0)]),
            (vec![part(4, 6), part(0, 4)], vec![span(4, 6, 0), span(0, 4, 6)]),
            (vec![part(0, 4), part(2, 4)], vec![span(0, 4, 0), span(2, 4, 4)]),
            (vec![part(0, 4), part(4, 0), part(4, 2)], vec![span(0, 6, 0)]),
            (vec![part(0, 4), part(4, 7), part(4, 6)], vec![span(0, 4, 0), span(4, 6, 11)]),
            (vec![part(11, 0), part(u64::MAX, 2), part(10, 1)], vec![]),
            (vec![part(0, u64::MAX), part(0, u64::MAX), part(9, 1)], vec![span(9, 1, u64::MAX)]),
        ] {
            assert_eq!(spans(&parts, 10).to_vec(), expected, "{parts:?}");
        }
    }

    #[test]
    fn spans_are_cut_where_the_ranges_of_a_replica_end() {
        let range =
            |offset, len| Placement { replica: 0, segment: 0, offset, len, ..Placement::default() };
        let ranges = [range(100, 4), range(50, 3), range(70, 3)];
        let cuts = |spans: &[Span]| {
            let mut cuts = Vec::new();
            cut(&ranges, spans, |cut| {
                cuts.push((cut.range.offset, cut.object_offset, cut.from, cut.len, cut.at));
            });
            cuts
        };
        assert_eq!(
            cuts(&[Span::whole(10)]),
            [(100, 0, 0, 4, 0), (50, 4, 0, 3, 4), (70, 7, 0, 3, 7)]
        );
        assert_eq!(
            cuts(&[span(6, 2, 5), span(1, 2, 0)]),
            [(50, 4, 2, 1, 5), (70, 7, 0, 1, 6), (100, 0, 1, 2, 0)]
        );
        assert_eq!(cuts(&[span(4, 3, 0)]), [(50, 4, 0, 3, 0)]);
    }
}
