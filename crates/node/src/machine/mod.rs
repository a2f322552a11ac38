//! The pure part of a node: what it does with each request, and in which order. There is no lock, no memory, no file, no
//! thread and no clock here; the time is an argument, and what is to be done elsewhere comes out as an [`Effect`].
//!
//! A machine knows where bytes lie in a segment, not what they lie in. [`crate::mapped`] is its shell for mapped memory. A
//! shell for another medium stands beside that, and owes the machine two things: what an effect says is durable before a
//! writer that began with it changes a byte, and bytes are in place, as durable as the medium makes them, before the shell
//! says that a write is complete.

mod effect;
mod epoch;
mod lent_segments;
mod pins;
mod promises;
mod segment;

pub use effect::Effect;
pub use lent_segments::LentSegments;
pub use pins::PinKey;
pub use promises::PROMISE;
pub use segment::{Admission, SegmentMachine, WriteRequest};
