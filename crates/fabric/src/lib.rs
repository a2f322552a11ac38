//! One-sided reads and writes of the memory of other processes, by one of two libraries: libibverbs for InfiniBand and
//! RoCE (`verbs`), and libfabric for EFA, for Slingshot, and for its software providers (`tcp`, `shm`, `sockets`, `udp`),
//! with which it is tested.
//!
//! The libraries (`libibverbs.so.1` of rdma-core 33 or later, `libfabric.so.1`, 1.14 or later) are opened at run time; a
//! build needs nothing of them.
//!
//! - [`devices`] lists what libfabric finds, and [`VerbsOptions::nics`] what libibverbs finds. [`Domain::open`] and
//!   [`Domain::open_verbs`] open one device, which has several NICs if libibverbs finds some. From there on the library
//!   makes no difference, but for one thing: libibverbs [joins its ends in pairs](Device::joins_in_pairs)
//!   ([`Initiator::prepare`], [`Target::admit`]).
//! - A [`Target`] lends memory: [`Target::expose`] registers it. Peers get the target's [`Address`] and the descriptor
//!   of the memory ([`RemoteMemory`]), as bytes.
//! - An [`Initiator`] reads and writes that memory: [`Initiator::connect`], [`Peer::submit`], [`Batch::wait`]. Its local
//!   memory is registered at first use, where the provider asks for that, and stays so as long as its region. It may be
//!   memory of a GPU, which NICs of libibverbs take by dmabuf or through the kernel module nvidia-peermem.
//!
//! **Who may still write.** A peer that was told a key may write at any later time. [`Device::revocation`] says what stops
//! it. Dropping a [`Target`] always does, and waits until it does.
//!
//! **What a deadline does.** No provider can take back a request that is in flight. If a deadline passes, the initiator is
//! closed, so that local memory is not touched later. Its other batches fail, too.
//!
//! This crate knows no keys of objects and no segments.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "the types of C functions")]
mod abi;
mod address;
#[allow(unsafe_code, reason = "the library's texts are C strings")]
mod call;
#[allow(unsafe_code, reason = "the library writes to places of its own")]
mod contexts;
mod descriptor;
mod device;
mod domain;
#[allow(unsafe_code, reason = "endpoints are tables of C functions")]
mod endpoint;
mod error;
#[allow(unsafe_code, reason = "it vouches for the memory of requests")]
mod flight;
#[allow(unsafe_code, reason = "lists of C structures")]
mod info;
mod initiator;
mod keys;
#[allow(unsafe_code, reason = "objects are opened by C functions")]
mod libfabric;
#[allow(unsafe_code, reason = "the library is found by the system's linker")]
mod load;
#[allow(unsafe_code, reason = "objects are closed by C functions")]
mod object;
#[allow(unsafe_code, reason = "addresses of memory go to other threads")]
mod port;
mod position;
mod progress;
mod registration;
mod shm_files;
#[allow(unsafe_code, reason = "the types of C functions")]
mod symbols;
mod target;
#[cfg(feature = "testing")]
pub mod testing;
#[allow(unsafe_code, reason = "all of it calls C functions")]
mod verbs;
#[allow(unsafe_code, reason = "descriptors that belong to the library")]
mod wait;

pub use address::{Address, MAX_ADDRESS_BYTES};
pub use call::CallError;
pub use descriptor::{DescriptorError, MAX_PIECES, RemoteMemory};
pub use device::{
    Device, DeviceError, DeviceKnownBy, DeviceOptions, Link, MrMode, NicTrial, NicUse, Revocation,
    devices, library_version,
};
pub use domain::{Domain, Limits};
pub use error::{ConnectError, DeviceRefusal, OpenError, RegisterError, TransferError};
pub use initiator::{Batch, Initiator, Joining, MAX_BATCH, Part, Peer};
pub use keys::MAX_NICS;
pub use load::{LoadError, OLDEST, Version};
pub use port::Direction;
pub use position::Position;
pub use registration::Access;
pub use target::{Exposed, Target};
pub use verbs::{GidKind, PortGid, VariableError, VerbsError, VerbsNic, VerbsOptions, VerbsPort};
