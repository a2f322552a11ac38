//! A segment whose bytes lie in mapped memory: its lock, what other processes and the next one see of it, and the thread that
//! provides its pages.

pub(crate) mod pin;
mod prefault;
mod published;
mod rows;
mod segment;

pub use prefault::PrefaultThread;
pub use segment::Segment;
