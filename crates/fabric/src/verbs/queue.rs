//! Completion queues, one for each NIC, and the channels that tell of completions.

use std::ffi::c_int;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;

use super::abi::*;
use super::call::{Owned, call_error, last_error, verb};
use super::load::VerbsLibrary;
use super::nic::Nic;
use crate::call::CallError;

/// Most completions that are taken at once.
const COMPLETIONS: usize = 64;

/// A completion queue. It has a channel if threads wait for it.
pub(super) struct Queue {
    // Dropped in this order.
    cq: Owned<Cq>,
    channel: Option<Owned<CompChannel>>,
    library: &'static VerbsLibrary,
}

/// The queues of all NICs of a device, by their places in it.
pub(super) struct QueueSet {
    queues: Vec<Arc<Queue>>,
    /// Readable when one of the channels is, if there are several.
    any: Option<OwnedFd>,
}

impl QueueSet {
    pub(super) fn new(queues: Vec<Arc<Queue>>) -> Result<QueueSet, CallError> {
        let channels: Vec<RawFd> = queues.iter().filter_map(|queue| queue.descriptor()).collect();
        let any = if channels.len() > 1 { Some(any_of(&channels)?) } else { None };
        Ok(QueueSet { queues, any })
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().map(|queue| &**queue)
    }

    pub(super) fn at(&self, nic: usize) -> &Queue {
        &self.queues[nic]
    }

    /// A descriptor that is readable after the next completion from now on.
    pub(super) fn arm(&self) -> Option<RawFd> {
        let mut last = None;
        for queue in &self.queues {
            last = Some(queue.arm()?);
        }
        self.any.as_ref().map(AsRawFd::as_raw_fd).or(last)
    }

    pub(super) fn has_channels(&self) -> bool {
        self.queues.iter().all(|queue| queue.channel.is_some())
    }
}

/// A descriptor that is readable when one of these is.
fn any_of(descriptors: &[RawFd]) -> Result<OwnedFd, CallError> {
    // SAFETY: the call has no preconditions.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if set < 0 {
        return Err(last_error("ibv_create_comp_channel"));
    }
    // SAFETY: the call returned a descriptor that nobody else has.
    let set = unsafe { OwnedFd::from_raw_fd(set) };
    for &descriptor in descriptors {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: both descriptors are open, and the event lives during the call.
        let added = unsafe {
            libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor, &raw mut event)
        };
        if added != 0 {
            return Err(last_error("ibv_create_comp_channel"));
        }
    }
    Ok(set)
}

/// A request that has ended.
pub(super) struct Ended {
    pub(super) wr_id: u64,
    pub(super) status: u32,
    /// Number of the queue pair.
    pub(super) number: u32,
}

impl Queue {
    pub(super) fn open(nic: &Nic, entries: usize, has_channel: bool) -> Result<Queue, CallError> {
        let (library, context) = (nic.library, nic.context.as_ptr());
        let channel = if has_channel { Some(open_channel(nic)?) } else { None };
        let events = channel.as_ref().map_or(ptr::null_mut(), Owned::as_ptr);
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        // SAFETY: context and channel live, and the channel outlives the queue; what is created belongs to the caller.
        let cq = unsafe {
            let failed = |_| ptr::null_mut();
            let null = ptr::null_mut();
            let cq = verb!(library, "ibv_create_cq", failed => create_cq(context, entries, null, events, 0));
            Owned::new("ibv_create_cq", cq, library.functions.destroy_cq)?
        };
        Ok(Queue { cq, channel, library })
    }

    pub(super) fn as_ptr(&self) -> *mut Cq {
        self.cq.as_ptr()
    }

    /// Takes completions. Returns whether there may be more.
    pub(super) fn poll(&self, ended: &mut Vec<Ended>) -> Result<bool, CallError> {
        // SAFETY: all zero is a valid value: numbers.
        let mut entries: [Wc; COMPLETIONS] = unsafe { mem::zeroed() };
        let cq = self.cq.as_ptr();
        // SAFETY: queue and context live, and there is room for so many entries.
        let count = unsafe {
            match crate::call::wanted_failure("ibv_poll_cq") {
                Some(_) => -1,
                None => match (*(*cq).context).ops.poll_cq {
                    Some(poll) => poll(cq, COMPLETIONS as c_int, entries.as_mut_ptr()),
                    None => -1,
                },
            }
        };
        let Ok(count) = usize::try_from(count) else {
            return Err(call_error("ibv_poll_cq", libc::EIO));
        };
        ended.extend(entries.iter().take(count).map(|entry| Ended {
            wr_id: entry.wr_id,
            status: entry.status,
            number: entry.qp_num,
        }));
        Ok(count == COMPLETIONS)
    }

    /// The descriptor of the channel, which is readable after the next completion from now on.
    pub(super) fn arm(&self) -> Option<RawFd> {
        let channel = self.channel.as_ref()?.as_ptr();
        let (mut cq, mut context, mut events) = (ptr::null_mut(), ptr::null_mut(), 0);
        // SAFETY: queue, channel and context live. The channel's descriptor does not block. All events are of this
        // queue, and are acknowledged, without which the queue could not be destroyed.
        unsafe {
            let functions = &self.library.functions;
            while (functions.get_cq_event)(channel, &raw mut cq, &raw mut context) == 0 {
                events += 1;
            }
            if events > 0 {
                (functions.ack_cq_events)(self.cq.as_ptr(), events);
            }
            let own = self.cq.as_ptr();
            let status = match crate::call::wanted_failure("ibv_req_notify_cq") {
                Some(number) => number,
                None => (*(*own).context).ops.req_notify_cq.map_or(-1, |arm| arm(own, 0)),
            };
            (status == 0).then_some((*channel).fd)
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        // SAFETY: the object lives.
        self.channel.as_ref().map(|channel| unsafe { (*channel.as_ptr()).fd })
    }
}

/// A channel whose descriptor does not block.
fn open_channel(nic: &Nic) -> Result<Owned<CompChannel>, CallError> {
    let (library, context) = (nic.library, nic.context.as_ptr());
    // SAFETY: the context lives; what is created belongs to the caller, and its descriptor to the channel.
    unsafe {
        let failed = |_| ptr::null_mut();
        let channel =
            verb!(library, "ibv_create_comp_channel", failed => create_comp_channel(context));
        let destroy = library.functions.destroy_comp_channel;
        let channel = Owned::new("ibv_create_comp_channel", channel, destroy)?;
        let fd = (*channel.as_ptr()).fd;
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags < 0 || libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
            return Err(last_error("ibv_create_comp_channel"));
        }
        Ok(channel)
    }
}
