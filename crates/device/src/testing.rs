//! For tests: a driver in place of the system's, and memory of its devices.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use mooncake_memory::{Buffer, PlacedSlice, SliceList};

use crate::device::Device;
use crate::driver::take_driver;
use crate::{copy_from_caller, copy_to_caller};

type Find = fn(&CStr) -> *mut c_void;

static FIND: OnceLock<Find> = OnceLock::new();

/// Takes this driver, given by its symbols, in place of one that the process may load.
///
/// # Panics
/// If a symbol is missing, or the process has a driver.
pub fn use_driver(find: Find) {
    take_driver(&find);
    let init = find(c"cuInit");
    assert!(!init.is_null(), "a driver has it");
    // SAFETY: the driver's function of this name.
    let init: unsafe extern "C" fn(u32) -> c_int = unsafe { std::mem::transmute(init) };
    // SAFETY: it has no conditions.
    assert_eq!(unsafe { init(0) }, 0, "the driver starts");
    FIND.get_or_init(|| find);
}

/// Memory of a device, freed when this is dropped.
#[derive(Debug)]
pub struct DeviceMemory {
    ordinal: u32,
    address: u64,
    len: usize,
}

impl DeviceMemory {
    /// `len` bytes that mean nothing yet.
    ///
    /// # Panics
    /// If there are none, or `use_driver` was not called.
    #[must_use]
    pub fn new(ordinal: u32, len: usize) -> DeviceMemory {
        let find = FIND.get().expect("the process has a driver of the tests");
        let allocate = find(c"cuMemAlloc_v2");
        assert!(!allocate.is_null(), "a driver has it");
        // SAFETY: the driver's function of this name.
        let allocate: unsafe extern "C" fn(*mut u64, usize) -> c_int =
            unsafe { std::mem::transmute(allocate) };
        let mut address = 0;
        let device = Device::of(ordinal).expect("there is such a device");
        // SAFETY: writes one number.
        let within = device.within(|| Ok(unsafe { allocate(&raw mut address, len) }));
        assert_eq!(within, Ok(0), "the device has memory");
        DeviceMemory { ordinal, address, len }
    }

    fn free(&self) {
        let Some(find) = FIND.get() else { return };
        let free = find(c"cuMemFree_v2");
        if free.is_null() {
            return;
        }
        // SAFETY: the driver's function of this name.
        let free: unsafe extern "C" fn(u64) -> c_int = unsafe { std::mem::transmute(free) };
        if let Ok(device) = Device::of(self.ordinal) {
            // A test may have freed it, or lost the context.
            // SAFETY: nobody uses it any more.
            let _ = device.within(|| Ok(unsafe { free(self.address) }));
        }
    }

    /// Memory that holds these bytes.
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

    /// Where it starts.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// A part of it.
    ///
    /// # Panics
    /// If it does not lie within the memory.
    #[must_use]
    pub fn slice(&self, from: usize, len: usize) -> PlacedSlice {
        // SAFETY: memory of the device, which is never freed; nothing else uses it but the test.
        unsafe { PlacedSlice::of_device(self.ordinal, self.address as usize, self.len) }
            .sub(from, len)
    }

    /// All of it.
    #[must_use]
    pub fn list(&self) -> SliceList {
        self.slice(0, self.len).into()
    }

    /// A copy of the bytes.
    ///
    /// # Panics
    /// If they cannot be copied.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let buffer = Buffer::zeroed(self.len);
        copy_from_caller(&self.list(), buffer.raw()).expect("the bytes are copied");
        buffer.into_vec()
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        self.free();
    }
}
