//! A segment whose bytes lie in mapped memory: its lock, what other processes and the next one see of it, and the thread that
//! provides its pages.

pub(crate) mod pin;
mod prefault;
mod rows;
mod segment;
mod signal;

pub use prefault::PrefaultThread;
pub use segment::Segment;
