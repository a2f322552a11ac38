//! The invariants of segments.

mod domains;
mod room;
mod sight;
