//! The functions of the simulated library.

use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::net::Ipv6Addr;
use std::process;
use std::ptr;
use std::sync::mpsc;
use std::thread;

use crate::abi::*;
use crate::carry::carry_out;
use crate::link::listen;
use crate::state::{
    CqState, MrState, Nic, Peer, QpState, SUCCESS, Work, own_lid, process_of, state,
};

const WRITE: u32 = 0;
const READ: u32 = 4;
const SIGNALED: u32 = 1 << 1;
const INLINE: u32 = 1 << 3;

const INIT: u32 = 1;
const READY_TO_RECEIVE: u32 = 2;
const READY_TO_SEND: u32 = 3;
const BROKEN: u32 = 6;

/// Most reads in flight at a queue pair.
const MAX_READS: u8 = 16;
const MAX_PIECES: u32 = 8;
const MAX_INLINE: u32 = 220;
const MAX_CQE: usize = 1 << 16;

/// A device in a list: its place in the host's.
struct Listed {
    nic: Nic,
    name: std::ffi::CString,
}

macro_rules! api {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(
            /// See `infiniband/verbs.h`.
            ///
            /// # Safety
            /// The pointers must satisfy what libibverbs demands of this function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) $(-> $result)? $body
        )*

        /// The function of this name, or null.
        #[must_use]
        pub fn symbol(name: &CStr) -> *mut c_void {
            match name.to_str() {
                $(Ok(stringify!($name)) => $name as *mut c_void,)*
                _ => ptr::null_mut(),
            }
        }
    };
}

/// Sets `errno`, and returns null.
fn null<T>(number: c_int) -> *mut T {
    // SAFETY: the call returns a place of this thread.
    unsafe { *libc::__errno_location() = number };
    ptr::null_mut()
}

/// Destroys an object that nothing uses.
///
/// # Safety
/// The object came from a box, and nobody else destroys it.
unsafe fn unbox<T>(object: *mut T) -> c_int {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(object) });
    0
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
        let context = Box::into_raw(Box::new(Context {
            device,
            ops,
            cmd_fd: -1,
            async_fd: -1,
            num_comp_vectors: 1,
            mutex: [0; 5],
            abi_compat: ptr::null_mut(),
        }));
        // SAFETY: the device is in a list, which is never freed.
        let nic = unsafe { (*device.cast::<Listed>()).nic.clone() };
        state().contexts.insert(context.addr(), (nic, 0));
        context
    }

    fn ibv_close_device(context: *mut Context) -> c_int {
        let mut state = state();
        if state.contexts.get(&context.addr()).is_none_or(|(_, users)| *users > 0) {
            return libc::EBUSY;
        }
        state.contexts.remove(&context.addr());
        // SAFETY: it was opened, and nobody else closes it.
        unsafe { unbox(context) }
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
        let Some((nic, _)) = state.contexts.get(&context.addr()).filter(|_| number == 1) else {
            return libc::EINVAL;
        };
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
        let Some((nic, _)) = state.contexts.get(&context.addr()) else { return -22 };
        if len != mem::size_of::<GidEntry>() || nic.gids.len() > most {
            return -(libc::EINVAL as isize);
        }
        for (at, &(gid_type, address)) in nic.gids.iter().enumerate() {
            let gid = gid_words(address);
            let entry =
                GidEntry { gid, gid_index: at as u32, port_num: 1, gid_type, ndev_ifindex: 2 };
            // SAFETY: the caller has room for `most` entries.
            unsafe { entries.add(at).write(entry) };
        }
        nic.gids.len() as isize
    }

    fn ibv_alloc_pd(context: *mut Context) -> *mut Pd {
        let mut state = state();
        let Some((_, users)) = state.contexts.get_mut(&context.addr()) else {
            return null(libc::EINVAL);
        };
        *users += 1;
        let pd = Box::into_raw(Box::new(Pd { context, handle: 0 }));
        state.pds.insert(pd.addr(), 0);
        pd
    }

    fn ibv_dealloc_pd(pd: *mut Pd) -> c_int {
        let mut state = state();
        if state.pds.get(&pd.addr()) != Some(&0) {
            return libc::EBUSY;
        }
        state.pds.remove(&pd.addr());
        // SAFETY: it was allocated, and nobody else gives it back.
        unsafe {
            let context = (*pd).context.addr();
            state.contexts.get_mut(&context).expect("it has this user").1 -= 1;
            unbox(pd)
        }
    }

    fn ibv_reg_mr_iova2(
        pd: *mut Pd, address: *mut c_void, len: usize, iova: u64, access: u32
    ) -> *mut Mr {
        let mut state = state();
        let start = address.expose_provenance() as u64;
        let is_writable = access & 1 != 0 || access & 2 == 0;
        if len == 0 || iova != start || !is_writable {
            return null(libc::EINVAL);
        }
        let Some(users) = state.pds.get_mut(&pd.addr()) else { return null(libc::EINVAL) };
        *users += 1;
        let key = state.new_key();
        let mr = MrState { pd: pd.addr(), address: start, len: len as u64, access };
        state.mrs.insert(key, mr);
        // SAFETY: the domain lives.
        let context = unsafe { (*pd).context };
        let mr = Mr { context, pd, addr: address, length: len, handle: key, lkey: key, rkey: key };
        Box::into_raw(Box::new(mr))
    }

    fn ibv_dereg_mr(mr: *mut Mr) -> c_int {
        let mut state = state();
        // SAFETY: the registration lives, and nobody else gives it back.
        let (key, pd) = unsafe { ((*mr).handle, (*mr).pd.addr()) };
        if state.mrs.remove(&key).is_none() {
            return libc::EINVAL;
        }
        state.give_back_key(key);
        *state.pds.get_mut(&pd).expect("it has this user") -= 1;
        // SAFETY: as above.
        unsafe { unbox(mr) }
    }

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
        let nic = state.contexts[&context.addr()].0.clone();
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
        return if nic.is_ethernet { Err(libc::EINVAL) } else { Ok(Peer { process, number }) };
    }
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&ah.dgid[0].to_ne_bytes());
    octets[8..].copy_from_slice(&ah.dgid[1].to_ne_bytes());
    let own = nic.gids.get(usize::from(ah.sgid_index)).ok_or(libc::EINVAL)?;
    // What leaves by a GID that is not routable does not come back.
    let process = process_of(own.1).and_then(|_| process_of(Ipv6Addr::from(octets)));
    Ok(Peer { process, number })
}

/// `ibv_poll_cq`
unsafe extern "C" fn poll_cq(cq: *mut Cq, most: c_int, into: *mut Wc) -> c_int {
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
unsafe extern "C" fn req_notify_cq(cq: *mut Cq, _solicited: c_int) -> c_int {
    match state().cqs.get_mut(&cq.addr()) {
        Some(queue) => {
            queue.is_armed = true;
            0
        }
        None => libc::EINVAL,
    }
}

/// `ibv_post_send`
unsafe extern "C" fn post_send(qp: *mut Qp, first: *mut SendWr, bad: *mut *mut SendWr) -> c_int {
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
