use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooncake_memory::Private;
use mooncake_wire::{Header, Kind, foreign_protocol};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::codec::{Awaited, BadFrame, refused};
use crate::dial::Ends;
use crate::timed_stream::TimedStream;
use crate::{Body, CallFault, Fault, Frame, Inbox};

/// Most bytes of the send buffer that stay allocated for the next frame.
const KEPT_OUTBOX_BYTES: usize = 1 << 20;

/// See [`Connection::was_used_lately`].
const LATELY: Duration = Duration::from_millis(1);

/// One connection, used by one thread at a time. After any error, drop it.
#[derive(Debug)]
pub struct Connection {
    timed: TimedStream,
    /// Where the socket to the peer begins and ends, if it is one of TCP. With TLS it is not the socket that is read.
    ends: Option<Ends>,
    /// When the last frame arrived.
    used: Instant,
    last_number: u64,
    outbox: Vec<u8>,
    inbox: Inbox,
}

impl Connection {
    /// Wraps a connected stream. Each call may take up to `timeout`: it polls for its reply during `busy_poll`, then
    /// blocks.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn new(
        stream: Private<TcpStream>,
        timeout: Duration,
        busy_poll: Duration,
    ) -> io::Result<Self> {
        let timed = TimedStream::new(stream, timeout, busy_poll)?;
        let (outbox, inbox) = (Vec::new(), Inbox::default());
        Ok(Self { timed, ends: None, used: Instant::now(), last_number: 0, outbox, inbox })
    }

    /// Notes the addresses of its ends.
    pub(crate) fn between(self, ends: Option<Ends>) -> Self {
        Self { ends, ..self }
    }

    /// This side's address, if the connection goes by TCP.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.ends.map(|ends| ends.local)
    }

    /// The peer's address, if the connection goes by TCP.
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.ends.map(|ends| ends.peer)
    }

    /// How long each call may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timed.timeout
    }

    /// Changes how long each call may take.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.timed.set_timeout(timeout)
    }

    /// Calls `keep_waiting` after each interval `every` in which no reply arrives. The wait ends once it returns
    /// false.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn set_wait_check(
        &mut self,
        every: Duration,
        keep_waiting: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<()> {
        self.timed.set_wait_check(every, Box::new(keep_waiting))
    }

    /// The socket.
    #[must_use]
    pub fn stream(&self) -> &Arc<Private<TcpStream>> {
        &self.timed.stream
    }

    /// Gives up the connection, between two frames, and returns its socket to a caller that reads and writes it
    /// itself.
    #[must_use]
    pub fn into_stream(self) -> Arc<Private<TcpStream>> {
        self.timed.stream
    }

    /// Whether the last frame arrived within the last millisecond, so that the connection is most likely open.
    #[must_use]
    pub fn was_used_lately(&self) -> bool {
        self.used.elapsed() < LATELY
    }

    /// Whether the connection is open, as far as the kernel knows, and no byte arrived since the last frame.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        is_quiet(self.timed.stream.as_fd())
    }

    /// Takes the file descriptors that came with the last frame.
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.timed.descriptors)
    }

    /// Sends the frame that `encode` appends for the request id it is given. Waits for the reply of kind `awaited`.
    ///
    /// # Errors
    /// [`Fault::Refused`] if the peer replies with a refusal; otherwise the fault that broke the connection.
    pub fn call(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>, u64),
        awaited: Kind,
    ) -> Result<Body<'_>, CallFault> {
        self.call_meanwhile(None, encode, awaited, || ())
    }

    /// Like [`Connection::call`]. The frame carries `descriptor`, and `meanwhile` runs between sending and waiting,
    /// unless sending failed.
    ///
    /// # Errors
    /// Those of [`Connection::call`].
    pub fn call_meanwhile(
        &mut self,
        descriptor: Option<BorrowedFd<'_>>,
        encode: impl FnOnce(&mut Vec<u8>, u64),
        awaited: Kind,
        meanwhile: impl FnOnce(),
    ) -> Result<Body<'_>, CallFault> {
        let started = Instant::now();
        let id = self.next_id();
        self.send_from(started, descriptor, |out| encode(out, id))?;
        meanwhile();
        let header = self.receive_answer(started, id, &[awaited, Kind::Refusal])?;
        Ok(self.body(&header))
    }

    /// Like [`Connection::call`], for a reply of any of these kinds.
    pub(crate) fn ask(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>, u64),
        awaited: &[Kind],
    ) -> Result<(Kind, Bytes), CallFault> {
        let started = Instant::now();
        let id = self.next_id();
        self.send_from(started, None, |out| encode(out, id))?;
        let header = self.receive_answer(started, id, &[awaited, &[Kind::Refusal]].concat())?;
        Ok((header.kind, self.body(&header).into_bytes()))
    }

    /// The id of the next request: it also names the call that this thread works on.
    fn next_id(&mut self) -> u64 {
        self.last_number += 1;
        mooncake_calls::frame_id(self.last_number)
    }

    /// Waits for the answer to a request.
    fn receive_answer(
        &mut self,
        started: Instant,
        id: u64,
        kinds: &[Kind],
    ) -> Result<Header, CallFault> {
        let awaited = Awaited { request_id: Some(id), ..Awaited::any_of(kinds) };
        let header = self.receive_only(started, &awaited)?;
        match header.kind {
            Kind::Refusal => Err(refused(&self.body(&header)).into()),
            _ => Ok(header),
        }
    }

    /// Sends the frame that `encode` appends and awaits no reply.
    ///
    /// # Errors
    /// The fault that broke the connection.
    pub fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), CallFault> {
        self.send_from(Instant::now(), None, encode)
    }

    /// Waits for a frame of one of these kinds.
    ///
    /// # Errors
    /// The fault that broke the connection, with [`crate::CallProgress::Closed`] if the peer closed it before the
    /// frame's first byte.
    pub fn receive(&mut self, admitted: &[Kind]) -> Result<Frame<'_>, CallFault> {
        let header = self.receive_only(Instant::now(), &Awaited::any_of(admitted))?;
        Ok(Frame { header, body: self.body(&header) })
    }

    /// Waits for frames of these kinds until the peer closes the connection, all within the time of one call.
    ///
    /// # Errors
    /// The fault that broke the connection before.
    pub fn receive_all(&mut self, admitted: &[Kind]) -> Result<(), CallFault> {
        let (started, awaited) = (Instant::now(), Awaited::any_of(admitted));
        loop {
            match self.receive_from(started, &awaited) {
                Ok(header) => self.inbox.take(header.frame_len()),
                Err(CallFault { fault, .. }) if is_end(&fault) && self.inbox.is_empty() => {
                    return Ok(());
                }
                Err(fault) => return Err(fault),
            };
            self.timed.check_deadline(started)?;
        }
    }

    fn send_from(
        &mut self,
        started: Instant,
        descriptor: Option<BorrowedFd<'_>>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CallFault> {
        self.outbox.clear();
        self.outbox.shrink_to(KEPT_OUTBOX_BYTES);
        encode(&mut self.outbox);
        if let Some(parent) = mooncake_calls::trace() {
            mooncake_wire::append_trace(&mut self.outbox, 0, parent);
        }
        self.timed.send(&self.outbox, descriptor, started)
    }

    /// Waits for a frame behind which nothing comes: the peer has to wait for this side now.
    fn receive_only(
        &mut self,
        started: Instant,
        awaited: &Awaited<'_>,
    ) -> Result<Header, CallFault> {
        self.timed.descriptors.clear();
        let header = self.receive_from(started, awaited)?;
        if self.inbox.len() > header.frame_len() {
            return Err(Fault::from(BadFrame::Trailing).into());
        }
        self.inbox.take(header.frame_len());
        self.used = Instant::now();
        Ok(header)
    }

    /// Waits until the inbox holds a frame.
    fn receive_from(
        &mut self,
        started: Instant,
        awaited: &Awaited<'_>,
    ) -> Result<Header, CallFault> {
        let (inbox, timed) = (&mut self.inbox, &mut self.timed);
        let mut is_first = inbox.is_empty();
        let receive = |room: &mut [u8]| {
            let count = timed.recv(room, started, is_first)?;
            is_first = false;
            Ok(count)
        };
        match inbox.fill_frame(awaited, receive) {
            Ok(received) => received.map_err(CallFault::from),
            Err(fault) => Err(with_hint(fault, self.inbox.held())),
        }
    }

    /// The body of the frame with this header, which was taken last.
    fn body(&mut self, header: &Header) -> Body<'_> {
        Body { inbox: &mut self.inbox, len: header.body_len as usize }
    }
}

/// Whether the connection is open, as far as the kernel knows, and has no unread byte. Between frames it must have
/// none.
#[must_use]
pub fn is_quiet(socket: BorrowedFd<'_>) -> bool {
    let peeked = rustix::net::recv(socket, &mut [0_u8], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    // A byte, an end and an error are all unexpected here.
    peeked == Err(Errno::AGAIN)
}

/// The fault, with the protocol of a peer that closed the connection, if its first bytes show another.
fn with_hint(fault: CallFault, first: &[u8]) -> CallFault {
    let is_end = is_end(&fault.fault);
    let Some(protocol) = foreign_protocol(first).filter(|_| is_end) else { return fault };
    let hint = format!("it speaks {protocol}; the port that serves the pool is another");
    let end = io::Error::new(io::ErrorKind::UnexpectedEof, hint);
    CallFault { fault: Fault::Io(end), ..fault }
}

fn is_end(fault: &Fault) -> bool {
    matches!(fault, Fault::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof)
}
