//! One end of a connection: a queue pair.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::{mem, ptr};

use super::abi::*;
use super::address::EndAddress;
use super::call::{Owned, check, verb};
use super::device::random_24_bits;
use super::link::Way;
use super::nic::Nic;
use super::queue::Queue;
use crate::abi::Context as Place;
use crate::call::CallError;
use crate::port::{Direction, Request, Side, Via};

/// After about 67 ms (4 us times two to the power of this) a packet that is not acknowledged is sent again.
const ACK_TIMEOUT: u8 = 14;
/// How often a peer that is not ready is asked again: without end. There are no receives, so it does not happen.
const NOT_READY_RETRIES: u8 = 7;
/// 0.64 ms, the delay of such a peer.
const NOT_READY_DELAY: u8 = 12;
/// Most routers between peers.
const HOP_LIMIT: u8 = 64;

/// An end, and what it has in flight.
pub(super) struct End {
    qp: Owned<Qp>,
    own: EndAddress,
    gid_index: u8,
    port: u8,
    /// How often its NIC had failed when it was made.
    downs: u64,
    /// Most requests in flight.
    pub(super) room: usize,
    max_inline: usize,
    /// In the order in which they end.
    chains: VecDeque<Chain>,
    /// How many requests are in flight, and how many bytes they move.
    pub(super) in_flight: usize,
    pub(super) bytes_in_flight: usize,
}

