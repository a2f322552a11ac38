use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;

use crate::layout::FORMAT;

/// Errors by which Linux says that a disk cannot read a sector, or that what it read is damaged.
const OF_MEDIUM: [Errno; 6] =
    [Errno::IO, Errno::NODATA, Errno::REMOTEIO, Errno::ILSEQ, Errno::BADMSG, Errno::UCLEAN];

/// Whether the disk has no space left, for all or for this user. What was written before is intact.
pub(crate) fn is_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the disk itself is at fault, and not a limit of this process.
pub(crate) fn is_of_medium(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| OF_MEDIUM.contains(&errno))
}

/// The disk failed, and the store writes nothing more. An error of space is never the reason. Acknowledged records are intact. Records that were dropped last
/// may return when the store is opened again, so the owner must empty it before use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the disk is broken: {0}")]
pub struct Broken(pub(crate) Arc<str>);

/// Why a record was not put.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The record needs more room than the store may use, or than the disk has left. The caller must evict something
    /// first.
    #[error("the disk is full")]
    Full,
    /// The record is longer than the longest record of the store.
    #[error("{len} bytes are more than a record of this disk may have, which is {most}")]
    TooLong {
        /// Length of the record, with its header, in bytes.
        len: u64,
        /// The longest record, in bytes.
        most: u64,
    },
    /// A part of the record is missing or too long, or the record's length differs from that of its bytes.
    #[error("the record does not fit its bytes")]
    Malformed,
    /// The object store does not answer. The record may exist when the store is opened again, unless the caller drops
    /// it.
    #[error("the object store does not answer: {0}")]
    Unreachable(Arc<str>),
    /// The disk failed, now or earlier.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Why a record was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such record.
    #[error("the record is not there")]
    NotThere,
    /// The requested range ends behind the record.
    #[error("the record ends before that")]
    OutOfBounds,
    /// The bytes do not match their checksums.
    #[error("the record is damaged")]
    Damaged,
    /// The object store does not answer. The record may be intact.
    #[error("the object store does not answer: {0}")]
    Unreachable(String),
    /// The read failed with an I/O error.
    #[error("the record cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl ReadError {
    /// Whether the disk itself could not read, rather than that the record is gone or was changed.
    #[must_use]
    pub fn is_of_medium(&self) -> bool {
        matches!(self, Self::Io(error) if is_of_medium(error))
    }
}

/// Why a disk was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be created, read or written.
    #[error("{path}: {error}")]
    Folder {
        /// The folder, or the file in it.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// Another process uses the folder.
    #[error("{0} is used by another process")]
    InUse(PathBuf),
    /// The folder belongs to another cluster.
    #[error("{path} belongs to the cluster '{found}', and this one is '{wanted}'")]
    OtherCluster {
        /// The folder.
        path: PathBuf,
        /// The cluster that owns the folder.
        found: String,
        /// The cluster that was to open it.
        wanted: String,
    },
    /// The folder has the format of another version of this program.
    #[error("{path} has the format '{found}'; this version reads format {FORMAT}")]
    OtherFormat {
        /// The folder.
        path: PathBuf,
        /// The format that the folder names.
        found: String,
    },
    /// The folder holds files that do not belong to a disk.
    #[error("{0} is neither empty nor a disk of this store")]
    NotADisk(PathBuf),
    /// The configured sizes are invalid.
    #[error("{0}")]
    Config(String),
    /// The files cannot be read.
    #[error("the files of the log cannot be read: {0}")]
    Io(#[from] io::Error),
}
