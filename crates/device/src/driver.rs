//! The driver of the process, and safe calls of its functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use mooncake_memory::RawSlice;

use crate::copy_each::Direction;
use crate::error::DriverError;
use crate::symbols::{
    Address, BatchAttributes, BatchCopy, Functions, Handle, NewerBatchCopy, OlderBatchCopy, Status,
};

/// `CU_STREAM_NON_BLOCKING`: work on the legacy default stream does not wait for ours, nor ours for it.
const NON_BLOCKING: u32 = 1;
/// `CU_MEMHOSTREGISTER_PORTABLE`: locked for the contexts of all devices.
const PORTABLE: u32 = 1;
/// `CU_MEMCPY_SRC_ACCESS_ORDER_STREAM`
const IN_ORDER_OF_STREAM: c_int = 1;
/// `CU_MEMORYTYPE_DEVICE`
const DEVICE_MEMORY: u32 = 2;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, `_IS_MANAGED`, `_DEVICE_ORDINAL`, `_RANGE_START_ADDR`, `_RANGE_SIZE`.
const ATTRIBUTES: [c_int; 5] = [2, 8, 9, 11, 12];

/// The CUDA driver, as this process has loaded it.
pub(crate) struct Driver {
    functions: Functions,
    batch: Option<BatchCopy>,
    /// A child of this process cannot use it.
    process: u32,
}

/// A context of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Context(Handle);

/// A stream of a context.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Stream(Handle);

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Context {}
// SAFETY: as for Send.
unsafe impl Sync for Context {}
// SAFETY: as for Send.
unsafe impl Send for Stream {}
// SAFETY: as for Send.
unsafe impl Sync for Stream {}

/// One copy between memory of a device and memory of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneCopy {
    pub(crate) device: Address,
    pub(crate) host: RawSlice,
}

/// What the driver says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// The device that the memory lies in, unless the processor can use it too.
    pub(crate) device: Option<u32>,
    /// First byte, and length, of the allocation; a length of zero if the driver does not say.
    pub(crate) range: (u64, u64),
}

static FOUND: OnceLock<Driver> = OnceLock::new();

/// The driver, if this process has loaded it. A process that loads it later is noticed at the next call.
pub(crate) fn driver() -> Option<&'static Driver> {
    let found = match FOUND.get() {
        Some(driver) => driver,
        None => load()?,
    };
    (found.process == std::process::id()).then_some(found)
}

fn load() -> Option<&'static Driver> {
    // SAFETY: a constant name. With RTLD_NOLOAD nothing is loaded and no code runs: it only finds what is there.
    let library =
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    // The handle is kept: the library stays for as long as the process.
    // SAFETY: the handle is valid, and the name ends with a zero.
    let find = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) };
    match Driver::find(&find) {
        Ok(driver) => Some(FOUND.get_or_init(|| driver)),
        Err(missing) => {
            tracing::warn!(?missing, "the CUDA driver is too old: memory of devices is not served");
            None
        }
    }
}

/// Takes this driver in place of one that the process may load.
#[cfg(feature = "testing")]
pub(crate) fn take_driver(find: &dyn Fn(&CStr) -> *mut c_void) {
    let driver = Driver::find(find).expect("it has all functions");
    assert!(FOUND.set(driver).is_ok(), "the process has a driver already");
}

