//! The pure part of a node: what it does with each request, and in which order. It has no lock, memory, file, thread
//! or clock. The time is an argument, and an [`Effect`] says what the shell must do.
//!
//! A machine knows where bytes lie in a segment, but not in which medium. [`crate::mapped`] is its shell for mapped
//! memory, [`crate::disk`] for disks. Each shell guarantees two things:
//! - an effect is durable before a writer that began with it changes a byte;
//! - when the shell reports a write as complete, its bytes are in place, as durable as the medium makes them.

mod effect;
mod epoch;
mod lent_segments;
mod losses;
mod pins;
mod promises;
mod segment;

pub use effect::Effect;
pub use lent_segments::LentSegments;
pub use losses::Losses;
pub use pins::PinKey;
pub use promises::PROMISE;
pub use segment::{Admission, SegmentMachine, WriteRequest};
