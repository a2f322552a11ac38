use thiserror::Error;

use crate::MapError;

/// Why a file cannot be a segment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NamedSegmentError {
    /// The system refused.
    #[error("{call} failed: {reason}")]
    System {
        /// The call.
        call: &'static str,
        /// What the system said.
        reason: String,
    },
    /// It is a directory, a pipe or a device.
    #[error("it is no plain file")]
    WrongKind,
    /// Another user could change it at any time.
    #[error("it belongs to user {owner}, and this process is of user {user}")]
    NotOurs {
        /// Whose it is.
        owner: u32,
        /// Who this is.
        user: u32,
    },
    /// Another process has it.
    #[error("another process has been using it for {waited_ms} ms")]
    InUse {
        /// How long it was waited for, in milliseconds.
        waited_ms: u64,
    },
    /// It holds something else.
    #[error(
        "it holds something that is no segment of Mooncake Store, which nothing here overwrites; remove it, or name another file"
    )]
    Foreign,
    /// Another version made it.
    #[error("its layout is number {found}, and this version knows only {known}")]
    Layout {
        /// The layout's number.
        found: u64,
        /// The number that is known.
        known: u64,
    },
    /// It was cut short.
    #[error("it has {found} bytes of {wanted}")]
    Truncated {
        /// Its length in bytes.
        found: u64,
        /// The length that it had, in bytes.
        wanted: u64,
    },
    /// The segment in it has another size.
    #[error("it holds a segment of {found} bytes, and one of {wanted} is wanted")]
    Size {
        /// The segment's length in bytes.
        found: u64,
        /// The length that is asked for, in bytes.
        wanted: u64,
    },
    /// It is of another cluster.
    #[error("it is of the cluster {found:?}")]
    Cluster {
        /// Which one.
        found: String,
    },
    /// Something else has written to it.
    #[error("it is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// On a filesystem of large pages a segment takes whole ones.
    #[error("{wanted} bytes are no whole number of its filesystem's pages of {page_bytes} bytes")]
    Pages {
        /// The length that is asked for, in bytes.
        wanted: u64,
        /// Length of a page, in bytes.
        page_bytes: u64,
    },
    /// It cannot be mapped, or there is no room for it.
    #[error(transparent)]
    Map(#[from] MapError),
}

impl From<&'static str> for NamedSegmentError {
    fn from(what: &'static str) -> Self {
        Self::Damaged { what }
    }
}

impl NamedSegmentError {
    /// Whether an empty segment could take the file's place.
    #[must_use]
    pub const fn ends_with_a_reset(&self) -> bool {
        match self {
            Self::Layout { .. }
            | Self::Truncated { .. }
            | Self::Size { .. }
            | Self::Cluster { .. }
            | Self::Damaged { .. } => true,
            Self::System { .. }
            | Self::WrongKind
            | Self::Foreign
            | Self::NotOurs { .. }
            | Self::InUse { .. }
            | Self::Pages { .. }
            | Self::Map(_) => false,
        }
    }
}
