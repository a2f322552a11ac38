use std::path::PathBuf;

use mooncake_memory::SharedMemoryError;
use thiserror::Error;

use super::layout::{LEAST_BYTES, MOST_BYTES};

/// How a hot cache is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotCacheConfig {
    /// Its length in bytes, with its own tables; zero: there is no cache. If other processes of the user on this host
    /// have a cache already, that keeps its length.
    pub bytes: u64,
    /// Longest range that is kept, in bytes; `None`: any.
    pub longest_bytes: Option<u64>,
    /// How often a range must have been read lately before it is kept.
    pub admission_reads: u8,
    /// The folder in which processes find each other; `None`: `/dev/shm`, or the folder for temporary files.
    pub folder: Option<PathBuf>,
}

impl Default for HotCacheConfig {
    fn default() -> Self {
        Self { bytes: 0, longest_bytes: None, admission_reads: 2, folder: None }
    }
}

/// Why there is no hot cache.
#[derive(Debug, Error)]
pub enum HotCacheError {
    /// Too small or too large.
    #[error("{bytes} bytes: it takes from {LEAST_BYTES} to {MOST_BYTES}")]
    Size {
        /// What was asked for.
        bytes: u64,
    },
    /// The system has no memory for it, or other processes of the host cannot be found.
    #[error(transparent)]
    Memory(#[from] SharedMemoryError),
}