impl Driver {
    fn find(find: &dyn Fn(&CStr) -> *mut c_void) -> Result<Driver, &'static CStr> {
        // SAFETY: `find` looks in a CUDA driver.
        let functions = unsafe { Functions::find(find) }?;
        let (newer, older) = (find(c"cuMemcpyBatchAsync_v2"), find(c"cuMemcpyBatchAsync"));
        let batch = if !newer.is_null() {
            // SAFETY: the driver's function of this name has this signature.
            Some(BatchCopy::Newer(unsafe {
                std::mem::transmute::<*mut c_void, NewerBatchCopy>(newer)
            }))
        } else if !older.is_null() {
            // SAFETY: as above.
            Some(BatchCopy::Older(unsafe {
                std::mem::transmute::<*mut c_void, OlderBatchCopy>(older)
            }))
        } else {
            None
        };
        Ok(Driver { functions, batch, process: std::process::id() })
    }

    fn check(&self, call: &'static str, code: Status) -> Result<(), DriverError> {
        if code == 0 {
            return Ok(());
        }
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: writes one pointer.
        let status = unsafe { (self.functions.error_name)(code, &raw mut name) };
        let name = if status == 0 && !name.is_null() {
            // SAFETY: the driver gives constants that end with a zero.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            "an unknown error".to_owned()
        };
        Err(DriverError { call, code, name })
    }

    pub(crate) fn version(&self) -> Result<i32, DriverError> {
        let mut version = 0;
        // SAFETY: writes one number.
        let code = unsafe { (self.functions.driver_version)(&raw mut version) };
        self.check("cuDriverGetVersion", code).map(|()| version)
    }

    pub(crate) fn has_batch_copy(&self) -> bool {
        self.batch.is_some()
    }

    pub(crate) fn device_count(&self) -> Result<u32, DriverError> {
        let mut count = 0;
        // SAFETY: writes one number.
        let code = unsafe { (self.functions.device_count)(&raw mut count) };
        self.check("cuDeviceGetCount", code).map(|()| u32::try_from(count).unwrap_or(0))
    }

    fn handle_of(&self, ordinal: u32) -> Result<c_int, DriverError> {
        let mut handle = 0;
        // SAFETY: writes one number.
        let code = unsafe {
            (self.functions.device_get)(&raw mut handle, c_int::try_from(ordinal).unwrap_or(-1))
        };
        self.check("cuDeviceGet", code).map(|()| handle)
    }

    /// The name of a device, and how many bytes it has.
    pub(crate) fn describe(&self, ordinal: u32) -> Result<(String, u64), DriverError> {
        let handle = self.handle_of(ordinal)?;
        let mut name = [0_u8; 256];
        // SAFETY: writes at most as many bytes as it is told, a zero among them.
        let code = unsafe { (self.functions.device_name)(name.as_mut_ptr().cast(), 256, handle) };
        self.check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy).unwrap_or_default();
        let mut bytes = 0;
        // SAFETY: writes one number.
        let code = unsafe { (self.functions.device_bytes)(&raw mut bytes, handle) };
        self.check("cuDeviceTotalMem", code).map(|()| (name.into_owned(), bytes as u64))
    }

    /// The primary context of a device, which stays until it is released as often.
    pub(crate) fn retain_context(&self, ordinal: u32) -> Result<Context, DriverError> {
        let (handle, mut context) = (self.handle_of(ordinal)?, std::ptr::null_mut());
        // SAFETY: writes one pointer.
        let code = unsafe { (self.functions.retain_context)(&raw mut context, handle) };
        self.check("cuDevicePrimaryCtxRetain", code).map(|()| Context(context))
    }

    pub(crate) fn release_context(&self, ordinal: u32) -> Result<(), DriverError> {
        let handle = self.handle_of(ordinal)?;
        // SAFETY: whoever calls has retained it, and uses it no more.
        self.check("cuDevicePrimaryCtxRelease", unsafe { (self.functions.release_context)(handle) })
    }

    /// Runs `work` with a context as the thread's current one, and restores what was before.
    pub(crate) fn within<T>(
        &self,
        context: Context,
        work: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        // SAFETY: a context that the driver gave; if it is gone, the driver says so.
        self.check("cuCtxPushCurrent", unsafe { (self.functions.push_context)(context.0) })?;
        let result = work();
        let mut popped = std::ptr::null_mut();
        // SAFETY: writes one pointer; the context on top is the one that was pushed.
        let code = unsafe { (self.functions.pop_context)(&raw mut popped) };
        let popped = self.check("cuCtxPopCurrent", code);
        result.and_then(|value| popped.map(|()| value))
    }

    /// A stream of the current context.
    pub(crate) fn create_stream(&self) -> Result<Stream, DriverError> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        let code = unsafe { (self.functions.stream_create)(&raw mut stream, NON_BLOCKING) };
        self.check("cuStreamCreate", code).map(|()| Stream(stream))
    }

    pub(crate) fn destroy_stream(&self, stream: Stream) -> Result<(), DriverError> {
        // SAFETY: made by `create_stream`, and used no more.
        self.check("cuStreamDestroy", unsafe { (self.functions.stream_destroy)(stream.0) })
    }

    /// Waits until all work of the stream is done.
    pub(crate) fn synchronize(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: made by `create_stream`.
        self.check("cuStreamSynchronize", unsafe { (self.functions.stream_synchronize)(stream.0) })
    }

    /// Begins one copy.
    pub(crate) fn copy(
        &self,
        direction: Direction,
        OneCopy { device, host }: OneCopy,
        stream: &Stream,
    ) -> Result<(), DriverError> {
        let (host, len) = (host.as_ptr().cast::<c_void>(), host.len());
        match direction {
            Direction::ToHost => {
                // SAFETY: the host memory is there until the copy has ended, and may be written, as whoever made the slice
                // promised (`RawSlice::new`); the driver checks the address of the device.
                let code = unsafe { (self.functions.copy_to_host)(host, device, len, stream.0) };
                self.check("cuMemcpyDtoHAsync", code)
            }
            Direction::ToDevice => {
                // SAFETY: as above.
                let code = unsafe { (self.functions.copy_to_device)(device, host, len, stream.0) };
                self.check("cuMemcpyHtoDAsync", code)
            }
        }
    }

    /// Begins many copies with one call. False, and none has begun, if the driver has no such call. The memory of the host is
    /// page-locked, and the ranges of the device are allocated: of others the driver does not say that they are not.
    pub(crate) fn copy_batch(
        &self,
        direction: Direction,
        copies: &[OneCopy],
        stream: &Stream,
    ) -> Result<bool, DriverError> {
        let Some(batch) = self.batch else { return Ok(false) };
        let devices: Vec<Address> = copies.iter().map(|copy| copy.device).collect();
        let hosts = copies.iter().map(|copy| copy.host.as_ptr().expose_provenance() as Address);
        let hosts: Vec<Address> = hosts.collect();
        let lens: Vec<usize> = copies.iter().map(|copy| copy.host.len()).collect();
        let (to, from) = match direction {
            Direction::ToHost => (hosts.as_ptr(), devices.as_ptr()),
            Direction::ToDevice => (devices.as_ptr(), hosts.as_ptr()),
        };
        let (access_order, nowhere) = (IN_ORDER_OF_STREAM, [0, 0]);
        let mut attributes =
            BatchAttributes { access_order, source: nowhere, destination: nowhere, flags: 0 };
        let (attributes, mut of_first, mut wrong) = (&raw mut attributes, 0_usize, 0_usize);
        let (lens, count, of_first) = (lens.as_ptr(), copies.len(), &raw mut of_first);
        // SAFETY: three lists of `count` numbers and one set of attributes, that of all copies, which the driver reads before it
        // returns. The memory of the host as in `copy`.
        let code = unsafe {
            match batch {
                BatchCopy::Newer(copy) => {
                    copy(to, from, lens, count, attributes, of_first, 1, stream.0)
                }
                BatchCopy::Older(copy) => {
                    let wrong = &raw mut wrong;
                    copy(to, from, lens, count, attributes, of_first, 1, wrong, stream.0)
                }
            }
        };
        match self.check("cuMemcpyBatchAsync", code) {
            Err(error) if error.is_unsupported() => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// What lies at an address.
    pub(crate) fn pointer(&self, address: u64) -> Result<Pointer, DriverError> {
        let (mut kind, mut managed, mut ordinal) = (0_u32, 0_u32, -1_i32);
        let (mut start, mut len) = (0_u64, 0_usize);
        let values: [*mut c_void; 5] = [
            (&raw mut kind).cast(),
            (&raw mut managed).cast(),
            (&raw mut ordinal).cast(),
            (&raw mut start).cast(),
            (&raw mut len).cast(),
        ];
        // SAFETY: the driver writes one value for each attribute, each of the type that its documentation names.
        let code = unsafe {
            let (ids, values) = (ATTRIBUTES.as_ptr(), values.as_ptr());
            (self.functions.pointer_attributes)(ATTRIBUTES.len() as u32, ids, values, address)
        };
        self.check("cuPointerGetAttributes", code)?;
        let is_device = kind == DEVICE_MEMORY && managed == 0;
        let device = u32::try_from(ordinal).ok().filter(|_| is_device);
        Ok(Pointer { device, range: (start, len as u64) })
    }

    /// Locks pages of the host, for all devices.
    pub(crate) fn host_register(&self, memory: RawSlice) -> Result<(), DriverError> {
        let (start, len) = (memory.as_ptr().cast(), memory.len());
        // SAFETY: mapped memory; no byte of it changes.
        let code = unsafe { (self.functions.host_register)(start, len, PORTABLE) };
        self.check("cuMemHostRegister", code)
    }

    pub(crate) fn host_unregister(&self, start: RawSlice) -> Result<(), DriverError> {
        // SAFETY: the driver looks for a registration that starts there; no byte changes.
        let code = unsafe { (self.functions.host_unregister)(start.as_ptr().cast()) };
        self.check("cuMemHostUnregister", code)
    }
}
