//! Requests.

use std::ffi::c_int;
use std::ptr;

use super::pair::{BROKEN, READY_TO_SEND};
use crate::abi::*;
use crate::state::{QpState, SUCCESS, Work, state};

const WRITE: u32 = 0;
const READ: u32 = 4;
const SIGNALED: u32 = 1 << 1;
const INLINE: u32 = 1 << 3;

/// `ibv_post_send`
pub(super) unsafe extern "C" fn post_send(
    qp: *mut Qp,
    first: *mut SendWr,
    bad: *mut *mut SendWr,
) -> c_int {
    let mut state = state();
    let state = &mut *state;
    state.counts.posts += 1;
    // SAFETY: the queue pair lives.
    let number = unsafe { (*qp).qp_num };
    let qp = state.qps.get_mut(&number).expect("it lives");
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the caller passes a list of requests that ends with null.
        let posted = unsafe { take(qp, &*next) };
        match posted {
            Ok(work) => {
                state.counts.requests += 1;
                state.counts.signals += u64::from(work.is_signaled);
                qp.taken += 1;
                let worker = qp.worker.as_ref().expect("it is ready to send");
                worker.send(work).expect("its thread waits for work");
            }
            Err(error) => {
                // SAFETY: the caller passes a place for the address.
                unsafe { *bad = next };
                return error;
            }
        }
        // SAFETY: as above.
        next = unsafe { (*next).next };
    }
    SUCCESS as c_int
}

/// Checks a request.
///
/// # Safety
/// Its list of pieces is one.
unsafe fn take(qp: &QpState, wr: &SendWr) -> Result<Work, c_int> {
    if !matches!(qp.state, READY_TO_SEND | BROKEN) || wr.num_sge != 1 || qp.max_pieces == 0 {
        return Err(libc::EINVAL);
    }
    if qp.taken == qp.max_requests {
        return Err(libc::ENOMEM);
    }
    // SAFETY: the caller promises that the piece is there.
    let sge = unsafe { &*wr.sg_list };
    let (is_write, is_inline) = (wr.opcode == WRITE, wr.send_flags & INLINE != 0);
    let fits = !is_inline || is_write && sge.length <= qp.max_inline;
    if !fits || !is_write && wr.opcode != READ || sge.length == 0 {
        return Err(libc::EINVAL);
    }
    let inline = is_inline.then(|| {
        let mut bytes = vec![0; sge.length as usize];
        // SAFETY: memory of an inline request is the caller's, and lives during the call.
        unsafe {
            let from = ptr::with_exposed_provenance::<u8>(sge.addr as usize);
            bytes.as_mut_ptr().copy_from_nonoverlapping(from, bytes.len());
        }
        bytes
    });
    Ok(Work {
        wr_id: wr.wr_id,
        is_write,
        is_signaled: wr.send_flags & SIGNALED != 0,
        inline,
        local: sge.addr,
        lkey: sge.lkey,
        len: sge.length.into(),
        remote: wr.remote_addr,
        rkey: wr.rkey,
    })
}
