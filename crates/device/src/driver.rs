//! The CUDA driver of the process, as safe functions.

use std::ffi::{CStr, c_char, c_int, c_void};

use mooncake_memory::{RawSlice, process_id};

use crate::card_functions::CardFunctions;
use crate::direction::Direction;
use crate::error::DriverError;
use crate::symbols::{
    Address, BatchAttributes, BatchCopy, Functions, Handle, LaunchHost, NewerBatchCopy,
    OlderBatchCopy, Status, StreamContext, WaitValue,
};

/// `CU_STREAM_NON_BLOCKING`: our streams and the legacy default stream do not wait for each other.
const NON_BLOCKING: u32 = 1;
/// `CU_MEMHOSTREGISTER_PORTABLE`: the lock is valid in the contexts of all devices.
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTREGISTER_DEVICEMAP`: devices can read the memory by address.
const DEVICE_MAP: u32 = 2;
/// `CU_STREAM_WAIT_VALUE_GEQ`: wait until the word minus the value, as a signed number, is not negative.
const AT_LEAST: u32 = 0;
/// `CU_MEMCPY_SRC_ACCESS_ORDER_STREAM`
const IN_ORDER_OF_STREAM: c_int = 1;
/// `CU_MEMORYTYPE_DEVICE`
const DEVICE_MEMORY: u32 = 2;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, `_IS_MANAGED`, `_DEVICE_ORDINAL`, `_RANGE_START_ADDR`, `_RANGE_SIZE`.
const ATTRIBUTES: [c_int; 5] = [2, 8, 9, 11, 12];

/// `CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID`
const HOST_NUMA_NODE: c_int = 134;
/// `CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM`
const HAS_HOST_ADDRESSES: c_int = 91;

/// The CUDA driver, as this process has loaded it.
pub(crate) struct Driver {
    functions: Functions,
    batch: Option<BatchCopy>,
    wait_value: Option<WaitValue>,
    launch_host: Option<(LaunchHost, StreamContext)>,
    pub(crate) cards: CardFunctions,
    /// The process that found the driver. A forked child cannot use it.
    process: u32,
}

/// What a stream runs on a thread of the driver.
pub(crate) type HostWork = Box<dyn FnOnce() + Send>;

/// A context of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Context(Handle);

/// A stream of a context.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Stream(Handle);

/// A kernel, loaded in a context of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kernel(Handle);

// SAFETY: the CUDA driver allows any thread to use its handles.
unsafe impl Send for Kernel {}
// SAFETY: as for Send.
unsafe impl Sync for Kernel {}
// SAFETY: as for Send.
unsafe impl Send for Context {}
// SAFETY: as for Send.
unsafe impl Sync for Context {}
// SAFETY: as for Send.
unsafe impl Send for Stream {}
// SAFETY: as for Send.
unsafe impl Sync for Stream {}

/// One copy between memory of a device and memory of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneCopy<'m> {
    pub(crate) device: Address,
    pub(crate) host: RawSlice<'m>,
}

impl Stream {
    /// A stream of the application. It must be live while the result is used.
    pub(crate) fn of_caller(handle: usize) -> Stream {
        Stream(std::ptr::with_exposed_provenance_mut(handle))
    }

    /// The stream as a number.
    #[cfg(feature = "testing")]
    pub(crate) fn handle(&self) -> usize {
        self.0.expose_provenance()
    }
}

/// Runs what [`Driver::launch_host`] has boxed.
unsafe extern "C" fn run_boxed(work: *mut c_void) {
    // SAFETY: `launch_host` made the pointer, and the driver passes it here once.
    let work = unsafe { Box::from_raw(work.cast::<HostWork>()) };
    work();
}

/// What the driver tells about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// The device, if the memory is a device's and the processor cannot use it.
    pub(crate) device: Option<u32>,
    /// First byte and length of the allocation. A length of zero means that the driver does not tell.
    pub(crate) range: (u64, u64),
}

impl Driver {
    /// Finds the driver's functions. Fails with the name of a missing one.
    pub(crate) fn find(find: &dyn Fn(&CStr) -> *mut c_void) -> Result<Driver, &'static CStr> {
        // SAFETY: the caller's `find` returns symbols of a CUDA driver, or of a test double with the same signatures.
        let functions = unsafe { Functions::find(find) }?;
        let (newer, older) = (find(c"cuMemcpyBatchAsync_v2"), find(c"cuMemcpyBatchAsync"));
        let batch = if !newer.is_null() {
            // SAFETY: `find` returned the driver's function of this name, which has this signature.
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
        let wait_value = find(c"cuStreamWaitValue32_v2");
        let wait_value = (!wait_value.is_null()).then(|| {
            // SAFETY: as above.
            unsafe { std::mem::transmute::<*mut c_void, WaitValue>(wait_value) }
        });
        let (launch, context) = (find(c"cuLaunchHostFunc"), find(c"cuStreamGetCtx"));
        let launch_host = (!launch.is_null() && !context.is_null()).then(|| {
            // SAFETY: as above, for both.
            unsafe {
                (
                    std::mem::transmute::<*mut c_void, LaunchHost>(launch),
                    std::mem::transmute::<*mut c_void, StreamContext>(context),
                )
            }
        });
        // SAFETY: as above.
        let cards = unsafe { CardFunctions::find(find) };
        Ok(Driver { functions, batch, wait_value, launch_host, cards, process: process_id() })
    }

    pub(crate) fn check(&self, call: &'static str, code: Status) -> Result<(), DriverError> {
        if code == 0 {
            return Ok(());
        }
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: the driver writes one pointer, to `name`.
        let status = unsafe { (self.functions.error_name)(code, &raw mut name) };
        let name = if status == 0 && !name.is_null() {
            // SAFETY: the driver returns constants that end with a zero.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            "an unknown error".to_owned()
        };
        Err(DriverError { call, code, name })
    }

    /// The process that found the driver.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// Initialises the driver in this process. Repeating it has no effect.
    pub(crate) fn init(&self) -> Result<(), DriverError> {
        // SAFETY: the call has no preconditions.
        self.check("cuInit", unsafe { (self.functions.init)(0) })
    }

    /// Whether this process has initialised the driver, and not a parent of it.
    pub(crate) fn is_initialized(&self) -> bool {
        !self.device_count().is_err_and(|error| error.is_uninitialized())
    }

    pub(crate) fn version(&self) -> Result<i32, DriverError> {
        let mut version = 0;
        // SAFETY: the driver writes one number, to `version`.
        let code = unsafe { (self.functions.driver_version)(&raw mut version) };
        self.check("cuDriverGetVersion", code).map(|()| version)
    }

    pub(crate) fn has_batch_copy(&self) -> bool {
        self.batch.is_some()
    }

    pub(crate) fn device_count(&self) -> Result<u32, DriverError> {
        let mut count = 0;
        // SAFETY: the driver writes one number, to `count`.
        let code = unsafe { (self.functions.device_count)(&raw mut count) };
        self.check("cuDeviceGetCount", code).map(|()| u32::try_from(count).unwrap_or(0))
    }

    fn handle_of(&self, ordinal: u32) -> Result<c_int, DriverError> {
        let mut handle = 0;
        // SAFETY: the driver writes one number, to `handle`.
        let code = unsafe {
            (self.functions.device_get)(&raw mut handle, c_int::try_from(ordinal).unwrap_or(-1))
        };
        self.check("cuDeviceGet", code).map(|()| handle)
    }

    /// The name of a device, and the size of its memory in bytes.
    pub(crate) fn describe(&self, ordinal: u32) -> Result<(String, u64), DriverError> {
        let handle = self.handle_of(ordinal)?;
        let mut name = [0_u8; 256];
        // SAFETY: the driver writes at most the given number of bytes, including a zero.
        let code = unsafe { (self.functions.device_name)(name.as_mut_ptr().cast(), 256, handle) };
        self.check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy).unwrap_or_default();
        let mut bytes = 0;
        // SAFETY: the driver writes one number, to `bytes`.
        let code = unsafe { (self.functions.device_bytes)(&raw mut bytes, handle) };
        self.check("cuDeviceTotalMem", code).map(|()| (name.into_owned(), bytes as u64))
    }

    /// The nearest NUMA node of a device; negative if there is none.
    pub(crate) fn host_numa_node(&self, ordinal: u32) -> Result<i32, DriverError> {
        self.attribute(ordinal, HOST_NUMA_NODE)
    }

    /// Whether a device can access locked host memory at the processor's addresses.
    pub(crate) fn has_host_addresses(&self, ordinal: u32) -> Result<bool, DriverError> {
        self.attribute(ordinal, HAS_HOST_ADDRESSES).map(|has| has != 0)
    }

    pub(crate) fn attribute(&self, ordinal: u32, attribute: c_int) -> Result<i32, DriverError> {
        let (handle, mut value) = (self.handle_of(ordinal)?, -1);
        // SAFETY: the driver writes one number, to `value`.
        let code = unsafe { (self.functions.device_attribute)(&raw mut value, attribute, handle) };
        self.check("cuDeviceGetAttribute", code).map(|()| value)
    }

    /// The PCI address of a device, for example `0000:3B:00.0`.
    pub(crate) fn bus_address(&self, ordinal: u32) -> Result<String, DriverError> {
        let (handle, mut text) = (self.handle_of(ordinal)?, [0_u8; 64]);
        // SAFETY: the driver writes at most the given number of bytes, including a zero.
        let code =
            unsafe { (self.functions.device_bus_address)(text.as_mut_ptr().cast(), 64, handle) };
        self.check("cuDeviceGetPCIBusId", code)?;
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy);
        Ok(text.unwrap_or_default().into_owned())
    }

    /// Retains the primary context of a device. It exists until it is released as often as it was retained.
    pub(crate) fn retain_context(&self, ordinal: u32) -> Result<Context, DriverError> {
        let (handle, mut context) = (self.handle_of(ordinal)?, std::ptr::null_mut());
        // SAFETY: the driver writes one pointer, to `context`.
        let code = unsafe { (self.functions.retain_context)(&raw mut context, handle) };
        self.check("cuDevicePrimaryCtxRetain", code).map(|()| Context(context))
    }

    pub(crate) fn release_context(&self, ordinal: u32) -> Result<(), DriverError> {
        let handle = self.handle_of(ordinal)?;
        // SAFETY: the call takes a number. `Device` has retained the context, and does not use it any more.
        self.check("cuDevicePrimaryCtxRelease", unsafe { (self.functions.release_context)(handle) })
    }

    /// Runs `work` with this context as the thread's current one, and then restores the previous one.
    pub(crate) fn within<T>(
        &self,
        context: Context,
        work: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        // SAFETY: the driver returned this context. If it does not exist any more, the driver reports an error.
        self.check("cuCtxPushCurrent", unsafe { (self.functions.push_context)(context.0) })?;
        let result = work();
        let mut popped = std::ptr::null_mut();
        // SAFETY: the driver writes one pointer, to `popped`. The topmost context is the one pushed above.
        let code = unsafe { (self.functions.pop_context)(&raw mut popped) };
        let popped = self.check("cuCtxPopCurrent", code);
        result.and_then(|value| popped.map(|()| value))
    }

    /// Creates a stream of the current context, of the highest priority: its kernels start before waiting work of
    /// other streams.
    pub(crate) fn create_stream(&self) -> Result<Stream, DriverError> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the driver writes two numbers, to `least` and `greatest`.
        let code = unsafe { (self.functions.priorities)(&raw mut least, &raw mut greatest) };
        self.check("cuCtxGetStreamPriorityRange", code)?;
        let mut stream = std::ptr::null_mut();
        // SAFETY: the driver writes one pointer, to `stream`.
        let code =
            unsafe { (self.functions.stream_create)(&raw mut stream, NON_BLOCKING, greatest) };
        self.check("cuStreamCreateWithPriority", code).map(|()| Stream(stream))
    }

    /// Compiles a PTX program for the device of the current context, and loads its kernel `name`. It is never
    /// unloaded.
    pub(crate) fn load_kernel(&self, text: &CStr, name: &CStr) -> Result<Kernel, DriverError> {
        let (mut module, mut kernel) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the driver writes one pointer, to `module`, and reads `text`, which ends with a zero.
        let code = unsafe { (self.functions.load_module)(&raw mut module, text.as_ptr().cast()) };
        self.check("cuModuleLoadData", code)?;
        // SAFETY: the driver writes one pointer, to `kernel`; `module` was just loaded, and `name` ends with a zero.
        let code = unsafe { (self.functions.function_of)(&raw mut kernel, module, name.as_ptr()) };
        self.check("cuModuleGetFunction", code).map(|()| Kernel(kernel))
    }

    /// Starts `blocks` times `threads` threads of a kernel. The kernel takes a list in host memory, and its length.
    pub(crate) fn launch(
        &self,
        kernel: Kernel,
        (blocks, threads): (u32, u32),
        (list, count): (RawSlice, u32),
        stream: &Stream,
    ) -> Result<(), DriverError> {
        let (mut list, mut count) = (list.as_ptr().expose_provenance() as Address, count);
        let mut parameters = [(&raw mut list).cast::<c_void>(), (&raw mut count).cast()];
        // SAFETY: the kernel takes an address and a 32-bit number, which the driver reads before it returns. The
        // caller keeps all memory that the list names until the stream is synchronized, as for `copy`.
        let code = unsafe {
            (self.functions.launch)(
                kernel.0,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream.0,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.check("cuLaunchKernel", code)
    }

    pub(crate) fn destroy_stream(&self, stream: Stream) -> Result<(), DriverError> {
        // SAFETY: `create_stream` made the stream, and this consumes it.
        self.check("cuStreamDestroy", unsafe { (self.functions.stream_destroy)(stream.0) })
    }

    /// Waits until all work of the stream has ended.
    pub(crate) fn synchronize(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: `create_stream` made the stream, and `destroy_stream` would have consumed it.
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
                // SAFETY: the caller of `RawSlice::new` promised that the host memory is mapped and writable while it
                // is used. `Copying` keeps it in use until the stream is synchronized. The driver checks the device
                // address.
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

    /// Begins many copies with one call. Returns false, and begins none, if the driver has no such call.
    ///
    /// The host memory must be page-locked, and the device ranges must be allocated: the driver does not check them
    /// here.
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
        // SAFETY: the lists have `count` numbers each, and one set of attributes applies to all copies. The driver
        // reads them before it returns. The host memory is kept as in `copy`.
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

    /// What the driver tells about an address.
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
        // SAFETY: the driver writes one value per attribute, of the type that its documentation gives for the
        // attribute.
        let code = unsafe {
            let (ids, values) = (ATTRIBUTES.as_ptr(), values.as_ptr());
            (self.functions.pointer_attributes)(ATTRIBUTES.len() as u32, ids, values, address)
        };
        self.check("cuPointerGetAttributes", code)?;
        let is_device = kind == DEVICE_MEMORY && managed == 0;
        let device = u32::try_from(ordinal).ok().filter(|_| is_device);
        Ok(Pointer { device, range: (start, len as u64) })
    }

    /// Allocates memory of the device of the current context.
    pub(crate) fn allocate(&self, len: usize) -> Result<Address, DriverError> {
        let mut address = 0;
        // SAFETY: the driver writes one number, to `address`.
        let code = unsafe { (self.functions.allocate)(&raw mut address, len) };
        self.check("cuMemAlloc", code).map(|()| address)
    }

    pub(crate) fn free(&self, address: Address) -> Result<(), DriverError> {
        // SAFETY: `allocate` returned the address, and `Allocation` does not use it any more.
        self.check("cuMemFree", unsafe { (self.functions.free)(address) })
    }

    /// Locks pages of the host, for all devices.
    pub(crate) fn host_register(&self, memory: RawSlice) -> Result<(), DriverError> {
        let (start, len) = (memory.as_ptr().cast(), memory.len());
        // SAFETY: the caller of `RawSlice::new` promised that the memory is mapped; the call changes no byte of it.
        let code = unsafe { (self.functions.host_register)(start, len, PORTABLE) };
        self.check("cuMemHostRegister", code)
    }

    /// Locks pages of the host, and returns the address at which devices read them.
    pub(crate) fn host_map(&self, memory: RawSlice) -> Result<Address, DriverError> {
        let (start, mut address) = (memory.as_ptr().cast(), 0);
        // SAFETY: the caller of `RawSlice::new` promised that the memory is mapped; the call changes no byte of it.
        let code =
            unsafe { (self.functions.host_register)(start, memory.len(), PORTABLE | DEVICE_MAP) };
        self.check("cuMemHostRegister", code)?;
        // SAFETY: the driver writes one number, to `address`.
        let code = unsafe { (self.functions.host_address)(&raw mut address, start, 0) };
        let address = self.check("cuMemHostGetDevicePointer", code).map(|()| address);
        // On an error the caller may unmap the pages, so they must not stay locked.
        address.inspect_err(|_| drop(self.host_unregister(memory.as_ptr().addr())))
    }

    /// Checks that the driver can make streams wait for values.
    pub(crate) fn check_wait(&self) -> Result<(), DriverError> {
        let missing = || DriverError::unsupported("cuStreamWaitValue32");
        self.wait_value.map(|_| ()).ok_or_else(missing)
    }

    /// Makes a stream wait until the word at `address` is at least `value`. The word's memory must never be freed.
    pub(crate) fn wait_value(
        &self,
        stream: usize,
        address: Address,
        value: u32,
    ) -> Result<(), DriverError> {
        let wait =
            self.wait_value.ok_or_else(|| DriverError::unsupported("cuStreamWaitValue32"))?;
        let stream = std::ptr::with_exposed_provenance_mut(stream);
        // SAFETY: the caller passes a live stream of this driver; the driver only reads the word.
        self.check("cuStreamWaitValue32", unsafe { wait(stream, address, value, AT_LEAST) })
    }

    /// Checks that the driver can run functions of the host in the order of a stream.
    pub(crate) fn check_launch_host(&self) -> Result<(), DriverError> {
        let missing = || DriverError::unsupported("cuLaunchHostFunc");
        self.launch_host.map(|_| ()).ok_or_else(missing)
    }

    /// The context of a live stream of the application.
    pub(crate) fn context_of_stream(&self, stream: &Stream) -> Result<Context, DriverError> {
        let (_, context_of) =
            self.launch_host.ok_or_else(|| DriverError::unsupported("cuStreamGetCtx"))?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the caller passes a live stream of this driver. The driver writes one pointer, to `context`.
        let code = unsafe { context_of(stream.0, &raw mut context) };
        self.check("cuStreamGetCtx", code).map(|()| Context(context))
    }

    /// Makes a stream run `work` on a thread of the driver, once it has done all that was put on it before. What is
    /// put on it later waits until `work` returns. `work` must not call the driver.
    pub(crate) fn launch_host(
        &self,
        stream: &Stream,
        work: HostWork,
    ) -> Result<(), (DriverError, HostWork)> {
        let Some((launch, _)) = self.launch_host else {
            return Err((DriverError::unsupported("cuLaunchHostFunc"), work));
        };
        let work = Box::into_raw(Box::new(work));
        // SAFETY: the caller passes a live stream of this driver. `run_boxed` gets the pointer once, or never if the
        // call fails.
        let code = unsafe { launch(stream.0, run_boxed, work.cast()) };
        self.check("cuLaunchHostFunc", code).map_err(|error| {
            // SAFETY: made above. The driver has not taken it, since the call failed.
            (error, *unsafe { Box::from_raw(work) })
        })
    }

    /// Unlocks the pages that were locked from this address on.
    pub(crate) fn host_unregister(&self, start: usize) -> Result<(), DriverError> {
        let start = std::ptr::without_provenance_mut(start);
        // SAFETY: the driver looks up a registration that starts there; no byte changes.
        let code = unsafe { (self.functions.host_unregister)(start) };
        self.check("cuMemHostUnregister", code)
    }
}
