//! A thread that is told when ports of NICs fail and work again. It sleeps otherwise.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mooncake_memory::process_id;

use super::abi::*;
use super::nic::Nic;
use crate::wait::{Bell, wait_for_any};

/// A NIC that does not work is looked at this often, should nothing tell that it works again.
const DOUBT: Duration = Duration::from_secs(5);
/// Longest sleep.
const SLEEP: Duration = Duration::from_secs(3600);

/// The NICs of a device.
pub(super) struct Nics {
    pub(super) list: Vec<Nic>,
    /// Grows whenever a NIC fails or works again.
    changes: AtomicU64,
}

impl Nics {
    pub(super) fn new(list: Vec<Nic>) -> Nics {
        Nics { list, changes: AtomicU64::new(0) }
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

/// Watches NICs until it is dropped.
pub(super) struct Watch {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl Watch {
    pub(super) fn start(nics: &Arc<Nics>) -> io::Result<Watch> {
        for nic in &nics.list {
            not_blocking(descriptor(nic))?;
        }
        let bell = Arc::new(Bell::new()?);
        let (nics, stop) = (Arc::clone(nics), Arc::clone(&bell));
        let builder = thread::Builder::new().name("verbs-events".to_owned());
        let thread = builder.spawn(move || watch(&nics, &stop))?;
        Ok(Watch { bell, thread: Some(thread), process: process_id() })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != process_id() {
            // A forked child has not got the thread.
            return std::mem::forget(thread);
        }
        self.bell.ring();
        // A thread that panicked has told of it.
        let _ = thread.join();
    }
}

fn watch(nics: &Nics, stop: &Bell) {
    let mut descriptors: Vec<RawFd> = nics.list.iter().map(descriptor).collect();
    descriptors.push(stop.descriptor());
    loop {
        let waits_for_any = nics.list.iter().any(|nic| !nic.is_up() && !nic.is_dead());
        wait_for_any(&descriptors, if waits_for_any { DOUBT } else { SLEEP });
        if stop.has_rung() {
            return;
        }
        for nic in &nics.list {
            let before = (nic.downs(), nic.is_up());
            while let Some((kind, port)) = next_event(nic) {
                notice(nic, kind, port);
            }
            if !nic.is_up() {
                nic.look();
            }
            if before != (nic.downs(), nic.is_up()) {
                nics.changes.fetch_add(1, Ordering::AcqRel);
            }
        }
    }
}

fn notice(nic: &Nic, kind: u32, port: u8) {
    match kind {
        IBV_EVENT_DEVICE_FATAL => {
            tracing::warn!(nic = %nic.name, "a NIC has failed, and is not used any more");
            nic.fail(true);
        }
        IBV_EVENT_PORT_ERR if port == nic.port().number => {
            tracing::warn!(nic = %nic.name, port, "a NIC's port is down");
            nic.fail(false);
        }
        IBV_EVENT_PORT_ACTIVE | IBV_EVENT_LID_CHANGE | IBV_EVENT_GID_CHANGE => nic.look(),
        _ => {}
    }
}

fn descriptor(nic: &Nic) -> RawFd {
    // SAFETY: the context lives.
    unsafe { (*nic.context.as_ptr()).async_fd }
}

fn not_blocking(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: the calls only take numbers.
    let is_set = unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        flags >= 0 && libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    };
    if is_set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kind of the next event, and the port that it is about, if it is about one.
fn next_event(nic: &Nic) -> Option<(u32, u8)> {
    let mut event = AsyncEvent { element: 0, event_type: 0 };
    let functions = &nic.library.functions;
    // SAFETY: the context lives, its descriptor does not block, and there is room for an event. Each is acknowledged, or
    // what it is about could not be destroyed.
    unsafe {
        if (functions.get_async_event)(nic.context.as_ptr(), &raw mut event) != 0 {
            return None;
        }
        (functions.ack_async_event)(&raw mut event);
    }
    // A union of addresses and a number of 32 bits.
    let port = u8::try_from(event.element & u64::from(u32::MAX)).unwrap_or(0);
    Some((event.event_type, port))
}
