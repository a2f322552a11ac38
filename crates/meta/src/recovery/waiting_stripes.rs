//! Waiting stripes: reported pieces of one version that do not make up a replica yet. A replica is a chain of pieces
//! in which each begins where another ends, from the first byte to the last.

use std::collections::BTreeSet;

use mooncake_types::limits;

/// The pieces of one version that belong to no replica yet.
#[derive(Debug)]
pub(crate) struct WaitingStripes {
    /// The object record that owns their ranges.
    pub(super) object: u32,
    pub(super) found: Vec<FoundPiece>,
    /// The encoded attributes of the object.
    pub(super) attributes: Vec<u8>,
}

/// A piece of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundPiece {
    /// Its offset in the object, in bytes; `len` is its length.
    pub(super) object_offset: u64,
    pub(super) len: u64,
    pub(super) segment: u32,
    pub(super) range: u32,
}

impl WaitingStripes {
    /// The indices in `found` of pieces that make up a replica of `object_len` bytes, in the order of the bytes.
    pub(crate) fn replica(&self, object_len: u64) -> Option<Vec<usize>> {
        let sum: u64 = self.found.iter().map(|piece| piece.len).sum();
        if sum < object_len {
            return None;
        }
        let mut chain = Vec::new();
        let mut dead_ends = BTreeSet::new();
        self.extend(0, object_len, &mut chain, &mut dead_ends).then_some(chain)
    }

    /// Extends a chain that ends at `at` to the end of the object. It tries pieces on segments that the chain already
    /// uses first. So pieces on other segments remain for other replicas.
    fn extend(
        &self,
        at: u64,
        end: u64,
        chain: &mut Vec<usize>,
        dead_ends: &mut BTreeSet<u64>,
    ) -> bool {
        if at == end {
            return true;
        }
        if chain.len() == limits::MAX_STRIPES || dead_ends.contains(&at) {
            return false;
        }
        let begins_here = |&place: &usize| self.found[place].object_offset == at;
        let mut candidates: Vec<usize> = (0..self.found.len()).filter(begins_here).collect();
        let uses = |place: usize| {
            chain.iter().any(|&other| self.found[other].segment == self.found[place].segment)
        };
        candidates.sort_by_key(|&place| !uses(place));
        for place in candidates {
            chain.push(place);
            if self.extend(at + self.found[place].len, end, chain, dead_ends) {
                return true;
            }
            chain.pop();
        }
        dead_ends.insert(at);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offset in the object, length, segment.
    type Piece = (u64, u64, u32);

    fn pieces(found: &[Piece]) -> WaitingStripes {
        let found = found.iter().zip(0..).map(|(&(object_offset, len, segment), range)| {
            FoundPiece { object_offset, len, segment, range }
        });
        WaitingStripes { object: 0, found: found.collect(), attributes: Vec::new() }
    }

    #[test]
    fn a_replica_is_a_chain_of_pieces_from_the_first_byte_to_the_last() {
        let cases: [(&[Piece], Option<Vec<usize>>); 7] = [
            (&[(0, 10, 1)], Some(vec![0])),
            (&[(4, 6, 2), (0, 4, 1)], Some(vec![1, 0])),
            (&[(0, 4, 1)], None),
            (&[(0, 5, 1), (4, 6, 2)], None),
            (&[(0, 4, 1), (5, 5, 1), (5, 5, 2)], None),
            // Two replicas that are cut in different places: the first piece leads nowhere.
            (&[(0, 4, 1), (0, 6, 2), (6, 4, 3)], Some(vec![1, 2])),
            // Two replicas that are cut alike: the chain uses one segment twice rather than two segments.
            (&[(0, 4, 1), (0, 4, 2), (4, 6, 3), (4, 6, 1)], Some(vec![0, 3])),
        ];
        for (found, expected) in cases {
            assert_eq!(pieces(found).replica(10), expected, "{found:?}");
        }
    }
}
