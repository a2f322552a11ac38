use rustix::io::Errno;
use thiserror::Error;

/// Why memory could not be mapped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// A mapping needs at least one byte.
    #[error("a region of zero bytes cannot be mapped")]
    Empty,
    /// The length does not fit this machine's address space.
    #[error("a region of {len} bytes does not fit the address space")]
    TooLarge {
        /// The requested length, in bytes.
        len: u64,
    },
    /// The descriptor is neither a regular file nor, where one is required, memory without a name.
    #[error("only {wanted} can be mapped here")]
    WrongKind {
        /// The kind that is accepted.
        wanted: &'static str,
    },
    /// The file ends before the requested range does.
    #[error("{len} bytes from {offset} do not lie within a file of {file_len} bytes")]
    TooShort {
        /// First requested byte.
        offset: u64,
        /// Number of requested bytes.
        len: u64,
        /// Length of the file in bytes.
        file_len: u64,
    },
    /// The offset is not at a page, where every mapping must start.
    #[error("a mapping cannot start at byte {offset}, which is no multiple of {page_bytes}")]
    Unaligned {
        /// First requested byte.
        offset: u64,
        /// Length of a page in bytes.
        page_bytes: u64,
    },
    /// A part of the range is mapped as a segment already, in this or another process.
    #[error("a part of these bytes is mapped as a segment already")]
    Taken,
    /// The memory is not sealed, so the process that made it could shrink it during use.
    #[error("memory that may shrink, because it is not sealed, is not taken")]
    Unsealed,
    /// A system call failed.
    #[error("{call} of {len} bytes failed: {}", std::io::Error::from_raw_os_error(*errno))]
    System {
        /// The system call.
        call: &'static str,
        /// The requested length, in bytes.
        len: u64,
        /// The `errno` of the call.
        errno: i32,
    },
}

/// The error of a failed system call.
pub(crate) fn refused(call: &'static str, len: u64, errno: Errno) -> MapError {
    MapError::System { call, len, errno: errno.raw_os_error() }
}

/// Converts a length to `usize`, if a mapping can have it.
pub(crate) fn size_of(len: u64) -> Result<usize, MapError> {
    match usize::try_from(len) {
        Ok(0) => Err(MapError::Empty),
        Ok(size) if isize::try_from(size).is_ok() => Ok(size),
        _ => Err(MapError::TooLarge { len }),
    }
}
