//! The functions of the simulated CUDA driver.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::IntoRawFd;

use crate::control::fail_by_environment;
use crate::state::{
    ALREADY_REGISTERED, CONTEXT_IS_DESTROYED, CURRENT, Context, DriverState, INVALID_CONTEXT,
    INVALID_DEVICE, INVALID_VALUE, NOT_FOUND, NOT_INITIALIZED, NOT_REGISTERED, NOT_SUPPORTED,
    OUT_OF_MEMORY, SUCCESS, Status, state,
};
use crate::stream::{Job, Stream, Work};

/// Offset between processor and device addresses of locked host memory, so that a mix-up fails.
const HOST_ALIAS: u64 = 1 << 60;

/// The numerically lowest priority, which is the highest, that streams can have.
const GREATEST_PRIORITY: c_int = -5;

/// The only kernel that the double knows, and the handles that it returns for it.
const KERNEL: &str = "mooncake_copy_pieces";
const MODULE: usize = 0x100;
const FUNCTION: usize = 0x200;

type Handle = *mut c_void;

/// Counts the call, and runs `work` unless the test wants the call to fail.
fn call(name: &str, work: impl FnOnce(&mut DriverState) -> Result<(), Status>) -> Status {
    let mut state = state();
    let result = state.enter(name).and_then(|()| work(&mut state));
    result.err().unwrap_or(SUCCESS)
}

macro_rules! api {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $body:block)*) => {
        $(
            /// See the documentation of CUDA.
            ///
            /// # Safety
            /// The pointers must satisfy what CUDA demands of this function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> Status $body
        )*

        /// The function of this name, or null.
        #[must_use]
        pub fn symbol(name: &CStr) -> *mut c_void {
            match name.to_str() {
                $(Ok(stringify!($name)) => $name as *mut c_void,)*
                _ => std::ptr::null_mut(),
            }
        }
    };
}

/// Writes the result of a function.
///
/// # Safety
/// `to` must be null or writable.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the caller promises that it is writable.
    unsafe { to.write(value) };
    Ok(())
}

fn device(state: &DriverState, ordinal: c_int) -> Result<u32, Status> {
    u32::try_from(ordinal).ok().filter(|&device| device < state.devices).ok_or(INVALID_DEVICE)
}

/// Queues copies on a stream.
fn begin(state: &mut DriverState, stream: Handle, works: Vec<Work>) -> Result<(), Status> {
    // SAFETY: the driver's callers pass streams that they made, and did not destroy.
    let stream = unsafe { state.stream_of(stream) }?;
    let current = state.current()?;
    if stream.context != current {
        return Err(INVALID_CONTEXT);
    }
    if !works.iter().all(|work| state.is_allocated(work.device, work.len)) {
        return Err(INVALID_VALUE);
    }
    // The driver accepts host memory that is either unlocked, or within one page-lock. It refuses memory across
    // several locks, or partly locked memory.
    let is_one = |work: &Work| {
        !touches_locked(state, work.host, work.len) || is_locked(state, work.host, work.len)
    };
    if !works.iter().all(is_one) {
        return Err(INVALID_VALUE);
    }
    stream.push(Job::Copies { works, waits: state.waits_begun });
    Ok(())
}

/// Finds out which end of a batched copy is the device's.
fn direction(state: &DriverState, to: u64, from: u64, len: usize) -> Result<Work, Status> {
    match (state.find(to).is_some(), state.find(from).is_some()) {
        (true, false) => Ok(Work { device: to, host: from as usize, len, to_host: false }),
        (false, true) => Ok(Work { device: from, host: to as usize, len, to_host: true }),
        _ => Err(INVALID_VALUE),
    }
}

pub(crate) fn is_locked(state: &DriverState, host: usize, len: usize) -> bool {
    let before = state.locked.range(..=host).next_back();
    before.is_some_and(|(start, locked)| host + len <= start + locked)
}

fn touches_locked(state: &DriverState, host: usize, len: usize) -> bool {
    let before = state.locked.range(..host + len).next_back();
    before.is_some_and(|(start, locked)| start + locked > host)
}

