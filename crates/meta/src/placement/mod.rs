//! Placement: which ranges of which segments a new replica gets.
//!
//! [`route`] orders the segments. [`place`] takes one range where a segment has one, and evicts if need be.
//! [`scatter`] cuts an object into several ranges. Placement keeps nothing between requests: it asks
//! [`segments`](crate::segments) for room, and [`eviction`](crate::eviction) for victims. It reserves
//! [pieces](crate::segments::Piece), which become ranges of an object or are freed again.
//!
//! Invariant: a put that is refused evicts nothing.

mod place;
mod roomy;
mod route;
mod scatter;

pub(crate) use self::place::MOST_EVICTED;
pub(crate) use self::roomy::Slots;
pub(crate) use self::route::Wish;
