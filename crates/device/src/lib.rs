//! Memory of GPUs: asks the CUDA driver which memory is a device's, and copies it to and from host memory.
//!
//! The driver is used only in processes that have loaded and initialised it themselves. This crate does not link, load
//! or start it, so a process without a GPU pays nothing. The exception is [`load_driver`], for programs whose purpose
//! is devices. The crate knows no keys, no nodes' segments and no sockets.
//!
//! All copies run in the primary context of the device that owns the memory, on streams of this crate. No lock is held
//! while bytes are copied. Each call returns when the bytes are in place, or when the copy is not in flight any more.
//!
//! [`StreamCounter`] makes the application's streams wait for threads of this process. [`put_on_stream`] puts copies and
//! functions of the host on such a stream, in order.
//!
//! Enter at [`place_of`] to classify an address, and at [`copy_each`] for copies between callers' memory and segments.
//! Enter at [`Staging`] for page-locked memory through which bytes pass on their way to a socket, and at [`device_region`] for
//! memory that network cards read and write themselves.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "memory of a device is named by address")]
mod allocation;
mod card_access;
#[allow(unsafe_code, reason = "the driver is a table of C functions")]
mod card_functions;
mod copy_each;
mod copying;
mod device;
mod direction;
#[allow(unsafe_code, reason = "the driver is a table of C functions")]
mod driver;
mod error;
#[allow(unsafe_code, reason = "the library is found by the system's linker")]
mod load;
mod numa;
mod page_locks;
mod piece_kernel;
mod place;
mod probe;
mod staging;
mod stream_counter;
mod stream_steps;
#[allow(unsafe_code, reason = "the types of C functions")]
mod symbols;
#[cfg(feature = "testing")]
pub mod testing;

pub use card_access::{device_region, try_with_region};
pub use copy_each::{Job, copy_each, copy_from_caller, copy_some, copy_to_caller};
pub use copying::Copying;
pub use device::{DeviceDescription, devices};
pub use direction::Direction;
pub use error::{CopyError, DriverError};
pub use load::{LoadError, load_driver};
pub use page_locks::locked_bytes;
pub use place::place_of;
pub use probe::{DeviceProbe, DeviceSpeed, DeviceWay, PieceCopyMethod, probe};
pub use staging::{STAGING_BYTES, Staging, StagingBuffer};
pub use stream_counter::StreamCounter;
pub use stream_steps::{StreamStep, put_on_stream};
