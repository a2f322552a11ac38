//! Queue pairs.

use std::ffi::{c_int, c_void};
use std::net::Ipv6Addr;
use std::sync::mpsc;
use std::{process, ptr, thread};

use super::{null, unbox};
use crate::abi::*;
use crate::carry::carry_out;
use crate::state::{Nic, Peer, QpState, own_lid, process_of, state};

pub(super) const INIT: u32 = 1;
pub(super) const READY_TO_RECEIVE: u32 = 2;
pub(super) const READY_TO_SEND: u32 = 3;
pub(super) const BROKEN: u32 = 6;

/// Most reads in flight at a queue pair.
pub(super) const MAX_READS: u8 = 16;
pub(super) const MAX_PIECES: u32 = 8;
const MAX_INLINE: u32 = 220;

api! {
    fn ibv_create_qp(pd: *mut Pd, attributes: *mut QpInitAttr) -> *mut Qp {
        let mut state = state();
        // SAFETY: the caller passes attributes of its own.
        let attributes = unsafe { &mut *attributes };
        let cap = attributes.cap;
        let fits = cap.max_inline_data <= MAX_INLINE && cap.max_send_sge <= MAX_PIECES;
        if attributes.qp_type != 2 || attributes.sq_sig_all != 0 || !fits {
            return null(libc::EINVAL);
        }
        // SAFETY: the domain lives.
        let context = unsafe { (*pd).context };
        let nic = state.contexts[&context.addr()].nic.clone();
        state.cqs.get_mut(&attributes.send_cq.addr()).expect("it lives").users += 1;
        *state.pds.get_mut(&pd.addr()).expect("it lives") += 1;
        state.next_number = (state.next_number + 1) & 0xff_ffff;
        let number = state.next_number;
        let qp = QpState {
            pd: pd.addr(),
            cq: attributes.send_cq.addr(),
            nic,
            access: 0,
            state: 0,
            max_requests: cap.max_send_wr,
            max_pieces: cap.max_send_sge,
            max_inline: cap.max_inline_data,
            taken: 0,
            silent: 0,
            peer: None,
            worker: None,
            stream: None,
        };
        state.qps.insert(number, qp);
        Box::into_raw(Box::new(Qp {
            context,
            qp_context: attributes.qp_context,
            pd,
            send_cq: attributes.send_cq,
            recv_cq: attributes.recv_cq,
            srq: ptr::null_mut(),
            handle: 0,
            qp_num: number,
            state: 0,
            qp_type: 2,
        }))
    }

    fn ibv_modify_qp(qp: *mut Qp, attributes: *mut QpAttr, mask: c_int) -> c_int {
        // SAFETY: queue pair and attributes live.
        let (number, attributes) = unsafe { ((*qp).qp_num, *attributes) };
        modify(number, &attributes, mask).err().unwrap_or(0)
    }

    fn ibv_destroy_qp(qp: *mut Qp) -> c_int {
        let mut state = state();
        // SAFETY: the queue pair lives, and nobody else destroys it.
        let number = unsafe { (*qp).qp_num };
        let Some(gone) = state.qps.remove(&number) else { return libc::EINVAL };
        if let Some(stream) = gone.stream {
            // It may have ended.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        *state.pds.get_mut(&gone.pd).expect("it lives") -= 1;
        let cq = state.cqs.get_mut(&gone.cq).expect("it lives");
        cq.users -= 1;
        cq.entries.retain(|(wc, _)| wc.qp_num != number);
        // SAFETY: as above.
        unsafe { unbox(qp) }
    }
}

/// Changes the state of a queue pair, as InfiniBand allows.
fn modify(number: u32, attributes: &QpAttr, mask: c_int) -> Result<(), c_int> {
    const TO_INIT: c_int = 1 | 1 << 3 | 1 << 4 | 1 << 5;
    const TO_RECEIVE: c_int = 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;
    const TO_SEND: c_int = 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16;
    let mut state = state();
    let qp = state.qps.get_mut(&number).ok_or(libc::EINVAL)?;
    let wanted = attributes.qp_state;
    match (qp.state, wanted, mask) {
        (0, INIT, TO_INIT) if attributes.port_num == 1 => qp.access = attributes.qp_access_flags,
        (INIT, READY_TO_RECEIVE, TO_RECEIVE) => {
            let is_mtu = (1..=3).contains(&attributes.path_mtu);
            if !is_mtu || attributes.max_dest_rd_atomic > MAX_READS {
                return Err(libc::EINVAL);
            }
            qp.peer = Some(route(&qp.nic, attributes)?);
            let ah = &attributes.ah_attr;
            let route = (ah.is_global != 0, ah.dlid, attributes.path_mtu, ah.traffic_class);
            qp.state = wanted;
            state.last_route = route;
            return Ok(());
        }
        (READY_TO_RECEIVE, READY_TO_SEND, TO_SEND) => {
            if attributes.max_rd_atomic > MAX_READS || attributes.retry_cnt > 7 {
                return Err(libc::EINVAL);
            }
            let (sender, receiver) = mpsc::channel();
            qp.worker = Some(sender);
            thread::spawn(move || carry_out(number, &receiver));
        }
        _ => return Err(libc::EINVAL),
    }
    qp.state = wanted;
    Ok(())
}

/// Whom the attributes lead to.
fn route(nic: &Nic, attributes: &QpAttr) -> Result<Peer, c_int> {
    let (ah, number) = (&attributes.ah_attr, attributes.dest_qp_num);
    if ah.is_global == 0 {
        let is_here = ah.dlid == own_lid();
        let process = (!nic.is_ethernet && is_here).then(process::id);
        let peer = Peer { process, nic: 0, number };
        return if nic.is_ethernet { Err(libc::EINVAL) } else { Ok(peer) };
    }
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&ah.dgid[0].to_ne_bytes());
    octets[8..].copy_from_slice(&ah.dgid[1].to_ne_bytes());
    let own = nic.gids.get(usize::from(ah.sgid_index)).ok_or(libc::EINVAL)?;
    // What leaves by a GID that is not routable does not come back.
    let peer = process_of(own.address).and_then(|_| process_of(Ipv6Addr::from(octets)));
    let (process, nic) = peer.unzip();
    Ok(Peer { process, nic: nic.unwrap_or(0), number })
}