/// Queues a batch of copies.
///
/// # Safety
/// The lists must have `count` elements.
unsafe fn batch(
    to: *const u64,
    from: *const u64,
    lens: *const usize,
    count: usize,
    stream: Handle,
) -> Status {
    call("cuMemcpyBatchAsync", |state| {
        if !state.has_batch {
            return Err(NOT_SUPPORTED);
        }
        let mut works = Vec::with_capacity(count);
        for index in 0..count {
            // SAFETY: the caller promises that the lists have `count` elements.
            let (to, from, len) = unsafe { (*to.add(index), *from.add(index), *lens.add(index)) };
            let work = direction(state, to, from, len)?;
            // The real driver accepts unlocked memory, but `mooncake-device` must not pass any.
            if !is_locked(state, work.host, work.len) {
                return Err(INVALID_VALUE);
            }
            works.push(work);
        }
        begin(state, stream, works)
    })
}

api! {
    fn cuInit(_flags: c_uint) {
        let mut state = state();
        if state.process.is_none() {
            fail_by_environment(&mut state);
        }
        drop(state);
        call("cuInit", |state| {
            let process = std::process::id();
            // A forked child cannot use what its parent initialised, not even after `cuInit`.
            if *state.process.get_or_insert(process) != process {
                return Err(NOT_INITIALIZED);
            }
            Ok(())
        })
    }

    fn cuGetErrorName(code: c_int, name: *mut *const c_char) {
        let text = match code {
            1 => c"CUDA_ERROR_INVALID_VALUE",
            2 => c"CUDA_ERROR_OUT_OF_MEMORY",
            3 => c"CUDA_ERROR_NOT_INITIALIZED",
            100 => c"CUDA_ERROR_NO_DEVICE",
            700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
            709 => c"CUDA_ERROR_CONTEXT_IS_DESTROYED",
            712 => c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
            _ => c"CUDA_ERROR_OF_THE_DOUBLE",
        };
        // SAFETY: the caller promises that `name` is writable (as CUDA demands).
        unsafe { give(name, text.as_ptr()) }.err().unwrap_or(SUCCESS)
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller promises that `version` is writable.
        unsafe { give(version, 12_080) }.err().unwrap_or(SUCCESS)
    }

    fn cuDeviceGetCount(count: *mut c_int) {
        // SAFETY: the caller promises that `count` is writable.
        call("cuDeviceGetCount", |state| unsafe { give(count, state.devices.cast_signed()) })
    }

    fn cuDeviceGet(handle: *mut c_int, ordinal: c_int) {
        call("cuDeviceGet", |state| {
            device(state, ordinal)?;
            // SAFETY: the caller promises that `handle` is writable.
            unsafe { give(handle, ordinal) }
        })
    }

    fn cuDeviceGetName(name: *mut c_char, len: c_int, handle: c_int) {
        call("cuDeviceGetName", |state| {
            let device = device(state, handle)?;
            let text = format!("Double {device}\0");
            let count = text.len().min(usize::try_from(len).unwrap_or(0));
            // SAFETY: the caller promises that `name` has `len` writable bytes.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), count) };
            Ok(())
        })
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, handle: c_int) {
        call("cuDeviceTotalMem", |state| {
            device(state, handle)?;
            // SAFETY: the caller promises that `bytes` is writable.
            unsafe { give(bytes, state.device_limit) }
        })
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, handle: c_int) {
        call("cuDeviceGetAttribute", |state| {
            device(state, handle)?;
            let known = match attribute {
                91 => 1,
                117 => c_int::from(state.has_flush),
                118 => state.writes_ordering,
                124 => c_int::from(state.has_dmabuf),
                134 => state.numa_node,
                _ => return Err(INVALID_VALUE),
            };
            // SAFETY: the caller promises that `value` is writable.
            unsafe { give(value, known) }
        })
    }

    fn cuDeviceGetPCIBusId(address: *mut c_char, len: c_int, handle: c_int) {
        call("cuDeviceGetPCIBusId", |state| {
            let text = format!("FFFF:{:02X}:00.0\0", device(state, handle)?);
            let count = text.len().min(usize::try_from(len).unwrap_or(0));
            // SAFETY: the caller promises that `address` has `len` writable bytes.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), address.cast(), count) };
            Ok(())
        })
    }

    fn cuDevicePrimaryCtxRetain(context: *mut Handle, handle: c_int) {
        call("cuDevicePrimaryCtxRetain", |state| {
            let device = device(state, handle)?;
            // SAFETY: the caller promises that `context` is writable.
            unsafe { give(context, state.context_of(device).handle()) }
        })
    }

    fn cuDevicePrimaryCtxRelease_v2(handle: c_int) {
        call("cuDevicePrimaryCtxRelease", |state| device(state, handle).map(|_| ()))
    }

    fn cuCtxPushCurrent_v2(context: Handle) {
        call("cuCtxPushCurrent", |state| {
            let context = Context::of(context).ok_or(INVALID_CONTEXT)?;
            if !state.is_alive(context) {
                return Err(CONTEXT_IS_DESTROYED);
            }
            CURRENT.with_borrow_mut(|contexts| contexts.push(context));
            Ok(())
        })
    }

    fn cuCtxPopCurrent_v2(context: *mut Handle) {
        call("cuCtxPopCurrent", |_| {
            let popped = CURRENT.with_borrow_mut(Vec::pop).ok_or(INVALID_CONTEXT)?;
            // SAFETY: the caller promises that `context` is writable.
            unsafe { give(context, popped.handle()) }
        })
    }

    fn cuStreamCreate(stream: *mut Handle, flags: c_uint) {
        call("cuStreamCreate", |state| {
            // `mooncake-device` must never wait for the legacy default stream.
            if flags != 1 {
                return Err(INVALID_VALUE);
            }
            let context = state.current()?;
            // SAFETY: the caller promises that `stream` is writable.
            unsafe { give(stream, Stream::create(context)) }
        })
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        call("cuCtxGetStreamPriorityRange", |state| {
            state.current()?;
            // SAFETY: the caller promises that `least` and `greatest` are writable.
            unsafe { give(least, 0).and_then(|()| give(greatest, GREATEST_PRIORITY)) }
        })
    }

    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        call("cuStreamCreateWithPriority", |state| {
            // `mooncake-device` must never wait for the legacy default stream, nor for work that the application
            // begins later.
            if flags != 1 || priority != GREATEST_PRIORITY {
                return Err(INVALID_VALUE);
            }
            let context = state.current()?;
            // SAFETY: the caller promises that `stream` is writable.
            unsafe { give(stream, Stream::create(context)) }
        })
    }

    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) {
        call("cuModuleLoadData", |state| {
            state.current()?;
            // SAFETY: the caller promises that `image` is text that ends with a zero.
            let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy();
            if !text.contains(&format!(".entry {KERNEL}(")) {
                return Err(INVALID_VALUE);
            }
            // SAFETY: the caller promises that `module` is writable.
            unsafe { give(module, std::ptr::without_provenance_mut(MODULE)) }
        })
    }

    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        call("cuModuleGetFunction", |state| {
            state.current()?;
            // SAFETY: the caller promises that `name` is text that ends with a zero.
            let is_known = unsafe { CStr::from_ptr(name) }.to_bytes() == KERNEL.as_bytes();
            if module.addr() != MODULE || !is_known {
                return Err(NOT_FOUND);
            }
            // SAFETY: the caller promises that `function` is writable.
            unsafe { give(function, std::ptr::without_provenance_mut(FUNCTION)) }
        })
    }

    fn cuLaunchKernel(
        function: Handle, blocks: c_uint, _blocks_y: c_uint, _blocks_z: c_uint, threads: c_uint,
        _threads_y: c_uint, _threads_z: c_uint, _shared: c_uint, stream: Handle,
        parameters: *mut *mut c_void, _extra: *mut *mut c_void
    ) {
        call("cuLaunchKernel", |state| {
            if function.addr() != FUNCTION || blocks == 0 || !matches!(threads, 32..=256) {
                return Err(INVALID_VALUE);
            }
            // SAFETY: the driver's callers pass streams that they made, and did not destroy.
            let stream = unsafe { Stream::of(stream) }.ok_or(INVALID_VALUE)?;
            if stream.context != state.current()? {
                return Err(INVALID_CONTEXT);
            }
            // SAFETY: the caller promises the parameters of the kernel: an address and a 32-bit number.
            let (list, count) = unsafe {
                let (list, count) = (*parameters, *parameters.add(1));
                (*list.cast::<u64>() as usize, *count.cast::<u32>() as usize)
            };
            stream.push(Job::Kernel { list, count, waits: state.waits_begun });
            Ok(())
        })
    }

    fn cuStreamDestroy_v2(stream: Handle) {
        call("cuStreamDestroy", |_| {
            // SAFETY: the caller promises that it made the stream, and uses it no more.
            unsafe { Stream::destroy(stream) };
            Ok(())
        })
    }

    fn cuStreamGetCtx(stream: Handle, context: *mut Handle) {
        call("cuStreamGetCtx", |state| {
            // SAFETY: the driver's callers pass streams that they made, and did not destroy.
            let stream = unsafe { state.stream_of(stream) }?;
            // SAFETY: the caller promises that `context` is writable.
            unsafe { give(context, stream.context.handle()) }
        })
    }

    fn cuLaunchHostFunc(
        stream: Handle, function: unsafe extern "C" fn(*mut c_void), argument: *mut c_void
    ) {
        call("cuLaunchHostFunc", |state| {
            // SAFETY: the driver's callers pass streams that they made, and did not destroy.
            let stream = unsafe { state.stream_of(stream) }?;
            if stream.context != state.current()? {
                return Err(INVALID_CONTEXT);
            }
            stream.push(Job::Host { function, argument: argument.expose_provenance() });
            Ok(())
        })
    }

    fn cuStreamSynchronize(stream: Handle) {
        // SAFETY: the driver's callers pass streams that they made, and did not destroy.
        let stream = match unsafe { state().stream_of(stream) } {
            Ok(stream) => stream,
            Err(code) => return code,
        };
        // Without the driver's lock, which the stream's thread needs for its work.
        let done = stream.synchronize();
        call("cuStreamSynchronize", |state| {
            if done != SUCCESS {
                return Err(done);
            }
            state.current().map(|_| ())
        })
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, len: usize, stream: Handle) {
        call("cuMemcpyHtoDAsync", |state| {
            let host = from.expose_provenance();
            begin(state, stream, vec![Work { device: to, host, len, to_host: false }])
        })
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, len: usize, stream: Handle) {
        call("cuMemcpyDtoHAsync", |state| {
            let host = to.expose_provenance();
            begin(state, stream, vec![Work { device: from, host, len, to_host: true }])
        })
    }

    fn cuMemcpyBatchAsync(
        to: *const u64, from: *const u64, lens: *const usize, count: usize, _attributes: *mut c_void,
        _of_first: *mut usize, _sets: usize, _wrong: *mut usize, stream: Handle
    ) {
        // SAFETY: the caller promises that the lists have `count` elements.
        unsafe { batch(to, from, lens, count, stream) }
    }

    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, len: usize) {
        call("cuMemcpyHtoD", |state| {
            // SAFETY: the caller promises that `from` has `len` mapped bytes.
            let is_there = unsafe { state.copy(to, from.cast_mut().cast(), len, false) };
            if is_there { Ok(()) } else { Err(INVALID_VALUE) }
        })
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, len: usize) {
        call("cuMemcpyDtoH", |state| {
            // SAFETY: the caller promises that `to` has `len` writable bytes.
            let is_there = unsafe { state.copy(from, to.cast(), len, true) };
            if is_there { Ok(()) } else { Err(INVALID_VALUE) }
        })
    }

    fn cuMemAlloc_v2(address: *mut u64, len: usize) {
        call("cuMemAlloc", |state| {
            let context = state.current()?;
            let start = state.allocate(context, len, 1).ok_or(OUT_OF_MEMORY)?;
            // SAFETY: the caller promises that `address` is writable.
            unsafe { give(address, start) }
        })
    }

    fn cuMemFree_v2(address: u64) {
        let mut freed = None;
        let status = call("cuMemFree", |state| {
            freed = state.allocations.remove(&address);
            if freed.is_some() { Ok(()) } else { Err(INVALID_VALUE) }
        });
        drop(freed);
        status
    }

    fn cuMemHostRegister_v2(start: *mut c_void, len: usize, _flags: c_uint) {
        call("cuMemHostRegister", |state| {
            state.current()?;
            let (start, end) = (start.addr(), start.addr().saturating_add(len));
            let before = state.locked.range(..end).next_back();
            if before.is_some_and(|(at, len)| at + len > start) {
                return Err(ALREADY_REGISTERED);
            }
            if state.locked.values().sum::<usize>().saturating_add(len) > state.lock_limit {
                return Err(OUT_OF_MEMORY);
            }
            state.locked.insert(start, len);
            Ok(())
        })
    }

    fn cuMemHostGetDevicePointer_v2(address: *mut u64, start: *mut c_void, _flags: c_uint) {
        call("cuMemHostGetDevicePointer", |state| {
            state.current()?;
            if !is_locked(state, start.addr(), 1) {
                return Err(INVALID_VALUE);
            }
            // SAFETY: the caller promises that `address` is writable.
            unsafe { give(address, HOST_ALIAS | start.expose_provenance() as u64) }
        })
    }

    fn cuStreamWaitValue32_v2(stream: Handle, address: u64, value: c_uint, flags: c_uint) {
        call("cuStreamWaitValue32", |state| {
            if !state.has_wait {
                return Err(NOT_SUPPORTED);
            }
            let word = (address ^ HOST_ALIAS) as usize;
            // SAFETY: the driver's callers pass streams that they made, and did not destroy.
            let stream = unsafe { Stream::of(stream) }.ok_or(INVALID_VALUE)?;
            if stream.context != state.current()? || flags != 0 || !is_locked(state, word, 4) {
                return Err(INVALID_VALUE);
            }
            let number = state.waits_begun;
            state.waits_begun += 1;
            state.waits.insert(number);
            stream.push(Job::Wait { word, value, number });
            Ok(())
        })
    }

    fn cuMemHostUnregister(start: *mut c_void) {
        let status = call("cuMemHostUnregister", |state| {
            state.locked.remove(&start.addr()).map(|_| ()).ok_or(NOT_REGISTERED)
        });
        let delay = state().unlock_delay;
        std::thread::sleep(delay);
        status
    }

    fn cuMemGetHandleForAddressRange(
        handle: *mut c_void, address: u64, len: usize, kind: c_int, flags: u64
    ) {
        call("cuMemGetHandleForAddressRange", |state| {
            state.current()?;
            if kind != 1 || flags != 0 {
                return Err(INVALID_VALUE);
            }
            if !state.has_dmabuf {
                return Err(NOT_SUPPORTED);
            }
            let file = state.export(address, len).ok_or(INVALID_VALUE)?;
            // SAFETY: the caller promises that `handle` has room for a descriptor.
            unsafe { give(handle.cast(), file.into_raw_fd()) }
        })
    }

    fn cuFlushGPUDirectRDMAWrites(target: c_int, scope: c_int) {
        call("cuFlushGPUDirectRDMAWrites", |state| {
            state.current()?;
            match (target, scope, state.has_flush) {
                (0, 100, true) => Ok(()),
                (0, 100, false) => Err(NOT_SUPPORTED),
                _ => Err(INVALID_VALUE),
            }
        })
    }

    fn cuPointerSetAttribute(value: *const c_void, attribute: c_int, address: u64) {
        call("cuPointerSetAttribute", |state| {
            state.current()?;
            // SAFETY: the caller promises a number of 32 bits.
            let is_yes = !value.is_null() && unsafe { value.cast::<u32>().read() } == 1;
            let is_good = attribute == 6 && is_yes && state.find(address).is_some();
            if is_good { Ok(()) } else { Err(INVALID_VALUE) }
        })
    }

    fn cuPointerGetAttributes(
        count: c_uint, attributes: *const c_int, values: *const *mut c_void, address: u64
    ) {
        call("cuPointerGetAttributes", |state| {
            let found = state.find(address);
            let (start, len) = found.map_or((0, 0), |(start, one)| (start, one.len));
            let ordinal = found.map_or(-2, |(_, one)| one.context.device.cast_signed());
            for index in 0..count as usize {
                // SAFETY: the caller promises `count` attributes and as many values, each of the type of its
                // attribute.
                unsafe {
                    let value = *values.add(index);
                    match *attributes.add(index) {
                        2 => give(value.cast(), u32::from(found.is_some()) * 2)?,
                        8 => give(value.cast(), 0_u32)?,
                        9 => give(value.cast(), ordinal)?,
                        11 => give(value.cast(), start)?,
                        12 => give(value.cast(), len)?,
                        _ => return Err(INVALID_VALUE),
                    }
                }
            }
            Ok(())
        })
    }
}
