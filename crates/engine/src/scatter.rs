use thiserror::Error;

use crate::Piece;

/// A part of memory here and one in the peer, and the bytes that move between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterRange<'a> {
    /// Address and length of the memory in this process.
    pub local: (u64, u64),
    /// Address and length of the memory in the peer.
    pub remote: (u64, u64),
    /// Where each fragment begins in the memory of this process.
    pub local_offsets: &'a [u64],
    /// Where each fragment begins in the memory of the peer.
    pub remote_offsets: &'a [u64],
    /// The length of each fragment.
    pub lens: &'a [u64],
}

/// Why a range makes no transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScatterError {
    /// The memory runs past the end of the address space.
    #[error("range {range} runs past the end of memory")]
    PastTheEnd {
        /// The position of the range.
        range: usize,
    },
    /// The lists of fragments differ in length.
    #[error("range {range} has {local} local offsets, {remote} remote offsets and {lens} lengths")]
    Uneven {
        /// The position of the range.
        range: usize,
        /// How many local offsets it has.
        local: usize,
        /// How many remote offsets it has.
        remote: usize,
        /// How many lengths it has.
        lens: usize,
    },
    /// A fragment does not lie within the memory of its range.
    #[error("fragment {fragment} of range {range} does not lie within the range's capacity")]
    Outside {
        /// The position of the range.
        range: usize,
        /// The position of the fragment in it.
        fragment: usize,
    },
}

impl ScatterRange<'_> {
    /// The pieces of these ranges.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn pieces(ranges: &[ScatterRange<'_>]) -> Result<Vec<Piece>, ScatterError> {
        let mut pieces = Vec::new();
        for (number, range) in ranges.iter().enumerate() {
            range.append(number, &mut pieces)?;
        }
        Ok(pieces)
    }

    fn append(&self, range: usize, pieces: &mut Vec<Piece>) -> Result<(), ScatterError> {
        let [local, remote, lens] =
            [self.local_offsets, self.remote_offsets, self.lens].map(<[u64]>::len);
        if local != lens || remote != lens {
            return Err(ScatterError::Uneven { range, local, remote, lens });
        }
        for (start, capacity) in [self.local, self.remote] {
            start.checked_add(capacity).ok_or(ScatterError::PastTheEnd { range })?;
        }
        for (fragment, &len) in self.lens.iter().enumerate() {
            let outside = ScatterError::Outside { range, fragment };
            let at = |(start, capacity): (u64, u64), from: u64| {
                let end = from.checked_add(len).filter(|&end| end <= capacity);
                end.map(|_| start + from).ok_or(outside)
            };
            let local = at(self.local, self.local_offsets[fragment])?;
            let remote = at(self.remote, self.remote_offsets[fragment])?;
            pieces.push(Piece { local, remote, len });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: ScatterRange<'_> = ScatterRange {
        local: (1000, 100),
        remote: (5000, 50),
        local_offsets: &[0, 90],
        remote_offsets: &[40, 0],
        lens: &[10, 10],
    };

    #[test]
    fn each_fragment_is_a_piece() {
        let other = ScatterRange {
            local: (0, 1),
            local_offsets: &[0],
            remote_offsets: &[7],
            lens: &[1],
            ..RANGE
        };
        let piece = |local, remote, len| Piece { local, remote, len };
        let expected = vec![piece(1000, 5040, 10), piece(1090, 5000, 10), piece(0, 5007, 1)];
        assert_eq!(ScatterRange::pieces(&[RANGE, other]), Ok(expected));
        assert_eq!(ScatterRange::pieces(&[]), Ok(vec![]));
    }

    #[test]
    fn fragments_outside_of_their_range_are_refused() {
        let check = |range, error| assert_eq!(ScatterRange::pieces(&[RANGE, range]), Err(error));
        let uneven = ScatterError::Uneven { range: 1, local: 1, remote: 2, lens: 2 };
        check(ScatterRange { local_offsets: &[0], ..RANGE }, uneven);
        let outside = |fragment| ScatterError::Outside { range: 1, fragment };
        check(ScatterRange { local_offsets: &[0, 91], ..RANGE }, outside(1));
        check(ScatterRange { remote_offsets: &[41, 0], ..RANGE }, outside(0));
        check(ScatterRange { lens: &[10, u64::MAX], ..RANGE }, outside(1));
        let past = ScatterError::PastTheEnd { range: 1 };
        check(ScatterRange { remote: (u64::MAX - 5, 50), ..RANGE }, past);
    }
}
