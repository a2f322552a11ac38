use std::io;

use mooncake_memory::MapError;
use mooncake_tier::{Broken, OpenError};

/// Why a folder cannot be lent as a disk.
#[derive(Debug, thiserror::Error)]
pub enum OpenDiskError {
    /// The folder or its log was not opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// The capacity is below the least that is possible.
    #[error("a disk of {capacity_bytes} bytes is too small: {least_bytes} are the least")]
    TooSmall {
        /// The capacity asked for.
        capacity_bytes: u64,
        /// The least capacity.
        least_bytes: u64,
    },
    /// There is no staging memory for reads and writes.
    #[error("no memory for the {bytes} bytes through which a disk is read and written: {error}")]
    Staging {
        /// How many bytes were asked for.
        bytes: u64,
        /// The system's error.
        error: MapError,
    },
    /// The note about the segment in the folder is damaged.
    #[error("the folder's note about its segment is damaged; remove the folder, or name another")]
    DamagedNote,
    /// The note cannot be read or written.
    #[error("the folder's note about its segment cannot be read or written: {0}")]
    Note(io::Error),
    /// A record that a newer record overlaps cannot be erased.
    #[error(transparent)]
    Broken(#[from] Broken),
}

impl OpenDiskError {
    /// Whether another process uses the folder.
    #[must_use]
    pub const fn is_in_use(&self) -> bool {
        matches!(self, Self::Log(OpenError::InUse(_)))
    }
}
