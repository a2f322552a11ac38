//! A NIC that is open, and the port of it that is in use.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::abi::*;
use super::address::EndAddress;
use super::call::{Owned, call_error, verb};
use super::find::FoundNic;
use super::gid::PortGid;
use super::list::ports_of;
use super::load::VerbsLibrary;
use super::options::VerbsOptions;
use super::ports::{VerbsPort, mtu_number};
use super::queue::Queue;
use crate::call::CallError;
use crate::position::Position;

/// A NIC that is open.
pub(super) struct Nic {
    // Dropped in this order.
    /// The queue of all ends that only serve peers: nothing completes there.
    serving: Mutex<Option<Arc<Queue>>>,
    pub(super) pd: Owned<Pd>,
    pub(super) context: Owned<Context>,
    pub(super) library: &'static VerbsLibrary,
    pub(super) options: Arc<VerbsOptions>,
    pub(super) attributes: DeviceAttr,
    pub(super) name: String,
    /// Its place among the NICs of the device.
    place: u8,
    pub(super) position: Position,
    port: RwLock<VerbsPort>,
    is_up: AtomicBool,
    /// The device has failed for as long as this process has it open.
    is_dead: AtomicBool,
    /// How often it stopped working. Ends that were made before that are worth nothing.
    downs: AtomicU64,
    pub(super) counts: NicCounts,
}

/// What went by a NIC.
#[derive(Default)]
pub(super) struct NicCounts {
    pub(super) read_bytes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) lost_requests: AtomicU64,
}

impl Nic {
    pub(super) fn open(
        found: FoundNic,
        place: usize,
        options: &Arc<VerbsOptions>,
    ) -> Result<Nic, CallError> {
        let FoundNic { context, library, attributes, name, port } = found;
        // SAFETY: the context lives; what is allocated belongs to the caller.
        let pd = unsafe {
            let failed = |_| ptr::null_mut();
            let pd = verb!(library, "ibv_alloc_pd", failed => alloc_pd(context.as_ptr()));
            Owned::new("ibv_alloc_pd", pd, library.functions.dealloc_pd)?
        };
        Ok(Nic {
            serving: Mutex::default(),
            pd,
            context,
            library,
            options: Arc::clone(options),
            attributes,
            position: Position::of_nic(&options.sysfs, &name),
            name,
            place: u8::try_from(place).unwrap_or(u8::MAX),
            port: RwLock::new(port),
            is_up: AtomicBool::new(true),
            is_dead: AtomicBool::new(false),
            downs: AtomicU64::new(0),
            counts: NicCounts::default(),
        })
    }

    /// The port in use, as it was when it last told of a change.
    pub(super) fn port(&self) -> VerbsPort {
        self.port.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Acquire)
    }

    pub(super) fn downs(&self) -> u64 {
        self.downs.load(Ordering::Acquire)
    }

    /// The error of what goes by a NIC that is down.
    pub(super) fn down_error(&self) -> CallError {
        let text = format!("{} is down", self.name);
        CallError { call: "ibv_query_port", number: libc::ENETDOWN, text }
    }

    /// Takes the NIC out of use until [`Nic::look`] finds that it works; for good, if the device itself has failed.
    pub(super) fn fail(&self, is_dead: bool) {
        self.is_dead.fetch_or(is_dead, Ordering::AcqRel);
        self.is_up.store(false, Ordering::Release);
        self.downs.fetch_add(1, Ordering::AcqRel);
    }

    /// Looks whether it works, and by which port. Says so if that has changed.
    pub(super) fn look(&self) {
        if self.is_dead() {
            return;
        }
        let listed = ports_of(self.library, &self.context).map_err(|error| error.to_string());
        match listed.and_then(|(_, ports)| self.options.choose(ports)) {
            Ok(port) => {
                let number = port.number;
                let mut known = self.port.write().unwrap_or_else(PoisonError::into_inner);
                let is_other = known.number != number;
                *known = port;
                drop(known);
                if is_other {
                    self.downs.fetch_add(1, Ordering::AcqRel);
                }
                if !self.is_up.swap(true, Ordering::AcqRel) {
                    tracing::info!(nic = %self.name, port = number, "a NIC works again");
                }
            }
            Err(reason) => {
                if self.is_up.load(Ordering::Acquire) {
                    self.fail(false);
                }
                tracing::debug!(nic = %self.name, reason, "a NIC does not work");
            }
        }
    }

    /// The queue of ends that only serve peers.
    pub(super) fn queue_to_serve(&self) -> Result<Arc<Queue>, CallError> {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*serving {
            return Ok(Arc::clone(queue));
        }
        let queue = Arc::new(Queue::open(self, 1, false)?);
        *serving = Some(Arc::clone(&queue));
        Ok(queue)
    }

    /// The address of an end at this port.
    pub(super) fn address(
        &self,
        port: &VerbsPort,
        gid: Option<PortGid>,
        (number, first_packet): (u32, u32),
    ) -> EndAddress {
        EndAddress {
            number,
            first_packet,
            lid: port.lid,
            mtu: mtu_number(self.options.mtu.min(port.mtu_bytes)),
            link_layer: match port.is_ethernet {
                true => IBV_LINK_LAYER_ETHERNET,
                false => IBV_LINK_LAYER_INFINIBAND,
            },
            reads: u8::try_from(self.attributes.max_qp_rd_atom.max(1)).unwrap_or(u8::MAX),
            gid: gid.map_or([0; 16], |gid| gid.address.octets()),
            nic: self.place,
        }
    }

    /// Its address, of no end.
    pub(super) fn own_address(&self) -> EndAddress {
        let port = self.port();
        let gid = port.choose_gid(self.options.gid_index, None).ok();
        self.address(&port, gid, (0, 0))
    }

    pub(super) fn register(
        &self,
        address: *mut c_void,
        len: usize,
        access: u32,
    ) -> Result<Owned<Mr>, CallError> {
        if self.is_dead() {
            return Err(call_error("ibv_reg_mr", libc::EIO));
        }
        let (library, pd) = (self.library, self.pd.as_ptr());
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
