//! A NIC that is open, as a provider.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use mooncake_memory::RawSlice;

use super::abi::*;
use super::call::{Owned, call_error, verb};
use super::find::FoundNic;
use super::port::EndPort;
use super::queue::Queue;
use crate::call::CallError;
use crate::port::{Port, Provider, Registered, Side};
use crate::registration::{Access, Rights};

/// A NIC that is open. Ends, queues and registrations belong to it.
pub(crate) struct VerbsDevice {
    // Dropped in this order.
    /// The queue of all ends that only serve peers: nothing completes there.
    serving: Mutex<Option<Arc<Queue>>>,
    pub(super) pd: Owned<Pd>,
    pub(super) nic: FoundNic,
    /// Most requests in flight at a port, over all its ends.
    pub(super) requests: usize,
}

impl VerbsDevice {
    pub(crate) fn open(nic: FoundNic, requests: usize) -> Result<VerbsDevice, CallError> {
        let (library, context) = (nic.library, nic.context.as_ptr());
        // SAFETY: the context lives; what is allocated belongs to the caller.
        let pd = unsafe {
            let failed = |_| ptr::null_mut();
            let pd = verb!(library, "ibv_alloc_pd", failed => alloc_pd(context));
            Owned::new("ibv_alloc_pd", pd, library.functions.dealloc_pd)?
        };
        let most = usize::try_from(nic.attributes.max_cqe).unwrap_or(0).max(1);
        // Several ends share the queue, each with as many requests as it may have.
        let requests = (4 * requests.max(nic.options.max_wr as usize)).min(most);
        Ok(VerbsDevice { serving: Mutex::default(), pd, nic, requests })
    }

    fn queue_to_serve(&self) -> Result<Arc<Queue>, CallError> {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*serving {
            return Ok(Arc::clone(queue));
        }
        let queue = Arc::new(Queue::open(&self.nic, 1, false)?);
        *serving = Some(Arc::clone(&queue));
        Ok(queue)
    }

    pub(super) fn register_bytes(
        &self,
        address: *mut c_void,
        len: usize,
        access: u32,
    ) -> Result<Owned<Mr>, CallError> {
        let (library, pd) = (self.nic.library, self.pd.as_ptr());
        // SAFETY: the domain lives, and the memory is mapped for as long as the registration lives, as the caller
        // promises. The library gets an address, and no Rust reference to the memory exists.
        unsafe {
            let failed = |_| ptr::null_mut();
            let same = address.addr() as u64;
            let mr = verb!(library, "ibv_reg_mr", failed => reg_mr(pd, address, len, same, access));
            Owned::new("ibv_reg_mr", mr, library.functions.dereg_mr)
        }
    }
}

impl Provider for VerbsDevice {
    fn register(
        &self,
        memory: RawSlice<'_>,
        rights: Rights,
    ) -> Result<Box<dyn Registered>, CallError> {
        let relaxed = match self.nic.options.relaxed_ordering {
            true => IBV_ACCESS_RELAXED_ORDERING,
            false => 0,
        };
        let access = access_bits(rights) | relaxed;
        let mr = self.register_bytes(memory.as_ptr().cast(), memory.len(), access)?;
        Ok(Box::new(mr))
    }

    fn open_port(self: Arc<Self>, side: Side) -> Result<Box<dyn Port>, CallError> {
        let queue = match side {
            Side::Initiator => Arc::new(Queue::open(&self.nic, self.requests, true)?),
            Side::Target => self.queue_to_serve()?,
        };
        Ok(Box::new(EndPort::open(self, queue, side)?))
    }
}

/// A writer also reads what it has written: then the bytes are in memory.
fn access_bits(rights: Rights) -> u32 {
    match rights {
        Rights::Local => IBV_ACCESS_LOCAL_WRITE,
        Rights::Remote(Access::Read) => IBV_ACCESS_REMOTE_READ,
        Rights::Remote(Access::Write | Access::ReadWrite) => {
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
        }
    }
}

impl Registered for Owned<Mr> {
    fn key(&self) -> u64 {
        // SAFETY: the object lives.
        unsafe { (*self.as_ptr()).rkey.into() }
    }

    fn descriptor(&self) -> *mut c_void {
        // SAFETY: the object lives.
        ptr::without_provenance_mut(unsafe { (*self.as_ptr()).lkey } as usize)
    }
}

/// Packet numbers and the like begin at random.
pub(super) fn random_24_bits() -> u32 {
    let mut seed = [0; 4];
    getrandom::fill(&mut seed).expect("the system has randomness");
    u32::from_ne_bytes(seed) >> 8
}

/// The error of something that this library has no call for.
pub(super) fn not_supported(call: &'static str) -> CallError {
    call_error(call, libc::EOPNOTSUPP)
}
