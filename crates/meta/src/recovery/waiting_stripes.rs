//! Stripes that were reported, until they have found their neighbours: pieces of one version of an object that, each
//! beginning where another ends, hold all of its bytes.

use std::collections::BTreeSet;

use mooncake_types::limits;

/// The pieces of one version that belong to no replica yet.
#[derive(Debug)]
pub(crate) struct WaitingStripes {
    /// The record that holds their ranges.
    pub(super) object: u32,
    pub(super) found: Vec<FoundPiece>,
    /// What their nodes keep of the object.
    pub(super) attributes: Vec<u8>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundPiece {
    /// Where its bytes lie in the object, in bytes, and how many there are.
    pub(super) object_offset: u64,
    pub(super) len: u64,
    pub(super) segment: u32,
    pub(super) range: u32,
}

impl WaitingStripes {
    /// Places in `found` of pieces that make up a replica of an object of `object_len` bytes, in the order of its bytes.
    pub(crate) fn replica(&self, object_len: u64) -> Option<Vec<usize>> {
        let sum: u64 = self.found.iter().map(|piece| piece.len).sum();
        if sum < object_len {
            return None;
        }
        let mut chain = Vec::new();
        let mut dead_ends = BTreeSet::new();
        self.extend(0, object_len, &mut chain, &mut dead_ends).then_some(chain)
    }

    /// Extends a chain that ends at `at` to the end of the object. Pieces on segments that the chain uses already come first, so
    /// that pieces on other segments are left for other replicas.
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

    /// Place in the object, length, segment.
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
            // Two replicas that were cut in different places: the first piece leads nowhere.
            (&[(0, 4, 1), (0, 6, 2), (6, 4, 3)], Some(vec![1, 2])),
            // Two that were cut alike: one segment is used twice rather than two.
            (&[(0, 4, 1), (0, 4, 2), (4, 6, 3), (4, 6, 1)], Some(vec![0, 3])),
        ];
        for (found, expected) in cases {
            assert_eq!(pieces(found).replica(10), expected, "{found:?}");
        }
    }
}
