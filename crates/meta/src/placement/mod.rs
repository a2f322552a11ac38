//! Placement: which ranges of which segments a new replica gets.
//!
//! [`route`] says which segments come first. [`place`] takes one range where a segment has one, evicting where need be;
//! [`scatter`] cuts an object into several. Placement keeps nothing between requests: it asks [`segments`](crate::segments)
//! for room, and [`eviction`](crate::eviction) for victims. What it reserves is a [`Piece`](crate::segments::Piece), which
//! becomes a range of an object or is freed again.
//!
//! Invariant: a put that is refused evicts nothing.

mod place;
mod route;
mod scatter;

pub(crate) use self::place::MOST_EVICTED;
pub(crate) use self::route::Wish;
