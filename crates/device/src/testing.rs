//! For tests: a driver that replaces the system's, and memory of its devices.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::sync::Arc;

use mooncake_memory::{Buffer, PlacedSlice, SliceList};

use crate::allocation::Allocation;
use crate::device::Device;
use crate::driver::Stream;
use crate::load::take_driver;
pub use crate::numa::pretend_several_nodes;
use crate::{copy_from_caller, copy_to_caller};

/// Uses this driver, given by its symbols, instead of one that the process may load.
///
/// # Panics
/// If a symbol is missing, or the process has a driver already.
pub fn use_driver(find: fn(&CStr) -> *mut c_void) {
    take_driver(&find);
}

/// Lets the time pass for which a refusal to lock pages is remembered.
pub fn end_refusals() {
    crate::page_locks::end_refusals();
}

/// Memory of a device. Dropping this frees it.
#[derive(Debug)]
pub struct DeviceMemory(Allocation);

impl DeviceMemory {
    /// Allocates `len` uninitialised bytes.
    ///
    /// # Panics
    /// If there is no memory, or [`use_driver`] was not called.
    #[must_use]
    pub fn new(ordinal: u32, len: usize) -> DeviceMemory {
        DeviceMemory(Allocation::new(ordinal, len).expect("the device has memory"))
    }

    /// Allocates memory that holds these bytes.
    ///
    /// # Panics
    /// As [`DeviceMemory::new`], and if the bytes cannot be copied.
    #[must_use]
    pub fn with(ordinal: u32, bytes: &[u8]) -> DeviceMemory {
        let memory = Self::new(ordinal, bytes.len());
        let buffer = Buffer::from_vec(bytes.to_vec());
        copy_to_caller(buffer.raw(), &memory.list()).expect("the bytes are copied");
        memory
    }

    /// Address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.0.address()
    }

    /// A part of the memory.
    ///
    /// # Panics
    /// If it does not lie within the memory.
    #[must_use]
    pub fn slice(&self, from: usize, len: usize) -> PlacedSlice<'_> {
        self.0.whole().sub(from, len)
    }

    /// All of the memory.
    #[must_use]
    pub fn list(&self) -> SliceList<'_> {
        self.0.whole().into()
    }

    /// A copy of the bytes.
    ///
    /// # Panics
    /// If the bytes cannot be copied.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let buffer = Buffer::zeroed(self.0.whole().len());
        copy_from_caller(&self.list(), buffer.raw()).expect("the bytes are copied");
        buffer.into_vec()
    }
}

/// A stream as an application has it.
pub struct ApplicationStream {
    device: Arc<Device>,
    stream: Stream,
}

impl ApplicationStream {
    /// Creates a stream of a device.
    ///
    /// # Panics
    /// If the device has no room for one, or [`use_driver`] was not called.
    #[must_use]
    pub fn new(ordinal: u32) -> ApplicationStream {
        let device = Device::of(ordinal).expect("the device is there");
        let stream = device.within(|| device.driver().create_stream()).expect("it has room");
        ApplicationStream { device, stream }
    }

    /// The default stream of a device.
    ///
    /// # Panics
    /// If [`use_driver`] was not called.
    #[must_use]
    pub fn default_of(ordinal: u32) -> ApplicationStream {
        let device = Device::of(ordinal).expect("the device is there");
        ApplicationStream { device, stream: Stream::of_caller(0) }
    }

    /// The handle that the driver gave it.
    #[must_use]
    pub fn handle(&self) -> usize {
        self.stream.handle()
    }

    /// Waits until it has done all.
    ///
    /// # Panics
    /// If some of it failed.
    pub fn finish(&self) {
        let done = self.device.within(|| self.device.driver().synchronize(&self.stream));
        done.expect("all of the stream's work succeeds");
    }
}

impl fmt::Debug for ApplicationStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApplicationStream").field(&self.handle()).finish()
    }
}
