use std::ops::Range;

/// The bytes of an entry that are in place: ascending ranges with a gap between each two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    pieces: Vec<Range<u64>>,
}

impl Coverage {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether it covers all of `len` bytes.
    pub(super) fn is_all_of(&self, len: u64) -> bool {
        matches!(&self.pieces[..], [one] if *one == (0..len))
    }

    /// Whether it covers all of a part.
    pub(super) fn holds(&self, part: &Range<u64>) -> bool {
        self.pieces.iter().any(|piece| piece.start <= part.start && part.end <= piece.end)
    }

    /// Most pieces that there can be while `part` is written again: after its removal, or after its insertion.
    pub(super) fn most_pieces(&self, part: &Range<u64>) -> usize {
        let cut = self.overlapped(part);
        let kept = match &self.pieces[cut.clone()] {
            [] => 0,
            [first, ..] => {
                let last = &self.pieces[cut.end - 1];
                usize::from(first.start < part.start) + usize::from(last.end > part.end)
            }
        };
        let without = self.pieces.len() - cut.len() + kept;
        let with = self.pieces.len() - self.touched(part).len() + 1;
        with.max(without)
    }

    /// Adds a part.
    pub(super) fn insert(&mut self, part: Range<u64>) {
        let touched = self.touched(&part);
        let joined = match &self.pieces[touched.clone()] {
            [] => part,
            [first, ..] => {
                let last = &self.pieces[touched.end - 1];
                first.start.min(part.start)..last.end.max(part.end)
            }
        };
        self.pieces.splice(touched, std::iter::once(joined));
    }

    /// Removes the bytes of a part that are covered.
    pub(super) fn remove(&mut self, part: &Range<u64>) {
        let cut = self.overlapped(part);
        let [first, ..] = &self.pieces[cut.clone()] else { return };
        let left = first.start..part.start;
        let right = part.end..self.pieces[cut.end - 1].end;
        let kept = [left, right].into_iter().filter(|piece| !piece.is_empty());
        self.pieces.splice(cut, kept);
    }

    /// Indices of the pieces that overlap a part.
    fn overlapped(&self, part: &Range<u64>) -> Range<usize> {
        let start = self.pieces.partition_point(|piece| piece.end <= part.start);
        start..self.pieces.partition_point(|piece| piece.start < part.end).max(start)
    }

    /// Indices of the pieces that merge with a part: those that overlap it or border on it.
    fn touched(&self, part: &Range<u64>) -> Range<usize> {
        let start = self.pieces.partition_point(|piece| piece.end < part.start);
        start..self.pieces.partition_point(|piece| piece.start <= part.end).max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 8;

    /// The coverage of the bytes whose bits are set.
    fn of_bits(bits: u64) -> Coverage {
        let mut pieces: Vec<Range<u64>> = Vec::new();
        for byte in (0..LEN).filter(|byte| bits >> byte & 1 == 1) {
            match pieces.last_mut() {
                Some(piece) if piece.end == byte => piece.end += 1,
                _ => pieces.push(byte..byte + 1),
            }
        }
        Coverage { pieces }
    }

    #[test]
    fn every_part_of_every_coverage_goes_in_and_comes_out() {
        for bits in 0..1 << LEN {
            let coverage = of_bits(bits);
            assert_eq!(coverage.is_empty(), bits == 0);
            assert_eq!(coverage.is_all_of(LEN), bits == (1 << LEN) - 1);
            for (start, end) in
                (0..LEN).flat_map(|start| (start + 1..=LEN).map(move |e| (start, e)))
            {
                let part_bits = (1 << end) - (1 << start);
                let (mut with, mut without) = (coverage.clone(), coverage.clone());
                with.insert(start..end);
                without.remove(&(start..end));
                assert_eq!(with, of_bits(bits | part_bits), "{coverage:?} and {start}..{end}");
                assert_eq!(without, of_bits(bits & !part_bits), "{coverage:?} but {start}..{end}");
                let most = with.pieces.len().max(without.pieces.len());
                assert_eq!(
                    coverage.most_pieces(&(start..end)),
                    most,
                    "{coverage:?} {start}..{end}"
                );
            }
        }
    }
}
