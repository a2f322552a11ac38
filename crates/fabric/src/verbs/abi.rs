//! The parts of `infiniband/verbs.h` that this crate uses, under its field names. What posts, polls and arms stands in a
//! table behind the context, so these layouts are the library's binary interface. A test compares each size, offset and
//! constant with the header of the installed version.

use std::ffi::{c_int, c_void};

use crate::abi::{declare_constants, structures};

/// A function that this crate does not call.
type Uncalled = *const c_void;

structures! { LAYOUTS:
    whole "ibv_context_ops" ContextOps {
        _compat_query_device: Uncalled,
        _compat_query_port: Uncalled,
        _compat_alloc_pd: Uncalled,
        _compat_dealloc_pd: Uncalled,
        _compat_reg_mr: Uncalled,
        _compat_rereg_mr: Uncalled,
        _compat_dereg_mr: Uncalled,
        alloc_mw: Uncalled,
        bind_mw: Uncalled,
        dealloc_mw: Uncalled,
        _compat_create_cq: Uncalled,
        poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
        req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
        _compat_cq_event: Uncalled,
        _compat_resize_cq: Uncalled,
        _compat_destroy_cq: Uncalled,
        _compat_create_srq: Uncalled,
        _compat_modify_srq: Uncalled,
        _compat_query_srq: Uncalled,
        _compat_destroy_srq: Uncalled,
        post_srq_recv: Uncalled,
        _compat_create_qp: Uncalled,
        _compat_query_qp: Uncalled,
        _compat_modify_qp: Uncalled,
        _compat_destroy_qp: Uncalled,
        post_send: Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
        post_recv: Uncalled,
        _compat_create_ah: Uncalled,
        _compat_destroy_ah: Uncalled,
        _compat_attach_mcast: Uncalled,
        _compat_detach_mcast: Uncalled,
        _compat_async_event: Uncalled,
    }
    leading "ibv_context" Context {
        device: *mut c_void,
        ops: ContextOps,
        cmd_fd: c_int,
        async_fd: c_int,
    }
    whole "ibv_async_event" AsyncEvent {
        element: u64,
        event_type: u32,
    }
    leading "ibv_pd" Pd {
        context: *mut Context,
    }
    leading "ibv_mr" Mr {
        context: *mut Context,
        pd: *mut Pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }
    leading "ibv_comp_channel" CompChannel {
        context: *mut Context,
        fd: c_int,
    }
    leading "ibv_cq" Cq {
        context: *mut Context,
    }
    leading "ibv_qp" Qp {
        context: *mut Context,
        qp_context: *mut c_void,
        pd: *mut Pd,
        send_cq: *mut Cq,
        recv_cq: *mut Cq,
        srq: *mut c_void,
        handle: u32,
        qp_num: u32,
    }
    whole "ibv_qp_cap" QpCap {
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
    }
    whole "ibv_qp_init_attr" QpInitAttr {
        qp_context: *mut c_void,
        send_cq: *mut Cq,
        recv_cq: *mut Cq,
        srq: *mut c_void,
        cap: QpCap,
        qp_type: u32,
        sq_sig_all: c_int,
    }
    whole "ibv_global_route" GlobalRoute {
        dgid: Gid,
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
    }
    whole "ibv_ah_attr" AhAttr {
        grh: GlobalRoute,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
    }
    whole "ibv_qp_attr" QpAttr {
        qp_state: u32,
        cur_qp_state: u32,
        path_mtu: u32,
        path_mig_state: u32,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: u32,
        cap: QpCap,
        ah_attr: AhAttr,
        alt_ah_attr: AhAttr,
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        rate_limit: u32,
    }
    whole "ibv_sge" Sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }
    whole "ibv_send_wr" SendWr {
        wr_id: u64,
        next: *mut SendWr,
        sg_list: *mut Sge,
        num_sge: c_int,
        opcode: u32,
        send_flags: u32,
        imm_data: u32,
        wr: RemotePlace,
        qp_type: u32,
        bind_mw: [u64; 6],
    }
    whole "ibv_wc" Wc {
        wr_id: u64,
        status: u32,
        opcode: u32,
        vendor_err: u32,
        byte_len: u32,
        imm_data: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: u32,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }
    whole "ibv_port_attr" PortAttr {
        state: u32,
        max_mtu: u32,
        active_mtu: u32,
        gid_tbl_len: c_int,
        port_cap_flags: u32,
        max_msg_sz: u32,
        bad_pkey_cntr: u32,
        qkey_viol_cntr: u32,
        pkey_tbl_len: u16,
        lid: u16,
        sm_lid: u16,
        lmc: u8,
        max_vl_num: u8,
        sm_sl: u8,
        subnet_timeout: u8,
        init_type_reply: u8,
        active_width: u8,
        active_speed: u8,
        phys_state: u8,
        link_layer: u8,
        flags: u8,
        port_cap_flags2: u16,
    }
    whole "ibv_gid_entry" GidEntry {
        gid: Gid,
        gid_index: u32,
        port_num: u32,
        gid_type: u32,
        ndev_ifindex: u32,
    }
    whole "ibv_device_attr" DeviceAttr {
        fw_ver: [u8; 64],
        node_guid: u64,
        sys_image_guid: u64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: u32,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        max_ee_init_rd_atom: c_int,
        atomic_cap: u32,
        max_ee: c_int,
        max_rdd: c_int,
        max_mw: c_int,
        max_raw_ipv6_qp: c_int,
        max_raw_ethy_qp: c_int,
        max_mcast_grp: c_int,
        max_mcast_qp_attach: c_int,
        max_total_mcast_qp_attach: c_int,
        max_ah: c_int,
        max_fmr: c_int,
        max_map_per_fmr: c_int,
        max_srq: c_int,
        max_srq_wr: c_int,
        max_srq_sge: c_int,
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
    }
}

