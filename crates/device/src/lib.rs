//! Memory of GPUs: asks the driver which memory lies there, and has it copied to and from memory of the host.
//!
//! The CUDA driver is used only in processes that have loaded it already: nothing is linked, loaded or started for it, and a
//! process without a GPU pays nothing. The crate knows no keys, segments of nodes or sockets.
//!
//! All copies run in the primary context of the device that owns the memory, on streams of this crate. No lock is held while bytes
//! are copied. Each call returns when the bytes are in place, or when nothing of the copy is under way any more.
//!
//! Enter at [`place_of`] for what an address is, at [`copy_each`] for copies between callers' memory and segments, and at
//! [`Staging`] for page-locked memory that bytes pass through on their way to a socket.

#![deny(unsafe_code)]

mod copy_each;
mod copying;
mod device;
#[allow(unsafe_code, reason = "the driver is a table of C functions")]
mod driver;
mod error;
mod page_locks;
mod place;
mod staging;
#[allow(unsafe_code, reason = "the types of C functions")]
mod symbols;
#[cfg(feature = "testing")]
#[allow(unsafe_code, reason = "memory of a test is named by address")]
pub mod testing;

pub use copy_each::{Direction, Job, copy_each, copy_from_caller, copy_to_caller};
pub use copying::Copying;
pub use device::{DeviceDescription, devices};
pub use error::{CopyError, DriverError};
pub use page_locks::locked_bytes;
pub use place::place_of;
pub use staging::{STAGING_BYTES, Staging, StagingBuffer};
