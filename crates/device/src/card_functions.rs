//! The driver's functions for network cards that read and write memory of a device. Older drivers lack them.

use std::ffi::{CStr, c_int, c_ulonglong, c_void};
use std::os::fd::{FromRawFd, OwnedFd};

use crate::driver::Driver;
use crate::error::DriverError;
use crate::symbols::{Address, Status};

/// `cuMemGetHandleForAddressRange`, since CUDA 11.7: where the handle goes, address, length, type of the handle, flags.
type HandleOfRange =
    unsafe extern "C" fn(*mut c_void, Address, usize, c_int, c_ulonglong) -> Status;
/// `cuFlushGPUDirectRDMAWrites`, since CUDA 11.3: target and scope.
type FlushWrites = unsafe extern "C" fn(c_int, c_int) -> Status;
/// `cuPointerSetAttribute`: value, attribute, address.
type SetPointer = unsafe extern "C" fn(*const c_void, c_int, Address) -> Status;

/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`
const DMA_BUF_DESCRIPTOR: c_int = 1;
/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX`
const CURRENT_CONTEXT: c_int = 0;
/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER`, and `CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER`: the device in whose memory
/// the bytes are.
const OWNER: c_int = 100;
/// `CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST`: threads of the host may flush.
const BY_HOST: c_int = 1;
/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`
const SYNCHRONOUS: c_int = 6;

/// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS`
const FLUSH_OPTIONS: c_int = 117;
/// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING`
const WRITES_ORDERING: c_int = 118;
/// `CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED`
const HAS_DMA_BUF: c_int = 124;

/// The functions that the driver has.
pub(crate) struct CardFunctions {
    handle_of_range: Option<HandleOfRange>,
    flush_writes: Option<FlushWrites>,
    set_pointer: Option<SetPointer>,
}

impl CardFunctions {
    /// Looks up all functions.
    ///
    /// # Safety
    /// `find` must return null, or a CUDA driver's function of this name.
    pub(crate) unsafe fn find(find: &dyn Fn(&CStr) -> *mut c_void) -> CardFunctions {
        let [range, flush, pointer] = [
            c"cuMemGetHandleForAddressRange",
            c"cuFlushGPUDirectRDMAWrites",
            c"cuPointerSetAttribute",
        ]
        .map(find);
        // SAFETY: those that are not null have these signatures, as the caller promises.
        unsafe {
            CardFunctions {
                handle_of_range: (!range.is_null())
                    .then(|| std::mem::transmute::<*mut c_void, HandleOfRange>(range)),
                flush_writes: (!flush.is_null())
                    .then(|| std::mem::transmute::<*mut c_void, FlushWrites>(flush)),
                set_pointer: (!pointer.is_null())
                    .then(|| std::mem::transmute::<*mut c_void, SetPointer>(pointer)),
            }
        }
    }
}

impl Driver {
    /// Whether a device has to be told to look at what network cards have written. An error if it cannot be told.
    pub(crate) fn wants_flush(&self, ordinal: u32) -> Result<bool, DriverError> {
        if self.attribute(ordinal, WRITES_ORDERING)? >= OWNER {
            return Ok(false);
        }
        let by_host = self.attribute(ordinal, FLUSH_OPTIONS)? & BY_HOST != 0;
        match by_host && self.cards.flush_writes.is_some() {
            true => Ok(true),
            false => Err(DriverError::unsupported("cuFlushGPUDirectRDMAWrites")),
        }
    }

    /// Lets the device of the current context see what network cards have written.
    pub(crate) fn flush_writes(&self) -> Result<(), DriverError> {
        let call = "cuFlushGPUDirectRDMAWrites";
        let flush = self.cards.flush_writes.ok_or_else(|| DriverError::unsupported(call))?;
        // SAFETY: the call takes two numbers.
        self.check(call, unsafe { flush(CURRENT_CONTEXT, OWNER) })
    }

    /// Lets copies that return before they are done, though they are said not to, wait in the allocation of this address.
    pub(crate) fn make_synchronous(&self, address: Address) -> Result<(), DriverError> {
        let call = "cuPointerSetAttribute";
        let set = self.cards.set_pointer.ok_or_else(|| DriverError::unsupported(call))?;
        let yes = 1_u32;
        // SAFETY: the driver reads a number of 32 bits, from `yes`.
        self.check(call, unsafe { set((&raw const yes).cast(), SYNCHRONOUS, address) })
    }

    /// A dmabuf of memory of the device of the current context. Address and length are multiples of the host's page.
    pub(crate) fn dmabuf(
        &self,
        ordinal: u32,
        (address, len): (Address, usize),
    ) -> Result<OwnedFd, DriverError> {
        let call = "cuMemGetHandleForAddressRange";
        let handle_of = self
            .cards
            .handle_of_range
            .filter(|_| self.attribute(ordinal, HAS_DMA_BUF).is_ok_and(|has| has != 0));
        let handle_of = handle_of.ok_or_else(|| DriverError::unsupported(call))?;
        let mut descriptor: c_int = -1;
        // SAFETY: the driver writes one descriptor, to `descriptor`.
        let code =
            unsafe { handle_of((&raw mut descriptor).cast(), address, len, DMA_BUF_DESCRIPTOR, 0) };
        self.check(call, code)?;
        if descriptor < 0 {
            return Err(DriverError::unsupported(call));
        }
        // SAFETY: the driver opened it for the caller. Programs that this process executes do not need it.
        unsafe {
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
            Ok(OwnedFd::from_raw_fd(descriptor))
        }
    }
}
