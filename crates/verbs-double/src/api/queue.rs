//! Completion queues and their channels.

use std::ffi::{c_int, c_void};
use std::{mem, ptr};

use super::{null, unbox};
use crate::abi::*;
use crate::state::{CqState, state};

pub(super) const MAX_CQE: usize = 1 << 16;

api! {
    fn ibv_create_comp_channel(context: *mut Context) -> *mut CompChannel {
        let mut ends = [0; 2];
        // SAFETY: there is room for two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) } != 0 {
            return ptr::null_mut();
        }
        let channel = CompChannel { context, fd: ends[0], refcnt: ends[1] };
        let channel = Box::into_raw(Box::new(channel));
        state().channels.insert(channel.addr(), 0);
        channel
    }

    fn ibv_destroy_comp_channel(channel: *mut CompChannel) -> c_int {
        let mut state = state();
        if state.channels.get(&channel.addr()) != Some(&0) {
            return libc::EBUSY;
        }
        state.channels.remove(&channel.addr());
        // SAFETY: it was created, its descriptors are its own, and nobody else destroys it.
        unsafe {
            libc::close((*channel).fd);
            libc::close((*channel).refcnt);
            unbox(channel)
        }
    }

    fn ibv_create_cq(
        context: *mut Context, room: c_int, cq_context: *mut c_void, channel: *mut CompChannel, _vector: c_int
    ) -> *mut Cq {
        let mut state = state();
        let room = usize::try_from(room).unwrap_or(0);
        if room == 0 || room > MAX_CQE {
            return null(libc::EINVAL);
        }
        let cq = Cq { context, channel, cq_context, handle: 0, cqe: room as c_int };
        let cq = Box::into_raw(Box::new(cq));
        let mut event = None;
        if !channel.is_null() {
            *state.channels.get_mut(&channel.addr()).expect("it lives") += 1;
            // SAFETY: the channel lives.
            event = Some((unsafe { (*channel).refcnt }, cq.expose_provenance()));
        }
        let entries = [].into();
        let queue = CqState { entries, room, is_armed: false, event, unacknowledged: 0, users: 0 };
        state.cqs.insert(cq.addr(), queue);
        cq
    }

    fn ibv_destroy_cq(cq: *mut Cq) -> c_int {
        let mut state = state();
        let is_free = |queue: &CqState| queue.users == 0;
        if !state.cqs.get(&cq.addr()).is_some_and(is_free) {
            return libc::EBUSY;
        }
        state.cqs.remove(&cq.addr());
        // SAFETY: it was created, and nobody else destroys it.
        unsafe {
            if !(*cq).channel.is_null() {
                *state.channels.get_mut(&(*cq).channel.addr()).expect("it lives") -= 1;
            }
            unbox(cq)
        }
    }

    fn ibv_get_cq_event(channel: *mut CompChannel, cq: *mut *mut Cq, context: *mut *mut c_void) -> c_int {
        let mut event = [0; mem::size_of::<usize>()];
        // SAFETY: the channel lives, and there is room for an event.
        let count = unsafe { libc::read((*channel).fd, event.as_mut_ptr().cast(), event.len()) };
        if count != event.len() as isize {
            return -1;
        }
        // SAFETY: the caller has room for both; an event is the address of a queue that lives.
        unsafe {
            *cq = ptr::with_exposed_provenance_mut(usize::from_ne_bytes(event));
            *context = (**cq).cq_context;
        }
        0
    }

    fn ibv_ack_cq_events(cq: *mut Cq, count: u32) {
        let mut state = state();
        let queue = state.cqs.get_mut(&cq.addr()).expect("it lives");
        queue.unacknowledged = queue.unacknowledged.checked_sub(count).expect("so many events came");
    }
}

/// `ibv_poll_cq`
pub(super) unsafe extern "C" fn poll_cq(cq: *mut Cq, most: c_int, into: *mut Wc) -> c_int {
    let mut state = state();
    let state = &mut *state;
    let Some(queue) = state.cqs.get_mut(&cq.addr()) else { return -1 };
    let mut count = 0;
    while count < most
        && let Some((wc, covers)) = queue.entries.pop_front()
    {
        if let Some(qp) = state.qps.get_mut(&wc.qp_num) {
            qp.taken -= covers;
        }
        // SAFETY: the caller has room for `most` completions.
        unsafe { into.add(count as usize).write(wc) };
        count += 1;
    }
    count
}

/// `ibv_req_notify_cq`
pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut Cq, _solicited: c_int) -> c_int {
    match state().cqs.get_mut(&cq.addr()) {
        Some(queue) => {
            queue.is_armed = true;
            0
        }
        None => libc::EINVAL,
    }
}
