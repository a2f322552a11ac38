//! What the library says about a device: a list of its structures.

use std::ffi::{CStr, CString, c_char};
use std::ptr::{self, NonNull};
use std::slice;

use crate::abi::*;
use crate::call::{CallError, wanted_failure};
use crate::device::{Device, DeviceOptions, Link, MrMode};
use crate::load::{Library, OLDEST};

/// A structure that the library allocated, and all that it refers to.
pub(crate) struct OwnedInfo {
    library: &'static Library,
    info: NonNull<Info>,
}

// SAFETY: the structure belongs to this value alone, and the library does not tie it to a thread.
unsafe impl Send for OwnedInfo {}
// SAFETY: nothing changes the structure through a shared borrow.
unsafe impl Sync for OwnedInfo {}

impl Drop for OwnedInfo {
    fn drop(&mut self) {
        // SAFETY: the library allocated the structure, and only this drop frees it.
        unsafe { (self.library.functions.freeinfo)(self.info.as_ptr()) }
    }
}

impl OwnedInfo {
    /// A copy of one entry of a list.
    ///
    /// # Safety
    /// `info` is null, or an entry of a live list of this library.
    unsafe fn copy_of(library: &'static Library, info: *const Info) -> Result<Self, CallError> {
        // SAFETY: as this function's caller promises; null makes an empty structure.
        let copy = unsafe { (library.functions.dupinfo)(info) };
        match NonNull::new(copy) {
            Some(info) => Ok(OwnedInfo { library, info }),
            None => Err(CallError::new(library, "fi_dupinfo", FI_ENOMEM)),
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut Info {
        self.info.as_ptr()
    }

    /// Names the endpoints that are opened by this structure.
    pub(crate) fn set_address_text(&mut self, text: &str) {
        // SAFETY: the structure belongs to this value alone. It frees its address by `free`, so the former one is freed so,
        // and the new one comes from `strdup`; the length counts the zero.
        unsafe {
            let info = self.info.as_mut();
            libc::free(info.src_addr);
            info.src_addr = duplicate(Some(text)).cast();
            info.src_addrlen = if info.src_addr.is_null() { 0 } else { text.len() + 1 };
        }
    }
}

/// Lists what fits the options, in the library's order.
pub(crate) fn list(
    library: &'static Library,
    options: &DeviceOptions,
    offered: MrMode,
) -> Result<Vec<(Device, OwnedInfo)>, CallError> {
    let hints = hints(library, options, offered)?;
    let mut first = ptr::null_mut();
    let status = match wanted_failure("fi_getinfo") {
        Some(number) => -number,
        // SAFETY: the hints are a structure of the library, and `first` has room for a pointer.
        None => unsafe {
            let version = OLDEST.number();
            (library.functions.getinfo)(
                version,
                ptr::null(),
                ptr::null(),
                0,
                hints.as_ptr(),
                &raw mut first,
            )
        },
    };
    match -status {
        0 => {}
        FI_ENODATA => return Ok(Vec::new()),
        number => return Err(CallError::new(library, "fi_getinfo", number)),
    }
    let Some(list) = NonNull::new(first).map(|info| OwnedInfo { library, info }) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let mut next = list.as_ptr();
    while !next.is_null() {
        // SAFETY: `next` is an entry of the list, which lives.
        unsafe {
            found.push((device(next), OwnedInfo::copy_of(library, next)?));
            next = (*next).next;
        }
    }
    Ok(found)
}

/// What is asked of a provider: reliable endpoints for one-sided reads and writes, which any thread may use, and writes
/// that complete only when their bytes are in place.
fn hints(
    library: &'static Library,
    options: &DeviceOptions,
    offered: MrMode,
) -> Result<OwnedInfo, CallError> {
    // SAFETY: null makes an empty structure.
    let hints = unsafe { OwnedInfo::copy_of(library, ptr::null()) }?;
    // SAFETY: the library allocated the structure and its parts, all zero. It frees names by `free`, so they come from
    // `strdup`.
    unsafe {
        let info = hints.as_ptr();
        (*info).caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        (*info).mode = FI_CONTEXT | FI_CONTEXT2;
        (*(*info).ep_attr).type_ = FI_EP_RDM;
        (*(*info).tx_attr).op_flags = FI_DELIVERY_COMPLETE;
        let domain = (*info).domain_attr;
        (*domain).threading = FI_THREAD_SAFE;
        (*domain).resource_mgmt = FI_RM_ENABLED;
        (*domain).mr_mode = offered.bits();
        (*domain).name = duplicate(options.device.as_deref());
        (*(*info).fabric_attr).prov_name = duplicate(options.provider.as_deref());
    }
    Ok(hints)
}

/// The text in memory of C's `malloc`; null for none, and for one that contains a zero, which names nothing.
fn duplicate(text: Option<&str>) -> *mut c_char {
    match text.and_then(|text| CString::new(text).ok()) {
        // SAFETY: the text ends with a zero.
        Some(text) => unsafe { libc::strdup(text.as_ptr()) },
        None => ptr::null_mut(),
    }
}

/// # Safety
/// `info` is an entry of a live list.
unsafe fn device(info: *const Info) -> Device {
    // SAFETY: as the caller promises; the library fills in all parts of what it returns, but the NIC.
    unsafe {
        let (info, ep, tx) = (&*info, &*(*info).ep_attr, &*(*info).tx_attr);
        let (domain, fabric) = (&*info.domain_attr, &*info.fabric_attr);
        let address = match info.src_addr.is_null() {
            true => Vec::new(),
            false => slice::from_raw_parts(info.src_addr.cast(), info.src_addrlen).to_vec(),
        };
        Device {
            provider: text(fabric.prov_name),
            name: text(domain.name),
            fabric: text(fabric.name),
            address_format: info.addr_format,
            address,
            mr_mode: MrMode::from_bits(domain.mr_mode),
            key_bytes: domain.mr_key_size,
            needs_progress: domain.data_progress != FI_PROGRESS_AUTO,
            max_requests: tx.size,
            max_request_bytes: ep.max_msg_size,
            link: link(info.nic),
        }
    }
}

/// # Safety
/// `nic` is null, or belongs to a live list.
unsafe fn link(nic: *const Nic) -> Option<Link> {
    // SAFETY: as the caller promises; each part may be missing.
    unsafe {
        let nic = nic.as_ref()?;
        let link = nic.link_attr.as_ref();
        let bus = nic.bus_attr.as_ref().filter(|bus| bus.bus_type == FI_BUS_PCI);
        Some(Link {
            nic: nic.device_attr.as_ref().map(|device| text(device.name)).unwrap_or_default(),
            bits_per_second: link.map_or(0, |link| link.speed as u64),
            is_up: match link.map(|link| link.state) {
                Some(FI_LINK_UP) => Some(true),
                Some(FI_LINK_DOWN) => Some(false),
                _ => None,
            },
            pci_address: bus.map(|bus| {
                let PciAttr { domain_id, bus_id, device_id, function_id } = bus.attr;
                format!("{domain_id:04x}:{bus_id:02x}:{device_id:02x}.{function_id:x}")
            }),
        })
    }
}

/// # Safety
/// `text` is null, or ends with a zero.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
