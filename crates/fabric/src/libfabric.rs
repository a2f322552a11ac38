//! Devices of libfabric, as a provider.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mooncake_memory::RawSlice;

use crate::abi::{FI_ENABLE, FI_READ, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_WRITE};
use crate::abi::{fid_domain, fid_fabric, fid_mr};
use crate::call::{CallError, op, wanted_failure};
use crate::device::Device;
use crate::endpoint::Endpoint;
use crate::info::OwnedInfo;
use crate::keys::Keys;
use crate::load::Library;
use crate::object::Object;
use crate::port::{Port, Provider, Registered, Side};
use crate::registration::{Access, Rights};
use crate::shm_files::ShmFiles;

/// A device of libfabric that is open.
pub(crate) struct Libfabric {
    // Dropped in this order.
    pub(crate) domain: Object<fid_domain>,
    pub(crate) fabric: Object<fid_fabric>,
    pub(crate) info: OwnedInfo,
    pub(crate) library: &'static Library,
    pub(crate) device: Device,
    /// Most requests in flight on an endpoint.
    pub(crate) requests: usize,
    next_key: AtomicU64,
    _files: Option<ShmFiles>,
}

impl Libfabric {
    pub(crate) fn open(
        library: &'static Library,
        (device, mut info): (Device, OwnedInfo),
        requests: usize,
    ) -> Result<Libfabric, CallError> {
        // Where the folder cannot be written, the provider fails by itself, and says so.
        let files = (device.provider == "shm").then(|| ShmFiles::new().ok()).flatten();
        if let Some(files) = &files {
            info.set_address_text(&files.address());
        }
        let (fabric, domain) = open(library, &info)?;
        let next_key = AtomicU64::new(random());
        Ok(Libfabric { domain, fabric, info, library, device, requests, next_key, _files: files })
    }

    /// A key for a registration, if the provider does not choose keys. Keys begin at random: what was told about a
    /// process does not fit the next one at its address.
    fn next_key(&self) -> u64 {
        let bits = 8 * self.device.key_bytes.clamp(1, 8);
        // The highest number has a meaning of its own.
        let mask = (u64::MAX >> (64 - bits)) >> 1;
        self.next_key.fetch_add(1, Ordering::Relaxed) & mask
    }
}

pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    u64::from_ne_bytes(bytes)
}

impl Provider for Libfabric {
    fn register(
        &self,
        memory: RawSlice<'_>,
        rights: Rights,
    ) -> Result<Box<dyn Registered>, CallError> {
        let object = self.domain.as_ptr();
        let (address, len) = (memory.as_ptr().cast_const().cast::<c_void>(), memory.len());
        let (access, key) = (access_bits(rights), self.next_key());
        // SAFETY: the domain lives, and the memory is mapped; what keeps it mapped outlives the registration, as the
        // trait demands. The library gets an address, and no Rust reference to the memory exists.
        let registered = unsafe {
            Object::open(self.library, "fi_mr_reg", |opened| {
                let context = ptr::null_mut();
                op!("fi_mr_reg": (*object).mr =>
                    reg((&raw mut (*object).fid), address, len, access, 0, key, 0, opened, context))
            })
        };
        Ok(Box::new(registered?))
    }

    fn open_port(self: Arc<Self>, _: Side) -> Result<Box<dyn Port>, CallError> {
        Ok(Box::new(Endpoint::open(&self)?))
    }
}

fn access_bits(rights: Rights) -> u64 {
    match rights {
        Rights::Local => FI_READ | FI_WRITE,
        Rights::Remote(Access::Read) => FI_REMOTE_READ,
        Rights::Remote(Access::Write) => FI_REMOTE_WRITE,
        Rights::Remote(Access::ReadWrite) => FI_REMOTE_READ | FI_REMOTE_WRITE,
    }
}

impl Registered for Object<fid_mr> {
    fn keys(&self) -> Keys {
        // SAFETY: the object lives; its key is valid once it is enabled.
        Keys::One(unsafe { (*self.as_ptr()).key })
    }

    fn descriptor(&self) -> *mut c_void {
        // SAFETY: the object lives.
        unsafe { (*self.as_ptr()).mem_desc }
    }

    fn attach(&self, port: &dyn Port) -> Result<(), CallError> {
        let Some(ep) = port.endpoint() else { return Ok(()) };
        self.bind("fi_mr_bind", ep, 0)?;
        // SAFETY: this command has no argument.
        unsafe { self.control("fi_mr_enable", FI_ENABLE, ptr::null_mut()) }
    }
}

fn open(
    library: &'static Library,
    info: &OwnedInfo,
) -> Result<(Object<fid_fabric>, Object<fid_domain>), CallError> {
    let info = info.as_ptr();
    let context = ptr::null_mut();
    // SAFETY: the library made the structure; what is opened belongs to the caller.
    unsafe {
        let fabric =
            Object::open(library, "fi_fabric", |opened| match wanted_failure("fi_fabric") {
                Some(number) => -number,
                None => (library.functions.fabric)((*info).fabric_attr, opened, context),
            })?;
        let domain = Object::open(library, "fi_domain", |opened| {
            let object = fabric.as_ptr();
            op!("fi_domain": (*object).ops => domain(object, info, opened, context))
        })?;
        Ok((fabric, domain))
    }
}
