//! An endpoint of the library with its completion queue and its address vector.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::{mem, ptr};

use crate::abi::*;
use crate::address::{Address, MAX_ADDRESS_BYTES};
use crate::call::{CallError, check, error_text, op};
use crate::keys::Keys;
use crate::libfabric::Libfabric;
use crate::object::Object;
use crate::port::{Completion, Direction, Outcome, Port, Request};

/// Most completions that are read at once.
pub(crate) const COMPLETIONS: usize = 64;

pub(crate) struct Endpoint {
    // Dropped in this order.
    ep: Object<fid_ep>,
    cq: Object<fid_cq>,
    av: Object<fid_av>,
    wait: Option<RawFd>,
    own: Address,
    domain: Arc<Libfabric>,
}

impl Endpoint {
    pub(crate) fn open(domain: &Arc<Libfabric>) -> Result<Endpoint, CallError> {
        let (library, object, info) =
            (domain.library, domain.domain.as_ptr(), domain.info.as_ptr());
        let context = ptr::null_mut();
        let (cq, wait) = open_queue(domain)?;
        let mut attributes = AvAttr {
            type_: FI_AV_TABLE,
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: ptr::null_mut(),
            flags: 0,
        };
        // SAFETY: the domain lives, attributes and structure are what the calls demand; what is opened belongs to the
        // caller.
        let (av, ep) = unsafe {
            let av = Object::open(
                library,
                "fi_av_open",
                |opened| op!("fi_av_open": (*object).ops => av_open(object, &raw mut attributes, opened, context)),
            )?;
            let ep = Object::open(
                library,
                "fi_endpoint",
                |opened| op!("fi_endpoint": (*object).ops => endpoint(object, info, opened, context)),
            )?;
            (av, ep)
        };
        if let Err(error) = enable(&ep, &av, &cq) {
            // They stay open: the provider crashes when it closes an endpoint that lacks one of these.
            mem::forget((ep, av, cq));
            return Err(error);
        }
        let own = own_address(domain, &ep)?;
        Ok(Endpoint { ep, cq, av, wait, own, domain: Arc::clone(domain) })
    }

    /// Takes a completion in error.
    fn failed(&self) -> Result<Option<Completion>, CallError> {
        /// The structure, with room for what later versions append.
        #[repr(C)]
        struct Entry {
            known: CqErrEntry,
            appended: [u64; 8],
        }
        // SAFETY: all zero is a valid value: numbers, and pointers to nothing.
        let mut entry: Entry = unsafe { mem::zeroed() };
        let (library, cq) = (self.domain.library, self.cq.as_ptr());
        // SAFETY: the queue lives, and there is room for an entry. It provides no room for more data.
        let count =
            unsafe { op!("fi_cq_readerr": (*cq).ops => readerr(cq, (&raw mut entry).cast(), 0)) };
        if count == -(FI_EAGAIN as isize) {
            return Ok(None);
        }
        check(library, "fi_cq_readerr", count as i64)?;
        let known = &entry.known;
        let text = match self.provider_text(known) {
            Some(text) => format!("{} ({text})", error_text(library, known.err)),
            None => error_text(library, known.err),
        };
        let error = CallError { call: "fi_cq_read", number: known.err, text };
        Ok(Some(Completion { context: known.op_context.cast(), outcome: Outcome::Failed(error) }))
    }

    /// The provider's own words for an error.
    fn provider_text(&self, entry: &CqErrEntry) -> Option<String> {
        let mut text: [c_char; 128] = [0; 128];
        let cq = self.cq.as_ptr();
        // SAFETY: the queue lives, and the entry is its last one. The text is a constant, or lies in `text`.
        unsafe {
            let strerror = (*(*cq).ops).strerror?;
            let (data, room) = (entry.err_data.cast_const(), text.len());
            let found = strerror(cq, entry.prov_errno, data, text.as_mut_ptr(), room);
            let found = found.as_ref().map(|found| CStr::from_ptr(found))?;
            Some(found.to_string_lossy().into_owned()).filter(|found| !found.is_empty())
        }
    }
}

impl Port for Endpoint {
    fn own(&self) -> &Address {
        &self.own
    }

    fn endpoint(&self) -> Option<&Object<fid_ep>> {
        Some(&self.ep)
    }

    fn insert(&self, address: &Address) -> Result<u64, CallError> {
        let (av, mut number) = (self.av.as_ptr(), 0);
        let bytes = address.bytes.as_ptr().cast();
        // SAFETY: the object lives, and the caller has checked that the library reads only these bytes as an address.
        let inserted = unsafe {
            op!("fi_av_insert": (*av).ops =>
                insert(av, bytes, 1, &raw mut number, 0, ptr::null_mut()))
        };
        match check(self.domain.library, "fi_av_insert", inserted as c_int)? {
            1 => Ok(number),
            _ => Err(CallError::new(self.domain.library, "fi_av_insert", libc::EINVAL)),
        }
    }

    /// Where the number of peers is bounded, it stays: `shm` gives its place to the next peer with what it knew of this
    /// one, and then that peer's process crashes.
    fn remove(&self, mut number: u64) {
        if self.domain.device.max_peers() != u64::MAX {
            return;
        }
        let av = self.av.as_ptr();
        // SAFETY: the object lives, and `insert` returned the number.
        let status =
            unsafe { (*(*av).ops).remove.map_or(0, |remove| remove(av, &raw mut number, 1, 0)) };
        if let Err(error) = check(self.domain.library, "fi_av_remove", status) {
            tracing::warn!(%error, "an endpoint does not forget a peer");
        }
    }

