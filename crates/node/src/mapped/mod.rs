//! A segment whose bytes lie in mapped memory: its lock, how far its pages are there, and what other processes and the next one
//! see of it.

pub(crate) mod pin;
mod prefault_window;
mod published;
mod rows;
mod segment;

pub use segment::Segment;
