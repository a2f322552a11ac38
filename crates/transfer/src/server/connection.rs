use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooncake_memory::Private;

use crate::Interrupt;

/// Stack of a thread that serves one connection; its buffers are on the heap.
pub(super) const STACK_BYTES: usize = 256 << 10;

/// A peer that stops in the middle of a frame, or stops taking a reply, is given up after this long.
pub(super) const STALL: Duration = Duration::from_secs(30);

/// Which way a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Tcp,
    /// By the local socket, from a process of this user.
    Local,
}

/// One client's connection.
pub(super) struct PeerConnection {
    stream: Private<TcpStream>,
    origin: Origin,
    interrupted: AtomicBool,
    /// The peer has to close its side itself: until then it views memory that must not change.
    is_kept_open: Mutex<bool>,
    /// The server cut the peer off, since it did not close in time.
    is_severed: AtomicBool,
}

impl PeerConnection {
    pub(super) fn new(stream: Private<TcpStream>, origin: Origin) -> Self {
        let (interrupted, is_severed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { stream, origin, interrupted, is_kept_open: Mutex::new(false), is_severed }
    }

    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// From now on, an interrupt asks the peer to end the connection and does not cut it off.
    pub(super) fn keep_open(&self) {
        *self.kept_open() = true;
    }

    pub(super) fn is_kept_open(&self) -> bool {
        *self.kept_open()
    }

    fn kept_open(&self) -> MutexGuard<'_, bool> {
        self.is_kept_open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts off a peer that did not end its connection when asked to.
    pub(super) fn sever(&self) {
        self.is_severed.store(true, Ordering::SeqCst);
        // Fails only if the connection has ended already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    pub(super) fn is_severed(&self) -> bool {
        self.is_severed.load(Ordering::SeqCst)
    }
}

impl Interrupt for PeerConnection {
    fn interrupt(&self) {
        // The flag comes first: bytes that the kernel holds already can still be received after the shutdown.
        self.interrupted.store(true, Ordering::Release);
        // Locked until the shutdown is done: a connection that is kept open is never cut off.
        let is_kept_open = self.kept_open();
        let side = if *is_kept_open { Shutdown::Write } else { Shutdown::Both };
        // Fails only if the connection has ended already.
        let _ = self.stream.shutdown(side);
    }
}
