//! Placement: which ranges of which segments a new replica gets.

mod place;
mod scatter;

pub(crate) use self::place::{MOST_EVICTED, Piece, Pieces, Wish};
