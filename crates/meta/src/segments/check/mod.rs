//! The invariants of segments.

mod room;
mod sight;
