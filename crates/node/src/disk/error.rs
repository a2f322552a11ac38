use std::io;

use mooncake_memory::MapError;
use mooncake_tier::{Broken, OpenError};

/// Why a folder cannot be lent as a disk.
#[derive(Debug, thiserror::Error)]
pub enum OpenDiskError {
    /// The folder or its log was not opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// It is too small for a log.
    #[error("a disk of {capacity_bytes} bytes is too small: {least_bytes} are the least")]
    TooSmall {
        /// What was asked for.
        capacity_bytes: u64,
        /// What is possible.
        least_bytes: u64,
    },
    /// There is no memory for bytes on their way to the disk and back.
    #[error("no memory for the {bytes} bytes through which a disk is read and written: {error}")]
    Staging {
        /// How many were asked for.
        bytes: u64,
        /// What the system says.
        error: MapError,
    },
    /// What the folder says of the segment in it cannot be read.
    #[error("the folder's note about its segment is damaged; remove the folder, or name another")]
    DamagedNote,
    /// The note cannot be read or written.
    #[error("the folder's note about its segment cannot be read or written: {0}")]
    Note(io::Error),
    /// What lies on the disk twice cannot be erased.
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
