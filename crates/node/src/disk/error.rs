use mooncake_tier::OpenError;

/// Why a folder cannot be lent as a disk.
#[derive(Debug, thiserror::Error)]
pub enum OpenDiskError {
    /// Its log was not opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// There is no memory for bytes on their way to the disk and back.
    #[error("no memory for the {bytes} bytes through which a disk is read and written")]
    Memory {
        /// How many were asked for.
        bytes: u64,
    },
}
