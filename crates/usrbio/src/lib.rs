//! Files on 3FS, read and written by USRBIO. Requests go to the host's FUSE daemon through rings in shared memory.
//! Their bytes go through a buffer that the daemon has registered for RDMA.
//!
//! The library of 3FS (`libhf3fs_api_shared.so`) is loaded only when a folder on 3FS is opened. [`Mount::find`] tells
//! whether a path is on 3FS, and creates the buffer and the rings. [`RegisteredFile`] reads and writes a file with
//! them.
//!
//! All files of a mount share one buffer of [`BUFFER_BYTES`], cut into [`LANES`] of equal length. A transfer takes a
//! lane with its two rings, or waits for one. A request that was not answered may be carried out later, so its lane is
//! never reused.

#![deny(unsafe_code)]

mod file;
#[allow(unsafe_code, reason = "rings and buffers are structures of a C library")]
mod lane;
#[allow(unsafe_code, reason = "the library is found by the system's linker")]
mod load;
#[allow(unsafe_code, reason = "the library is a table of C functions")]
mod mount;
#[allow(unsafe_code, reason = "the library is a table of C functions")]
mod registration;
#[allow(unsafe_code, reason = "the types of C functions")]
mod symbols;
#[cfg(feature = "testing")]
pub mod testing;

pub use file::RegisteredFile;
pub use load::LoadError;
pub use mount::{BUFFER_BYTES, LANES, Mount, MountError};
