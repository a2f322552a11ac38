use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::layout::FORMAT;

/// The disk failed. Nothing more is written: what was acknowledged is there, but what was dropped last may come back when the
/// folder is opened again, so its owner has to start it empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the disk is broken: {0}")]
pub struct Broken(pub(crate) Arc<str>);

/// Why a record was not put.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// It would take more room than the log may have, or than the disk has: something is to be evicted first.
    #[error("the disk is full")]
    Full,
    /// It is longer than a file of the log.
    #[error("{len} bytes are more than a record of this disk may have, which is {most}")]
    TooLong {
        /// Length of the record, with its header, in bytes.
        len: u64,
        /// The longest record, in bytes.
        most: u64,
    },
    /// A part of it is missing or too long, or it has other bytes than it says.
    #[error("the record does not fit its bytes")]
    Malformed,
    /// The store does not answer. The record may be there when it is opened again, unless it is dropped.
    #[error("the object store does not answer: {0}")]
    Unreachable(Arc<str>),
    /// The disk failed, now or before.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Why a record was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such record.
    #[error("the record is not there")]
    NotThere,
    /// More was asked for than it has.
    #[error("the record ends before that")]
    OutOfBounds,
    /// Its bytes are not those that were put.
    #[error("the record is damaged")]
    Damaged,
    /// The store does not answer. That says nothing of the record.
    #[error("the object store does not answer: {0}")]
    Unreachable(String),
    /// The system could not read it.
    #[error("the record cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Why a disk was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be made, read or written.
    #[error("{path}: {error}")]
    Folder {
        /// The folder, or the file in it.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another process uses it.
    #[error("{0} is used by another process")]
    InUse(PathBuf),
    /// It belongs to another cluster.
    #[error("{path} belongs to the cluster '{found}', and this one is '{wanted}'")]
    OtherCluster {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Who wants it.
        wanted: String,
    },
    /// Another version of this program made it.
    #[error("{path} has the format '{found}'; this version reads format {FORMAT}")]
    OtherFormat {
        /// The folder.
        path: PathBuf,
        /// What it says of its format.
        found: String,
    },
    /// It holds files, and not those of a disk.
    #[error("{0} is neither empty nor a disk of this store")]
    NotADisk(PathBuf),
    /// The sizes that were asked for cannot be.
    #[error("{0}")]
    Config(String),
    /// The files cannot be read.
    #[error("the files of the log cannot be read: {0}")]
    Io(#[from] io::Error),
}