/// `union ibv_gid`, of which the header says that it is aligned as numbers of 64 bits are.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gid(pub(crate) [u8; 16]);

/// `wr.rdma` of a request, in a union that has more room.
#[repr(C)]
pub(crate) struct RemotePlace {
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
    pub(crate) unused: [u32; 5],
}

declare_constants! {
    // Types, states and modes, all enumerations.
    u32 {
        IBV_QPT_RC = 2;
        IBV_QPS_INIT = 1;
        IBV_QPS_RTR = 2;
        IBV_QPS_RTS = 3;
        IBV_PORT_ACTIVE = 4;
        IBV_GID_TYPE_IB = 0;
        IBV_GID_TYPE_ROCE_V1 = 1;
        IBV_GID_TYPE_ROCE_V2 = 2;
        IBV_WR_RDMA_WRITE = 0;
        IBV_WR_RDMA_READ = 4;
        IBV_WC_SUCCESS = 0;
        IBV_WC_LOC_QP_OP_ERR = 2;
        IBV_WC_WR_FLUSH_ERR = 5;
        IBV_WC_RETRY_EXC_ERR = 12;
        IBV_WC_RNR_RETRY_EXC_ERR = 13;
        IBV_WC_FATAL_ERR = 19;
        IBV_WC_RESP_TIMEOUT_ERR = 20;
        IBV_WC_GENERAL_ERR = 21;
        IBV_EVENT_DEVICE_FATAL = 8;
        IBV_EVENT_PORT_ACTIVE = 9;
        IBV_EVENT_PORT_ERR = 10;
        IBV_EVENT_LID_CHANGE = 11;
        IBV_EVENT_GID_CHANGE = 18;
        IBV_MTU_256 = 1;
        IBV_MTU_4096 = 5;
    }
    u8 {
        IBV_LINK_LAYER_INFINIBAND = 1;
        IBV_LINK_LAYER_ETHERNET = 2;
    }
    // Flags.
    u32 {
        IBV_SEND_SIGNALED = 1 << 1;
        IBV_SEND_INLINE = 1 << 3;
        IBV_ACCESS_LOCAL_WRITE = 1;
        IBV_ACCESS_REMOTE_WRITE = 1 << 1;
        IBV_ACCESS_REMOTE_READ = 1 << 2;
        IBV_ACCESS_RELAXED_ORDERING = 1 << 20;
    }
    // Which attributes a call sets.
    i32 {
        IBV_QP_STATE = 1;
        IBV_QP_ACCESS_FLAGS = 1 << 3;
        IBV_QP_PKEY_INDEX = 1 << 4;
        IBV_QP_PORT = 1 << 5;
        IBV_QP_AV = 1 << 7;
        IBV_QP_PATH_MTU = 1 << 8;
        IBV_QP_TIMEOUT = 1 << 9;
        IBV_QP_RETRY_CNT = 1 << 10;
        IBV_QP_RNR_RETRY = 1 << 11;
        IBV_QP_RQ_PSN = 1 << 12;
        IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13;
        IBV_QP_MIN_RNR_TIMER = 1 << 15;
        IBV_QP_SQ_PSN = 1 << 16;
        IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17;
        IBV_QP_DEST_QPN = 1 << 20;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Layout;
    use crate::abi::check::compare;

    #[test]
    fn structures_and_constants_are_those_of_the_header_of_libibverbs() {
        let layouts: Vec<&Layout> = LAYOUTS.iter().collect();
        let compared = compare(&["infiniband/verbs"], &layouts, CONSTANTS);
        assert!(compared > 350, "nothing was left out of {compared}");
        // `RegDmabufMr`, as C writes it.
        let function = "__builtin_types_compatible_p(__typeof__(&ibv_reg_dmabuf_mr), struct ibv_mr *(*)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int))";
        assert_eq!(compare(&["infiniband/verbs"], &[], &[(function, 1)]), 1);
        let place = size_of::<RemotePlace>();
        assert_eq!((place, std::mem::offset_of!(RemotePlace, rkey)), (32, 8));
    }
}
