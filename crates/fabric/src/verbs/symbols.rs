//! The functions that libibverbs exports and this crate uses. What posts, polls and arms stands in a table behind the
//! context.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::abi::*;
use crate::symbols::functions;

/// A device in the library's list.
pub(crate) type DevicePtr = *mut c_void;

functions! {
    get_device_list: c"ibv_get_device_list" fn(*mut c_int) -> *mut DevicePtr;
    free_device_list: c"ibv_free_device_list" fn(*mut DevicePtr);
    get_device_name: c"ibv_get_device_name" fn(DevicePtr) -> *const c_char;
    open_device: c"ibv_open_device" fn(DevicePtr) -> *mut Context;
    close_device: c"ibv_close_device" fn(*mut Context) -> c_int;
    query_device: c"ibv_query_device" fn(*mut Context, *mut DeviceAttr) -> c_int;
    query_port: c"ibv_query_port" fn(*mut Context, u8, *mut PortAttr) -> c_int;
    // Entries, how many there is room for, flags, length of an entry.
    query_gid_table: c"_ibv_query_gid_table"
        fn(*mut Context, *mut GidEntry, usize, u32, usize) -> isize;
    alloc_pd: c"ibv_alloc_pd" fn(*mut Context) -> *mut Pd;
    dealloc_pd: c"ibv_dealloc_pd" fn(*mut Pd) -> c_int;
    // Address, length, the same address for peers, access.
    reg_mr: c"ibv_reg_mr_iova2" fn(*mut Pd, *mut c_void, usize, u64, u32) -> *mut Mr;
    dereg_mr: c"ibv_dereg_mr" fn(*mut Mr) -> c_int;
    create_comp_channel: c"ibv_create_comp_channel" fn(*mut Context) -> *mut CompChannel;
    destroy_comp_channel: c"ibv_destroy_comp_channel" fn(*mut CompChannel) -> c_int;
    // Entries, context, channel, vector.
    create_cq: c"ibv_create_cq"
        fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
    destroy_cq: c"ibv_destroy_cq" fn(*mut Cq) -> c_int;
    get_cq_event: c"ibv_get_cq_event"
        fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    ack_cq_events: c"ibv_ack_cq_events" fn(*mut Cq, u32);
    get_async_event: c"ibv_get_async_event" fn(*mut Context, *mut AsyncEvent) -> c_int;
    ack_async_event: c"ibv_ack_async_event" fn(*mut AsyncEvent);
    create_qp: c"ibv_create_qp" fn(*mut Pd, *mut QpInitAttr) -> *mut Qp;
    modify_qp: c"ibv_modify_qp" fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
    destroy_qp: c"ibv_destroy_qp" fn(*mut Qp) -> c_int;
    wc_status_str: c"ibv_wc_status_str" fn(u32) -> *const c_char;
    fork_init: c"ibv_fork_init" fn() -> c_int;
}

/// `ibv_reg_dmabuf_mr`, which the library has since rdma-core 34: domain, first byte in the dmabuf, length, the address that
/// requests use, descriptor, access.
pub(crate) type RegDmabufMr =
    unsafe extern "C" fn(*mut Pd, u64, usize, u64, c_int, c_int) -> *mut Mr;
