//! Errors, an enum for each operation.

use std::time::Duration;

use thiserror::Error;

use crate::call::CallError;
use crate::device::DeviceError;
use crate::verbs::VerbsError;

/// Why a domain or an endpoint cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// There is no library, or no device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// There is no libibverbs, or no NIC of it that fits.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// A call failed.
    #[error("{device} cannot be used: {error}")]
    Call {
        /// The device.
        device: String,
        /// The call.
        error: CallError,
    },
    /// The process has no descriptor left.
    #[error("no descriptor is left for an endpoint ({kind})")]
    NoDescriptor {
        /// The kernel's error.
        kind: std::io::ErrorKind,
    },
    /// The process was forked after the domain was opened.
    #[error("a forked process cannot use what its parent opened")]
    Forked,
}

/// Why memory cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// There is a limit on memory that may be locked.
    #[error(
        "{bytes} bytes cannot be registered: {error}; raise the limit of locked memory (`ulimit -l unlimited`, in \
         containers `--ulimit memlock=-1`)"
    )]
    LockedMemory {
        /// Length of the piece.
        bytes: u64,
        /// The call.
        error: CallError,
    },
    /// A call failed.
    #[error("{bytes} bytes cannot be registered: {error}")]
    Call {
        /// Length of the piece.
        bytes: u64,
        /// The call.
        error: CallError,
    },
    /// The memory has more pieces than a descriptor may have.
    #[error("{bytes} bytes are more than can be registered at once ({most})")]
    TooLong {
        /// Length of the memory.
        bytes: u64,
        /// The most bytes.
        most: u64,
    },
    /// Memory of a device is not taken.
    #[error("{bytes} bytes of GPU {ordinal} cannot be registered: {refusal}")]
    Device {
        /// The device's ordinal.
        ordinal: u32,
        /// Length of the memory.
        bytes: u64,
        /// Why.
        refusal: DeviceRefusal,
    },
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    Closed,
    /// The process was forked after the domain was opened.
    #[error("a forked process cannot use what its parent opened")]
    Forked,
}

/// Why a NIC does not take memory of a device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceRefusal {
    /// The provider takes none.
    #[error("of devices for one-sided transfers, only NICs of libibverbs take memory of GPUs")]
    Provider,
    /// The device's driver lets no NIC access it.
    #[error("{reason}")]
    Driver {
        /// The driver's words.
        reason: String,
    },
    /// The NIC takes it in neither way.
    #[error("by dmabuf: {dmabuf}; by the kernel module nvidia-peermem: {peermem}")]
    Nic {
        /// Why not by dmabuf.
        dmabuf: String,
        /// Why not by its address.
        peermem: CallError,
    },
}

/// Why a peer cannot be named to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// The address is not one of this provider's.
    #[error("{peer} is no address that {own} can reach")]
    Unfit {
        /// The address.
        peer: String,
        /// The endpoint's address.
        own: String,
    },
    /// A call failed.
    #[error("{peer} cannot be reached: {error}")]
    Call {
        /// The address.
        peer: String,
        /// The call.
        error: CallError,
    },
    /// The initiator has named as many peers as its provider can bear. A new one is needed.
    #[error("an endpoint of this provider can name {most} peers, and no more after them")]
    TooMany {
        /// The most peers.
        most: u64,
    },
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    Closed,
    /// The process was forked after the domain was opened.
    #[error("a forked process cannot use what its parent opened")]
    Forked,
}

/// Why a transfer failed. A part may have been carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransferError {
    /// A part does not lie within the remote memory. Nothing was transferred.
    #[error("{len} bytes from {offset} do not lie within remote memory of {remote_len} bytes")]
    OutOfRange {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Length of the remote memory.
        remote_len: u64,
    },
    /// The batch has too many requests. Nothing was transferred.
    #[error("a batch of more than {most} requests")]
    TooMany {
        /// The most requests.
        most: usize,
    },
    /// Local memory cannot be registered. Nothing was transferred.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The provider or the peer refused a request, or the connection broke.
    #[error("{peer} did not serve a request: {error}")]
    Failed {
        /// The peer's address.
        peer: String,
        /// The call.
        error: CallError,
    },
    /// The deadline passed. If requests were in flight, the endpoint was closed, so that none of them touches local
    /// memory any more.
    #[error(
        "{peer} did not answer within {waited:?}; this side is {own} ({device}): if peers cannot reach this address, \
         name another device, for the provider tcp also by FI_TCP_IFACE, for libibverbs another GID by MC_GID_INDEX"
    )]
    DeadlinePassed {
        /// The peer's address.
        peer: String,
        /// The endpoint's address.
        own: String,
        /// The device: its provider, and its interface.
        device: String,
        /// Time since the batch was submitted.
        waited: Duration,
    },
    /// The endpoint was closed.
    #[error("the endpoint is closed: {reason}")]
    Closed {
        /// Why it was closed.
        reason: String,
    },
    /// The process was forked after the domain was opened.
    #[error("a forked process cannot use what its parent opened")]
    Forked,
}
