use std::path::PathBuf;

use mooncake_types::Epoch;
use thiserror::Error;

/// Why a coordinator did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CoordinatorError {
    /// The leadership is over, for good. The change is not part of the cluster's record.
    #[error("the leadership of epoch {epoch} is over: {reason}")]
    Deposed {
        /// The epoch that led.
        epoch: Epoch,
        /// What was found instead.
        reason: String,
    },
    /// No answer in time, or an inconclusive one. Whether the request took effect is *unknown*. It may be repeated
    /// for as long as the lease is valid.
    #[error("{place} gave no useful answer: {reason}")]
    Unavailable {
        /// The server, file or object that was asked.
        place: String,
        /// What went wrong there.
        reason: String,
    },
    /// The stored bytes are not those of this program. An operator must look; they are never overwritten.
    #[error("what is stored at {place} cannot be used: {reason}")]
    Corrupt {
        /// The file or key.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The record would become too large for its place. Nothing was written.
    #[error("a record of {len_bytes} bytes does not fit into {place}, which takes {limit_bytes}")]
    Full {
        /// The file or key.
        place: String,
        /// Length of the record, in bytes.
        len_bytes: usize,
        /// What the place takes, in bytes.
        limit_bytes: usize,
    },
}

impl CoordinatorError {
    pub(crate) fn unavailable(place: impl ToString, reason: impl ToString) -> Self {
        Self::Unavailable { place: place.to_string(), reason: reason.to_string() }
    }

    pub(crate) fn corrupt(place: impl ToString, reason: impl ToString) -> Self {
        Self::Corrupt { place: place.to_string(), reason: reason.to_string() }
    }
}

/// Why an address, or the options that go with it, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// The address names no coordinator.
    #[error("{address:?} is no address of a coordinator: {reason}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The name of the cluster cannot be part of keys and paths.
    #[error("the cluster id {cluster_id:?} cannot be used: {reason}")]
    ClusterId {
        /// The name.
        cluster_id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The lease is too short or too long.
    #[error("a lease of {ttl_ms} ms cannot be used: it must be 1 s to 1 h")]
    Ttl {
        /// The length that was wanted, in milliseconds.
        ttl_ms: u128,
    },
    /// The address of Kubernetes' API server is not known, or cannot be used.
    #[error("the API server of Kubernetes cannot be reached: {reason}")]
    Kubernetes {
        /// What is missing.
        reason: String,
    },
}

/// Why a single master cannot lead with a state file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StateFileError {
    /// The file, or the folder that it lies in, cannot be read or written.
    #[error("the state file {} cannot be read and written: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Another process leads with it.
    #[error("the state file {} is in use by another master", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It is damaged, of another cluster, or of another version of this program.
    #[error(
        "the state file {} cannot be used: {reason}; without it the pool comes back too, but a storage node that missed a \
         removal may bring the old object back: move the file away only if that may be",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl StateFileError {
    /// Whether the place is at fault (permissions, a read-only or full disk, no such folder), and not the content of
    /// the file.
    #[must_use]
    pub fn is_unwritable(&self) -> bool {
        matches!(self, Self::Unusable { .. })
    }
}
