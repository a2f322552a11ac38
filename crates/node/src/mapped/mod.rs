//! A segment in mapped memory: its lock, the prefaulting of its pages, what other processes and the next process see
//! of it, and what an earlier process left in it.

mod checksums;
mod inherited;
pub(crate) mod pin;
mod prefault_window;
mod published;
mod rows;
mod segment;

pub use segment::Segment;
