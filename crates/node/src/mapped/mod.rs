//! A segment in mapped memory: its lock, the prefaulting of its pages, and what other processes and the next process
//! see of it.

pub(crate) mod pin;
mod prefault_window;
mod published;
mod rows;
mod segment;

pub use segment::Segment;
