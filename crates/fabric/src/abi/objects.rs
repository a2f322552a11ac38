#![allow(
    non_camel_case_types,
    reason = "objects have the names of C, beside Rust types of similar names"
)]

use std::ffi::{c_char, c_int, c_void};

use super::info::Info;
use super::structures;

/// A function that this crate does not call.
type Uncalled = *const c_void;

structures! { OBJECT_LAYOUTS:
    whole "fid" Fid {
        fclass: usize,
        context: *mut c_void,
        ops: *mut Ops,
    }
    leading "fi_ops" Ops {
        size: usize,
        close: Option<unsafe extern "C" fn(*mut Fid) -> c_int>,
        bind: Option<unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int>,
        control: Option<unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int>,
    }

    leading "fid_fabric" fid_fabric {
        fid: Fid,
        ops: *mut FabricOps,
    }
    leading "fi_ops_fabric" FabricOps {
        size: usize,
        domain: Option<unsafe extern "C" fn(
            *mut fid_fabric, *mut Info, *mut *mut fid_domain, *mut c_void,
        ) -> c_int>,
        passive_ep: Uncalled,
        eq_open: Uncalled,
        wait_open: Uncalled,
        trywait: Option<unsafe extern "C" fn(*mut fid_fabric, *mut *mut Fid, c_int) -> c_int>,
    }

    leading "fid_domain" fid_domain {
        fid: Fid,
        ops: *mut DomainOps,
        mr: *mut MrOps,
    }
    leading "fi_ops_domain" DomainOps {
        size: usize,
        av_open: Option<unsafe extern "C" fn(
            *mut fid_domain, *mut AvAttr, *mut *mut fid_av, *mut c_void,
        ) -> c_int>,
        cq_open: Option<unsafe extern "C" fn(
            *mut fid_domain, *mut CqAttr, *mut *mut fid_cq, *mut c_void,
        ) -> c_int>,
        endpoint: Option<unsafe extern "C" fn(
            *mut fid_domain, *mut Info, *mut *mut fid_ep, *mut c_void,
        ) -> c_int>,
    }
    leading "fi_ops_mr" MrOps {
        size: usize,
        // Address, length, access, offset, requested key, flags.
        reg: Option<unsafe extern "C" fn(
            *mut Fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut fid_mr, *mut c_void,
        ) -> c_int>,
    }
    leading "fid_mr" fid_mr {
        fid: Fid,
        mem_desc: *mut c_void,
        key: u64,
    }

    leading "fid_av" fid_av {
        fid: Fid,
        ops: *mut AvOps,
    }
    whole "fi_av_attr" AvAttr {
        type_: u32,
        rx_ctx_bits: c_int,
        count: usize,
        ep_per_node: usize,
        name: *const c_char,
        map_addr: *mut c_void,
        flags: u64,
    }
    leading "fi_ops_av" AvOps {
        size: usize,
        insert: Option<unsafe extern "C" fn(
            *mut fid_av, *const c_void, usize, *mut u64, u64, *mut c_void,
        ) -> c_int>,
        insertsvc: Uncalled,
        insertsym: Uncalled,
        remove: Option<unsafe extern "C" fn(*mut fid_av, *mut u64, usize, u64) -> c_int>,
    }

    leading "fid_cq" fid_cq {
        fid: Fid,
        ops: *mut CqOps,
    }
    whole "fi_cq_attr" CqAttr {
        size: usize,
        flags: u64,
        format: u32,
        wait_obj: u32,
        signaling_vector: c_int,
        wait_cond: u32,
        wait_set: *mut c_void,
    }
    whole "fi_cq_entry" CqEntry {
        op_context: *mut c_void,
    }
    // Later versions append a field, which they write only for programs that ask for those versions.
    leading "fi_cq_err_entry" CqErrEntry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
        tag: u64,
        olen: usize,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
    }
    leading "fi_ops_cq" CqOps {
        size: usize,
        read: Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize>,
        readfrom: Uncalled,
        readerr: Option<unsafe extern "C" fn(*mut fid_cq, *mut CqErrEntry, u64) -> isize>,
        sread: Uncalled,
        sreadfrom: Uncalled,
        signal: Uncalled,
        strerror: Option<unsafe extern "C" fn(
            *mut fid_cq, c_int, *const c_void, *mut c_char, usize,
        ) -> *const c_char>,
    }

    leading "fid_ep" fid_ep {
        fid: Fid,
        ops: Uncalled,
        cm: *mut CmOps,
        msg: Uncalled,
        rma: *mut RmaOps,
    }
    leading "fi_ops_cm" CmOps {
        size: usize,
        setname: Uncalled,
        getname: Option<unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int>,
    }
    leading "fi_ops_rma" RmaOps {
        size: usize,
        // Local address, length, descriptor, peer, remote address, key, context.
        read: Option<unsafe extern "C" fn(
            *mut fid_ep, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void,
        ) -> isize>,
        readv: Uncalled,
        readmsg: Uncalled,
        write: Option<unsafe extern "C" fn(
            *mut fid_ep, *const c_void, usize, *mut c_void, u64, u64, u64, *mut c_void,
        ) -> isize>,
    }
    whole "fi_context2" Context {
        internal: [*mut c_void; 8],
    }
}
