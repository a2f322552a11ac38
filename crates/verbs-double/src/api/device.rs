//! Devices, what they can do, and what they tell of themselves.

use std::ffi::{CString as Name, c_int, c_void};
use std::mem;
use std::net::Ipv6Addr;
use std::ptr;

use super::pair::{MAX_PIECES, MAX_READS};
use super::post::post_send;
use super::queue::{MAX_CQE, poll_cq, req_notify_cq};
use super::unbox;
use crate::abi::*;
use crate::control::FakeGid;
use crate::link::{EVENT_BYTES, listen};
use crate::state::{ContextState, Nic, own_lid, state};

/// A device in a list: its place in the host's.
struct Listed {
    nic: Nic,
    name: Name,
}

api! {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut c_void {
        let nics = state().nics.clone();
        let mut list: Vec<*mut c_void> = nics.into_iter().map(|nic| {
            let name = std::ffi::CString::new(nic.name).expect("a name has no zero");
            Box::into_raw(Box::new(Listed { nic, name })).cast()
        }).collect();
        // SAFETY: the caller passes a place for the number.
        unsafe { *count = list.len() as c_int };
        list.push(ptr::null_mut());
        Box::into_raw(list.into_boxed_slice()).cast()
    }

    fn ibv_free_device_list(_list: *mut *mut c_void) {
        // Devices may be used as long as a context of theirs is open. A test does not list so many.
    }

    fn ibv_get_device_name(device: *mut c_void) -> CString {
        // SAFETY: the device is in a list, which is never freed.
        unsafe { (*device.cast::<Listed>()).name.as_ptr() }
    }

    fn ibv_open_device(device: *mut c_void) -> *mut Context {
        listen();
        let mut ops = [ptr::null(); 32];
        ops[POLL_CQ] = poll_cq as *const c_void;
        ops[REQ_NOTIFY_CQ] = req_notify_cq as *const c_void;
        ops[POST_SEND] = post_send as *const c_void;
        let mut ends = [0; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: there is room for two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return ptr::null_mut();
        }
        let context = Box::into_raw(Box::new(Context {
            device,
            ops,
            cmd_fd: -1,
            async_fd: ends[0],
            num_comp_vectors: 1,
            mutex: [0; 5],
            abi_compat: ptr::null_mut(),
        }));
        // SAFETY: the device is in a list, which is never freed.
        let nic = unsafe { (*device.cast::<Listed>()).nic.clone() };
        let opened = ContextState { nic, users: 0, events: ends[1] };
        state().contexts.insert(context.addr(), opened);
        context
    }

    fn ibv_close_device(context: *mut Context) -> c_int {
        let mut state = state();
        let Some(opened) = state.contexts.get(&context.addr()).filter(|it| it.users == 0) else {
            return libc::EBUSY;
        };
        let events = opened.events;
        state.contexts.remove(&context.addr());
        // SAFETY: it was opened, its descriptors are its own, and nobody else closes it.
        unsafe {
            libc::close(events);
            libc::close((*context).async_fd);
            unbox(context)
        }
    }

    fn ibv_query_device(_context: *mut Context, into: *mut c_void) -> c_int {
        let mut words = [0_u32; DEVICE_ATTR_BYTES / 4];
        // In the order of the header: queue pairs, their requests, pieces of requests, queues, their entries, reads.
        let qp_at = 108 / 4;
        let numbers = [1 << 16, 1 << 12, 0, MAX_PIECES, MAX_PIECES, 1 << 16, MAX_CQE as u32, 1 << 20, 1 << 16];
        words[qp_at..qp_at + numbers.len()].copy_from_slice(&numbers);
        words[qp_at + 9] = MAX_READS.into();
        words[qp_at + 12] = MAX_READS.into();
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // The number of ports is the last byte that is not padding.
        bytes[DEVICE_ATTR_BYTES - 5] = 1;
        // SAFETY: the caller has room for the structure.
        unsafe { into.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        0
    }

    fn ibv_query_port(context: *mut Context, number: u8, into: *mut PortAttr) -> c_int {
        let state = state();
        let Some(opened) = state.contexts.get(&context.addr()).filter(|_| number == 1) else {
            return libc::EINVAL;
        };
        let nic = &opened.nic;
        // SAFETY: the caller has room for the structure, in which all zero is valid.
        unsafe {
            let port = &mut *into;
            port.state = if nic.is_active { 4 } else { 1 };
            (port.max_mtu, port.active_mtu) = (5, 3);
            port.gid_tbl_len = nic.gids.len() as c_int;
            port.max_msg_sz = 1 << 30;
            port.lid = if nic.is_ethernet { 0 } else { own_lid() };
            port.link_layer = if nic.is_ethernet { 2 } else { 1 };
            (port.active_width, port.active_speed) = (2, 64);
        }
        0
    }

    fn _ibv_query_gid_table(
        context: *mut Context, entries: *mut GidEntry, most: usize, _flags: u32, len: usize
    ) -> isize {
        let state = state();
        let Some(opened) = state.contexts.get(&context.addr()) else { return -22 };
        let nic = &opened.nic;
        if len != mem::size_of::<GidEntry>() || nic.gids.len() > most {
            return -(libc::EINVAL as isize);
        }
        for (at, &FakeGid { kind, address, interface }) in nic.gids.iter().enumerate() {
            let entry = GidEntry {
                gid: gid_words(address),
                gid_index: at as u32,
                port_num: 1,
                gid_type: kind,
                ndev_ifindex: interface,
            };
            // SAFETY: the caller has room for `most` entries.
            unsafe { entries.add(at).write(entry) };
        }
        nic.gids.len() as isize
    }

    fn ibv_get_async_event(context: *mut Context, into: *mut c_void) -> c_int {
        let mut event = [0_u8; EVENT_BYTES];
        // SAFETY: the context lives, and there is room for an event.
        let count = unsafe { libc::read((*context).async_fd, event.as_mut_ptr().cast(), event.len()) };
        if count != event.len() as isize {
            return -1;
        }
        // SAFETY: the caller has room for the structure.
        unsafe { into.cast::<u8>().copy_from_nonoverlapping(event.as_ptr(), event.len()) };
        0
    }

    fn ibv_ack_async_event(_event: *mut c_void) {
        // Events are about ports, which nothing destroys.
    }

    fn ibv_wc_status_str(status: u32) -> CString {
        let text = match status {
            0 => c"success",
            4 => c"local protection error",
            5 => c"Work Request Flushed Error",
            10 => c"remote access error",
            12 => c"transport retry counter exceeded",
            _ => c"unknown",
        };
        text.as_ptr()
    }

    fn ibv_fork_init() -> c_int {
        0
    }
}

fn gid_words(address: Ipv6Addr) -> [u64; 2] {
    let octets = address.octets();
    [0, 8].map(|at| u64::from_ne_bytes(std::array::from_fn(|byte| octets[at + byte])))
}
