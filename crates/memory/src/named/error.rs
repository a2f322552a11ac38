use thiserror::Error;

use crate::MapError;

/// Why a file cannot be opened as a segment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NamedSegmentError {
    /// A system call failed.
    #[error("{call} failed: {reason}")]
    System {
        /// The system call.
        call: &'static str,
        /// The error of the call.
        reason: String,
    },
    /// The path is a directory, a pipe or a device.
    #[error("it is no plain file")]
    WrongKind,
    /// The file belongs to another user. That user could change it at any time.
    #[error("it belongs to user {owner}, and this process is of user {user}")]
    NotOurs {
        /// The owner's user id.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },
    /// The path is a link of another user, who could have it lead elsewhere.
    #[error("it is a link of user {owner}, and this process is of user {user}")]
    LinkOfOther {
        /// The owner's user id.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },
    /// Another process uses the file.
    #[error("another process has been using it for {waited_ms} ms")]
    InUse {
        /// How long this process waited for it, in milliseconds.
        waited_ms: u64,
    },
    /// The file holds something that is not a segment.
    #[error(
        "it holds something that is no segment of Mooncake Store, which nothing here overwrites; remove it, or name another file"
    )]
    Foreign,
    /// Another version of this program made the file.
    #[error("its layout is number {found}, and this version knows only {known}")]
    Layout {
        /// The layout number in the file.
        found: u64,
        /// The layout number that this version knows.
        known: u64,
    },
    /// The file was truncated.
    #[error("it has {found} bytes of {wanted}")]
    Truncated {
        /// Its length in bytes.
        found: u64,
        /// The length that its header names, in bytes.
        wanted: u64,
    },
    /// The file holds a segment of another size.
    #[error("it holds a segment of {found} bytes, and one of {wanted} is wanted")]
    Size {
        /// The segment's length in bytes.
        found: u64,
        /// The requested length, in bytes.
        wanted: u64,
    },
    /// The file belongs to another cluster.
    #[error("it is of the cluster {found:?}")]
    Cluster {
        /// The cluster in the file.
        found: String,
    },
    /// The file's contents are inconsistent: another program has written to it.
    #[error("it is damaged: {what}")]
    Damaged {
        /// What is inconsistent.
        what: &'static str,
    },
    /// The filesystem has large pages, and the segment is not a whole number of them.
    #[error("{wanted} bytes are no whole number of its filesystem's pages of {page_bytes} bytes")]
    Pages {
        /// The requested length, in bytes.
        wanted: u64,
        /// Length of a page, in bytes.
        page_bytes: u64,
    },
    /// The file cannot be mapped, or there is no space for it.
    #[error(transparent)]
    Map(#[from] MapError),
}

impl From<&'static str> for NamedSegmentError {
    fn from(what: &'static str) -> Self {
        Self::Damaged { what }
    }
}

impl NamedSegmentError {
    /// Whether opening with [`super::NamedSegmentOptions::reset`] would replace the file by an empty segment.
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
            | Self::LinkOfOther { .. }
            | Self::InUse { .. }
            | Self::Pages { .. }
            | Self::Map(_) => false,
        }
    }
}
