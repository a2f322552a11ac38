//! Files on 3FS, read and written by USRBIO: requests go to the FUSE daemon of the host through rings in shared memory, and bytes
//! through a buffer that it registered with the network.
//!
//! The library of 3FS (`libhf3fs_api_shared.so`) is loaded when a folder on 3FS is opened, and never otherwise. [`Mount::find`] says
//! whether a path is on 3FS, and makes the buffer and the rings. A [`RegisteredFile`] is read and written with them.
//!
//! All files of a mount share one buffer of [`BUFFER_BYTES`], cut into [`LANES`] of the same length. A transfer takes a lane and its
//! two rings, or waits for one. A request that was not answered may be carried out later, so its lane is never used again.

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
