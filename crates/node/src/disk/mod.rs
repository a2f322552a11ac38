//! A segment whose bytes lie in a folder, as records of a log.

mod error;
mod segment;

pub use error::OpenDiskError;
pub use segment::{DiskOptions, DiskSegment};
