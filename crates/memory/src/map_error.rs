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
        /// The length that was asked for, in bytes.
        len: u64,
    },
    /// What was given is neither a plain file nor, where one is asked for, memory without a name.
    #[error("only {wanted} can be mapped here")]
    WrongKind {
        /// What is taken.
        wanted: &'static str,
    },
    /// The file ends before the bytes do that were asked for.
    #[error("{len} bytes from {offset} do not lie within a file of {file_len} bytes")]
    TooShort {
        /// First byte wanted.
        offset: u64,
        /// Bytes wanted.
        len: u64,
        /// Length of the file in bytes.
        file_len: u64,
    },
    /// A mapping starts at a page.
    #[error("a mapping cannot start at byte {offset}, which is no multiple of {page_bytes}")]
    Unaligned {
        /// First byte wanted.
        offset: u64,
        /// Length of a page in bytes.
        page_bytes: u64,
    },
    /// A part of the range is mapped as a segment already, here or in another process.
    #[error("a part of these bytes is mapped as a segment already")]
    Taken,
    /// Memory of another process that it could take away while it is used here.
    #[error("memory that may shrink, because it is not sealed, is not taken")]
    Unsealed,
    /// The system refused.
    #[error("{call} of {len} bytes failed: {}", std::io::Error::from_raw_os_error(*errno))]
    System {
        /// The system call.
        call: &'static str,
        /// The length that was asked for, in bytes.
        len: u64,
        /// Its `errno`.
        errno: i32,
    },
}

/// What a system call that refused comes to.
pub(crate) fn refused(call: &'static str, len: u64, errno: Errno) -> MapError {
    MapError::System { call, len, errno: errno.raw_os_error() }
}

/// A length as one of this address space, if it can be mapped.
pub(crate) fn size_of(len: u64) -> Result<usize, MapError> {
    match usize::try_from(len) {
        Ok(0) => Err(MapError::Empty),
        Ok(size) if isize::try_from(size).is_ok() => Ok(size),
        _ => Err(MapError::TooLarge { len }),
    }
}
