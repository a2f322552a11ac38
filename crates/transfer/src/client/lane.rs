use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_connection::{Fault, is_quiet};
use mooncake_memory::{Private, Wait, Watch};
use mooncake_wire::Welcome;

use super::inbound::Inbound;
use super::outbound::Outbound;
use super::silence_watch::SilenceWatch;

/// A lane that was used this recently is taken to be alive.
const FRESH: Duration = Duration::from_millis(1);

/// A lane unused for this long is closed: it costs both ends more than a new connection.
const UNWANTED: Duration = Duration::from_secs(60);

/// One connection to a peer, after the handshake, with its buffers. Used by one call at a time; after any error in
/// the middle of a frame it is dropped.
pub(crate) struct Lane<'m> {
    stream: Arc<Private<TcpStream>>,
    pub(super) endpoint: Arc<str>,
    /// What the peer said when it was greeted.
    pub(crate) welcome: Arc<Welcome>,
    pub(super) inbound: Inbound<'m>,
    pub(super) outbound: Outbound<'m>,
    watch: Watch,
    pub(super) pulse: SilenceWatch,
    last_number: u64,
    used: Instant,
}

impl<'m> Lane<'m> {
    pub(super) fn new(
        stream: Arc<Private<TcpStream>>,
        endpoint: Arc<str>,
        welcome: Welcome,
        busy_poll: Duration,
    ) -> Self {
        let (inbound, outbound) = (Inbound::default(), Outbound::default());
        let (watch, pulse, used) = (Watch::new(busy_poll), SilenceWatch::new(), Instant::now());
        let welcome = Arc::new(welcome);
        Self { stream, endpoint, welcome, inbound, outbound, watch, pulse, last_number: 0, used }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(super) fn send(&mut self, wait: Wait) -> Result<(), Fault> {
        self.outbound.send(self.stream.as_fd(), wait)
    }

    pub(super) fn recv(&mut self, wait: Wait) -> Result<(), Fault> {
        let socket = self.stream.as_fd();
        match wait {
            Wait::Now => self.inbound.recv(socket, wait),
            Wait::Block => {
                self.watch.wait(|wait| self.inbound.recv(socket, wait), Fault::is_not_ready)
            }
        }
    }

    /// The id of the next frame: it also names the call that this thread works on.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_number += 1;
        mooncake_calls::frame_id(self.last_number)
    }

    /// Notes the end of a use, before the lane becomes idle.
    pub(super) fn rest(self) -> Lane<'static> {
        let Lane {
            stream,
            endpoint,
            welcome,
            inbound,
            outbound,
            watch,
            mut pulse,
            last_number,
            ..
        } = self;
        pulse.beat();
        let (inbound, outbound) = (inbound.rest(), outbound.rest());
        let used = Instant::now();
        Lane { stream, endpoint, welcome, inbound, outbound, watch, pulse, last_number, used }
    }

    /// Whether it was used recently enough to keep it open.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) < UNWANTED
    }

    /// Whether the connection is open and has no unread byte, as it must be between frames. Not checked soon after a
    /// use.
    pub(super) fn is_alive(&self) -> bool {
        self.used.elapsed() < FRESH || is_quiet(self.socket())
    }
}