    unsafe fn post(
        &self,
        direction: Direction,
        peer: u64,
        requests: &[Request],
        context: *mut Context,
    ) -> Result<usize, CallError> {
        let (ep, context) = (self.ep.as_ptr(), context.cast());
        let Request { local, len, descriptor, remote, keys, .. } = requests[0];
        let Keys::One(key) = keys else {
            return Err(CallError::new(self.domain.library, "fi_write", libc::EINVAL));
        };
        // SAFETY: the endpoint lives, `insert` returned the peer's number, and this function's caller vouches for
        // memory and context.
        let (call, status) = unsafe {
            match direction {
                Direction::Read => (
                    "fi_read",
                    op!("fi_read": (*ep).rma =>
                    read(ep, local.cast(), len, descriptor, peer, remote, key, context)),
                ),
                Direction::Write => (
                    "fi_write",
                    op!("fi_write": (*ep).rma =>
                    write(ep, local.cast_const().cast(), len, descriptor, peer, remote, key, context)),
                ),
            }
        };
        if status == -(FI_EAGAIN as isize) {
            return Ok(0);
        }
        check(self.domain.library, call, status as i64).map(|_| 1)
    }

    fn poll(&self, completions: &mut Vec<Completion>) -> Result<(), CallError> {
        let mut entries = [const { CqEntry { op_context: ptr::null_mut() } }; COMPLETIONS];
        let cq = self.cq.as_ptr();
        // SAFETY: the queue lives, and the entries have the format with which it was opened.
        let count = unsafe {
            op!("fi_cq_read": (*cq).ops => read(cq, entries.as_mut_ptr().cast(), COMPLETIONS))
        };
        if count == -(FI_EAGAIN as isize) {
            return Ok(());
        }
        if count == -(FI_EAVAIL as isize) {
            completions.extend(self.failed()?);
            return Ok(());
        }
        let count = check(self.domain.library, "fi_cq_read", count as i64)?;
        completions.extend(
            entries.iter().take(count).map(|entry| Completion {
                context: entry.op_context.cast(),
                outcome: Outcome::Done,
            }),
        );
        Ok(())
    }

    fn quiet(&self) -> Option<RawFd> {
        let wait = self.wait?;
        let (fabric, mut fid) = (self.domain.fabric.as_ptr(), self.cq.fid());
        // SAFETY: both objects live.
        let status =
            unsafe { op!("fi_trywait": (*fabric).ops => trywait(fabric, &raw mut fid, 1)) };
        (status == 0).then_some(wait)
    }

    fn has_descriptor(&self) -> bool {
        self.wait.is_some()
    }
}

fn enable(ep: &Object<fid_ep>, av: &Object<fid_av>, cq: &Object<fid_cq>) -> Result<(), CallError> {
    ep.bind("fi_ep_bind", av, 0)?;
    ep.bind("fi_ep_bind", cq, FI_TRANSMIT | FI_RECV)?;
    // SAFETY: this command has no argument.
    unsafe { ep.control("fi_enable", FI_ENABLE, ptr::null_mut()) }
}

/// Opens a queue with a descriptor to wait for, or one without if the provider has none.
fn open_queue(domain: &Libfabric) -> Result<(Object<fid_cq>, Option<RawFd>), CallError> {
    let object = domain.domain.as_ptr();
    let open = |wait_obj| {
        let mut attributes = CqAttr {
            size: domain.requests + COMPLETIONS,
            flags: 0,
            format: FI_CQ_FORMAT_CONTEXT,
            wait_obj,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: ptr::null_mut(),
        };
        // SAFETY: the domain lives, and the attributes are what the call demands; what is opened belongs to the caller.
        unsafe {
            Object::open(domain.library, "fi_cq_open", |opened| {
                op!("fi_cq_open": (*object).ops =>
                    cq_open(object, &raw mut attributes, opened, ptr::null_mut()))
            })
        }
    };
    let Ok(cq) = open(FI_WAIT_FD) else { return Ok((open(FI_WAIT_NONE)?, None)) };
    let mut wait: c_int = -1;
    // SAFETY: for a queue with a descriptor, this command stores its number.
    let found = unsafe { cq.control("fi_control", FI_GETWAIT, (&raw mut wait).cast()) };
    // The provider `udp` opens such a queue, but has no descriptor.
    Ok((cq, (found.is_ok() && wait >= 0).then_some(wait)))
}

fn own_address(domain: &Libfabric, ep: &Object<fid_ep>) -> Result<Address, CallError> {
    let (mut bytes, mut len) = (vec![0; MAX_ADDRESS_BYTES], MAX_ADDRESS_BYTES);
    // SAFETY: the endpoint lives, and there is room for `len` bytes.
    let status = unsafe {
        op!("fi_getname": (*ep.as_ptr()).cm =>
            getname(ep.fid(), bytes.as_mut_ptr().cast(), &raw mut len))
    };
    check(domain.library, "fi_getname", status as c_int)?;
    bytes.truncate(len);
    Ok(Address { format: domain.device.address_format, bytes })
}
