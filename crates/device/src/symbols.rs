//! The driver's functions that this crate uses, and their symbols.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// `CUresult`
pub(crate) type Status = c_int;
/// `CUdeviceptr`
pub(crate) type Address = u64;
/// `CUcontext`, `CUstream`
pub(crate) type Handle = *mut c_void;

/// `CUmemcpyAttributes`: the order of accesses to the source, location hints for both ends (type and id), and flags.
#[repr(C)]
pub(crate) struct BatchAttributes {
    pub(crate) access_order: c_int,
    pub(crate) source: [c_int; 2],
    pub(crate) destination: [c_int; 2],
    pub(crate) flags: c_uint,
}

/// The batched copy. CUDA 13 has the newer one. That of CUDA 12.8 also reports which copy is wrong.
#[derive(Clone, Copy)]
pub(crate) enum BatchCopy {
    Newer(NewerBatchCopy),
    Older(OlderBatchCopy),
}

/// Destinations, sources, lengths, count; attributes, the index of the first copy that each applies to, their count;
/// stream.
pub(crate) type NewerBatchCopy = unsafe extern "C" fn(
    *const Address,
    *const Address,
    *const usize,
    usize,
    *mut BatchAttributes,
    *mut usize,
    usize,
    Handle,
) -> Status;

/// As [`NewerBatchCopy`], with the index of a wrong copy before the stream.
pub(crate) type OlderBatchCopy = unsafe extern "C" fn(
    *const Address,
    *const Address,
    *const usize,
    usize,
    *mut BatchAttributes,
    *mut usize,
    usize,
    *mut usize,
    Handle,
) -> Status;

/// `cuStreamWaitValue32_v2`, which drivers have since CUDA 11.7: stream, address, value, flags.
pub(crate) type WaitValue = unsafe extern "C" fn(Handle, Address, c_uint, c_uint) -> Status;

/// `cuLaunchHostFunc`: stream, function, and the function's argument.
pub(crate) type LaunchHost =
    unsafe extern "C" fn(Handle, unsafe extern "C" fn(*mut c_void), *mut c_void) -> Status;

/// `cuStreamGetCtx`: stream, and where its context goes.
pub(crate) type StreamContext = unsafe extern "C" fn(Handle, *mut Handle) -> Status;

macro_rules! functions {
    ($($field:ident: $symbol:literal fn($($argument:ty),*);)*) => {
        /// The functions that every driver since CUDA 11 has.
        pub(crate) struct Functions {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl Functions {
            /// Looks up all functions.
            ///
            /// # Errors
            /// The name of a missing function.
            ///
            /// # Safety
            /// `find` must return null, or a CUDA driver's function of this name.
            pub(crate) unsafe fn find(
                find: &dyn Fn(&CStr) -> *mut c_void,
            ) -> Result<Functions, &'static CStr> {
                Ok(Functions {
                    $($field: {
                        let found = find($symbol);
                        if found.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: not null, so the caller's `find` returned the driver's function of this name, with
                        // this signature.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> Status,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    init: c"cuInit" fn(c_uint);
    error_name: c"cuGetErrorName" fn(Status, *mut *const c_char);
    driver_version: c"cuDriverGetVersion" fn(*mut c_int);
    device_count: c"cuDeviceGetCount" fn(*mut c_int);
    device_get: c"cuDeviceGet" fn(*mut c_int, c_int);
    device_name: c"cuDeviceGetName" fn(*mut c_char, c_int, c_int);
    device_bytes: c"cuDeviceTotalMem_v2" fn(*mut usize, c_int);
    device_attribute: c"cuDeviceGetAttribute" fn(*mut c_int, c_int, c_int);
    device_bus_address: c"cuDeviceGetPCIBusId" fn(*mut c_char, c_int, c_int);
    retain_context: c"cuDevicePrimaryCtxRetain" fn(*mut Handle, c_int);
    release_context: c"cuDevicePrimaryCtxRelease_v2" fn(c_int);
    push_context: c"cuCtxPushCurrent_v2" fn(Handle);
    pop_context: c"cuCtxPopCurrent_v2" fn(*mut Handle);
    priorities: c"cuCtxGetStreamPriorityRange" fn(*mut c_int, *mut c_int);
    stream_create: c"cuStreamCreateWithPriority" fn(*mut Handle, c_uint, c_int);
    stream_destroy: c"cuStreamDestroy_v2" fn(Handle);
    stream_synchronize: c"cuStreamSynchronize" fn(Handle);
    load_module: c"cuModuleLoadData" fn(*mut Handle, *const c_void);
    function_of: c"cuModuleGetFunction" fn(*mut Handle, Handle, *const c_char);
    launch: c"cuLaunchKernel" fn(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void,
        *mut *mut c_void
    );
    copy_to_device: c"cuMemcpyHtoDAsync_v2" fn(Address, *const c_void, usize, Handle);
    copy_to_host: c"cuMemcpyDtoHAsync_v2" fn(*mut c_void, Address, usize, Handle);
    allocate: c"cuMemAlloc_v2" fn(*mut Address, usize);
    free: c"cuMemFree_v2" fn(Address);
    pointer_attributes: c"cuPointerGetAttributes" fn(c_uint, *const c_int, *const *mut c_void, Address);
    host_register: c"cuMemHostRegister_v2" fn(*mut c_void, usize, c_uint);
    host_address: c"cuMemHostGetDevicePointer_v2" fn(*mut Address, *mut c_void, c_uint);
    host_unregister: c"cuMemHostUnregister" fn(*mut c_void);
}