/// Requests that were posted together, and complete once.
pub(super) struct Chain {
    /// Their number, in each of them.
    pub(super) wr_id: u64,
    pub(super) place: *mut Place,
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

/// Room for the requests of a chain while they are posted.
#[derive(Default)]
pub(super) struct ChainBuffer {
    requests: Vec<SendWr>,
    memory: Vec<Sge>,
}

/// What posting a chain came to.
pub(super) enum Posted {
    All,
    /// There is no room, and nothing was posted.
    NoRoom,
    /// Nothing was posted.
    Nothing(CallError),
    /// A part was posted, of which nothing tells when it ends.
    Part(CallError),
}

impl End {
    /// Makes an end at a NIC that a peer can be connected with. `via` is this host's address by which the peer is known.
    pub(super) fn open(nic: &Nic, queue: &Queue, side: Side, via: Via) -> Result<End, CallError> {
        let (port, cq) = (nic.port(), queue.as_ptr());
        let gid = port.choose_gid(nic.options.gid_index, via);
        let gid = gid.ok().filter(|_| nic.is_up()).ok_or_else(|| nic.down_error())?;
        let most = u32::try_from(nic.attributes.max_qp_wr).unwrap_or(0).max(1);
        let (room, max_inline) = match side {
            Side::Initiator => (nic.options.max_wr.min(most), nic.options.max_inline),
            // It posts nothing.
            Side::Target => (1, 0),
        };
        let most_sge = u32::try_from(nic.attributes.max_sge).unwrap_or(0).max(1);
        let mut attributes = QpInitAttr {
            qp_context: ptr::null_mut(),
            send_cq: cq,
            recv_cq: cq,
            srq: ptr::null_mut(),
            cap: QpCap {
                max_send_wr: room,
                max_recv_wr: 1,
                max_send_sge: nic.options.max_sge.min(most_sge),
                max_recv_sge: 1,
                max_inline_data: max_inline,
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: 0,
        };
        let downs = nic.downs();
        let library = nic.library;
        // SAFETY: domain and queue live, as does what the attributes refer to; what is created belongs to the caller.
        let qp = unsafe {
            let failed = |_| ptr::null_mut();
            let (pd, into) = (nic.pd.as_ptr(), &raw mut attributes);
            let qp = verb!(library, "ibv_create_qp", failed => create_qp(pd, into));
            Owned::new("ibv_create_qp", qp, library.functions.destroy_qp)?
        };
        // SAFETY: the object lives.
        let number = unsafe { (*qp.as_ptr()).qp_num };
        let end = End {
            qp,
            own: nic.address(&port, Some(gid), (number, random_24_bits())),
            gid_index: u8::try_from(gid.index).unwrap_or(u8::MAX),
            port: port.number,
            downs,
            room: attributes.cap.max_send_wr.min(room) as usize,
            max_inline: attributes.cap.max_inline_data as usize,
            chains: VecDeque::new(),
            in_flight: 0,
            bytes_in_flight: 0,
        };
        // SAFETY: all zero is a valid value: numbers.
        let mut attributes: QpAttr = unsafe { mem::zeroed() };
        attributes.qp_state = IBV_QPS_INIT;
        attributes.port_num = end.port;
        attributes.qp_access_flags = match side {
            Side::Initiator => 0,
            Side::Target => IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
        };
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        end.modify(nic, &mut attributes, mask)?;
        Ok(end)
    }

    /// Number of the queue pair.
    pub(super) fn number(&self) -> u32 {
        self.own.number
    }

    pub(super) fn address(&self) -> EndAddress {
        self.own
    }

    /// Whether the NIC has worked since the end was made.
    pub(super) fn is_fresh(&self, nic: &Nic) -> bool {
        self.downs == nic.downs()
    }

    /// Connects it with the peer's end.
    pub(super) fn join(&self, nic: &Nic, peer: &EndAddress) -> Result<(), CallError> {
        let own = self.own;
        // SAFETY: all zero is a valid value: numbers.
        let mut attributes: QpAttr = unsafe { mem::zeroed() };
        attributes.qp_state = IBV_QPS_RTR;
        attributes.path_mtu = own.mtu.min(peer.mtu).into();
        attributes.dest_qp_num = peer.number;
        attributes.rq_psn = peer.first_packet;
        attributes.max_dest_rd_atomic = own.reads;
        attributes.min_rnr_timer = NOT_READY_DELAY;
        let route = &mut attributes.ah_attr;
        route.dlid = peer.lid;
        route.port_num = self.port;
        // Within a subnet of InfiniBand the LID is enough. RoCE knows only GIDs.
        if own.is_ethernet() || peer.lid == 0 {
            route.is_global = 1;
            route.grh.dgid = Gid(peer.gid);
            route.grh.sgid_index = self.gid_index;
            route.grh.hop_limit = HOP_LIMIT;
            route.grh.traffic_class = nic.options.traffic_class;
        }
        let mask = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        self.modify(nic, &mut attributes, mask)?;
        let most = u8::try_from(nic.attributes.max_qp_init_rd_atom.max(1)).unwrap_or(u8::MAX);
        attributes.qp_state = IBV_QPS_RTS;
        attributes.sq_psn = own.first_packet;
        attributes.timeout = ACK_TIMEOUT;
        attributes.retry_cnt = nic.options.retry_count;
        attributes.rnr_retry = NOT_READY_RETRIES;
        attributes.max_rd_atomic = most.min(peer.reads);
        let mask = IBV_QP_STATE
            | IBV_QP_SQ_PSN
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(nic, &mut attributes, mask)
    }

    fn modify(&self, nic: &Nic, attributes: &mut QpAttr, mask: c_int) -> Result<(), CallError> {
        let library = nic.library;
        // SAFETY: the object lives, and all attributes of the mask are set.
        let status = unsafe {
            let (qp, attributes) = (self.qp.as_ptr(), ptr::from_mut(attributes));
            verb!(library, "ibv_modify_qp", |number| number => modify_qp(qp, attributes, mask))
        };
        check("ibv_modify_qp", status)
    }

    /// Posts requests as a chain of which only the last tells that it has ended. A chain of writes ends with a read of
    /// its last byte, into `scratch`: the peer's NIC carries requests out in their order, and a read of memory waits for
    /// the writes before it. So the bytes are in memory when the chain ends, and not on their way.
    ///
    /// # Safety
    /// The local memory stays mapped until the chain has ended or the end was dropped, as does `scratch`.
    pub(super) unsafe fn post(
        &mut self,
        direction: Direction,
        requests: &[Request],
        (chain, way): (Chain, Way),
        (scratch, buffer): (Sge, &mut ChainBuffer),
    ) -> Posted {
        buffer.fill((direction, way), requests, chain.wr_id, (scratch, self.max_inline));
        let (qp, first) = (self.qp.as_ptr(), buffer.requests.as_mut_ptr());
        let mut bad = ptr::null_mut();
        // SAFETY: queue pair and context live, and the requests are a list that ends with null. They and the memory
        // of their pieces live during the call; the memory that the pieces name, as the caller promises.
        let status = unsafe {
            match crate::call::wanted_failure("ibv_post_send") {
                Some(number) => {
                    bad = first;
                    number
                }
                None => match (*(*qp).context).ops.post_send {
                    Some(post) => post(qp, first, &raw mut bad),
                    None => libc::ENOSYS,
                },
            }
        };
        let Err(error) = check("ibv_post_send", status) else {
            self.add(chain);
            return Posted::All;
        };
        match (bad.is_null() || bad == first, error.number) {
            (true, libc::ENOMEM) if !self.chains.is_empty() => Posted::NoRoom,
            (true, _) => Posted::Nothing(error),
            (false, _) => {
                self.add(chain);
                Posted::Part(error)
            }
        }
    }

    fn add(&mut self, chain: Chain) {
        self.in_flight += chain.requests;
        self.bytes_in_flight += chain.bytes;
        self.chains.push_back(chain);
    }

    /// Takes out the chains that have ended, up to this one.
    pub(super) fn ended(&mut self, wr_id: u64) -> impl Iterator<Item = Chain> {
        let count = self.chains.iter().take_while(|chain| chain.wr_id <= wr_id).count();
        for chain in self.chains.iter().take(count) {
            self.in_flight -= chain.requests;
            self.bytes_in_flight -= chain.bytes;
        }
        self.chains.drain(..count)
    }

    /// Destroys it. Nothing that it had in flight touches memory of this process any more: returns what that was.
    pub(super) fn destroy(self) -> VecDeque<Chain> {
        let End { qp, chains, .. } = self;
        drop(qp);
        chains
    }
}

impl ChainBuffer {
    fn fill(
        &mut self,
        (direction, way): (Direction, Way),
        requests: &[Request],
        wr_id: u64,
        (scratch, max_inline): (Sge, usize),
    ) {
        self.requests.clear();
        self.memory.clear();
        let is_write = direction == Direction::Write;
        for request in requests {
            let &Request { local, is_of_device, len, remote, .. } = request;
            let (lkey, key) = way.keys(request).expect("only what a way has keys for goes by it");
            let length = u32::try_from(len).expect("requests are shorter than the port's limit");
            self.memory.push(Sge { addr: local.addr() as u64, length, lkey });
            // What travels in the request is copied by the processor.
            let is_inline = len <= max_inline && !is_of_device;
            let (opcode, flags) = match (is_write, is_inline) {
                (true, true) => (IBV_WR_RDMA_WRITE, IBV_SEND_INLINE),
                (true, false) => (IBV_WR_RDMA_WRITE, 0),
                (false, _) => (IBV_WR_RDMA_READ, 0),
            };
            self.requests.push(send_wr(wr_id, opcode, flags, (remote, key)));
        }
        if let Some(last) = requests.last().filter(|_| is_write) {
            self.memory.push(scratch);
            let last_byte = last.remote + last.len as u64 - 1;
            let (_, last_key) = way.keys(last).expect("as above");
            self.requests.push(send_wr(wr_id, IBV_WR_RDMA_READ, 0, (last_byte, last_key)));
        }
        let count = self.requests.len();
        self.requests[count - 1].send_flags |= IBV_SEND_SIGNALED;
        let (requests, memory) = (self.requests.as_mut_ptr(), self.memory.as_mut_ptr());
        for at in 0..count {
            // SAFETY: both lists have so many entries, and do not grow any more.
            unsafe {
                (*requests.add(at)).sg_list = memory.add(at);
                if at + 1 < count {
                    (*requests.add(at)).next = requests.add(at + 1);
                }
            }
        }
    }
}

/// A request with one piece of memory, which is still to be linked.
fn send_wr(wr_id: u64, opcode: u32, send_flags: u32, (remote_addr, rkey): (u64, u32)) -> SendWr {
    SendWr {
        wr_id,
        next: ptr::null_mut(),
        sg_list: ptr::null_mut(),
        num_sge: 1,
        opcode,
        send_flags,
        imm_data: 0,
        wr: RemotePlace { remote_addr, rkey, unused: [0; 5] },
        qp_type: 0,
        bind_mw: [0; 6],
    }
}
