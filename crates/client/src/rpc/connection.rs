use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooncake_memory::{Private, RecvBatch, Watch};
use mooncake_ops::CallError;
use mooncake_types::{Reply, Request};
use mooncake_wire::{HEADER_LEN, Header, Kind};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags};
use socket2::SockRef;

/// First size of the buffer that replies arrive in; a longer reply gets a buffer of its own.
const INBOX_BYTES: usize = 64 << 10;

/// Longest request buffer that is kept for the next request.
const KEPT_OUTBOX_BYTES: usize = 1 << 20;

/// See [`Connection::was_used_lately`].
const LATELY: Duration = Duration::from_millis(1);

/// One connection to the master, used by one thread at a time. After any error it is of no more use.
pub(crate) struct Connection {
    stream: Arc<Private<TcpStream>>,
    timeout: Duration,
    watch: Watch,
    /// When the last reply came.
    used: Instant,
    last_id: u64,
    outbox: Vec<u8>,
    inbox: Box<[u8]>,
    /// See [`Connection::look_around`].
    may_stay: Option<Box<dyn FnMut() -> bool + Send>>,
}

/// Why a call failed, and how far it had come.
#[derive(Debug)]
pub(crate) struct CallFailure {
    pub(crate) error: CallError,
    /// Not a byte left this process: the master cannot have acted.
    pub(crate) nothing_sent: bool,
    /// The connection turned out to be closed before a byte of the reply came.
    pub(crate) closed_before_reply: bool,
}

/// A frame that arrived.
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) body: Bytes,
}

impl Connection {
    /// Takes a connected stream over. Every call on it may take up to `timeout`; a reply is looked for up to
    /// `busy_poll` before it is slept for.
    pub(crate) fn new(
        stream: Private<TcpStream>,
        timeout: Duration,
        busy_poll: Duration,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_user_timeout(Some(timeout.max(Duration::from_secs(5))))?;
        socket.set_keepalive(true)?;
        let inbox = vec![0; INBOX_BYTES].into_boxed_slice();
        let watch = Watch::new(busy_poll);
        let used = Instant::now();
        let stream = Arc::new(stream);
        let (last_id, outbox, may_stay) = (0, Vec::new(), None);
        Ok(Self { stream, timeout, watch, used, last_id, outbox, inbox, may_stay })
    }

    /// Changes how long each call may take.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.timeout = timeout;
        self.stream.set_read_timeout(Some(timeout))?;
        self.stream.set_write_timeout(Some(timeout))
    }

    /// While a reply is late, asks again and again after this time whether to go on waiting for it.
    pub(crate) fn look_around(
        &mut self,
        every: Duration,
        may_stay: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<()> {
        self.may_stay = Some(Box::new(may_stay));
        self.stream.set_read_timeout(Some(every.min(self.timeout)))
    }

    /// This side's address.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// The other side's address.
    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// The socket, to shut it down from another thread.
    pub(crate) fn handle(&self) -> &Arc<Private<TcpStream>> {
        &self.stream
    }

    /// Whether the last reply came so lately that the connection is most likely open.
    pub(crate) fn was_used_lately(&self) -> bool {
        self.used.elapsed() < LATELY
    }

    /// Whether an idle connection is still open and silent, as far as this side knows.
    pub(crate) fn is_fresh(&self) -> bool {
        let peeked = net::recv(&*self.stream, &mut [0_u8], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        peeked == Err(Errno::AGAIN)
    }

    /// As [`Connection::call`], for `most` if that is less than each call may take.
    pub(crate) fn call_within(
        &mut self,
        request: &Request<'_>,
        most: Duration,
    ) -> Result<Reply, CallFailure> {
        let usual = self.timeout;
        if most >= usual {
            return self.call(request);
        }
        let unusable = |error: io::Error| CallFailure {
            error: CallError::Unreachable { reason: error.to_string() },
            nothing_sent: true,
            closed_before_reply: false,
        };
        // A socket does not take that there is no time at all.
        self.set_timeout(most.max(Duration::from_millis(1))).map_err(unusable)?;
        let reply = self.call(request)?;
        self.set_timeout(usual).map_err(unusable)?;
        Ok(reply)
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn call(&mut self, request: &Request<'_>) -> Result<Reply, CallFailure> {
        self.call_meanwhile(request, || ())
    }

    /// As [`Connection::call`]; does something else between the two. That is not done if the request could not be sent.
    pub(crate) fn call_meanwhile(
        &mut self,
        request: &Request<'_>,
        meanwhile: impl FnOnce(),
    ) -> Result<Reply, CallFailure> {
        let encode = |out: &mut Vec<u8>, id| mooncake_wire::encode_request(out, id, request);
        let started = self.begin(encode)?;
        meanwhile();
        let frame = self.finish(started)?;
        if frame.header.kind != Kind::Reply {
            let reason =
                format!("a frame of kind {:?} came in place of a reply", frame.header.kind);
            return Err(CallFailure::after_reply(CallError::Protocol { reason }));
        }
        mooncake_wire::decode_reply(frame.body).map_err(|error| {
            CallFailure::after_reply(CallError::Protocol { reason: error.to_string() })
        })
    }

    /// Sends the frame that `encode` appends and waits for the one that answers it.
    pub(crate) fn exchange(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<Frame, CallFailure> {
        let started = self.begin(encode)?;
        self.finish(started)
    }

    /// Sends the frame that `encode` appends. Gives the moment from which the time for its answer counts.
    fn begin(&mut self, encode: impl FnOnce(&mut Vec<u8>, u64)) -> Result<Instant, CallFailure> {
        let started = Instant::now();
        self.last_id += 1;
        self.outbox.clear();
        self.outbox.shrink_to(KEPT_OUTBOX_BYTES);
        encode(&mut self.outbox, self.last_id);
        self.send(started)?;
        Ok(started)
    }

    /// Waits for the frame that answers the one that was sent last.
    fn finish(&mut self, started: Instant) -> Result<Frame, CallFailure> {
        let frame = self.receive(started)?;
        self.used = Instant::now();
        if frame.header.request_id != self.last_id {
            let reason = format!(
                "the reply to request {} came in place of that to {}",
                frame.header.request_id, self.last_id
            );
            return Err(CallFailure::after_reply(CallError::Protocol { reason }));
        }
        Ok(frame)
    }

    fn send(&mut self, started: Instant) -> Result<(), CallFailure> {
        let mut sent = 0;
        while sent < self.outbox.len() {
            if sent > 0 {
                self.check_deadline(started)?;
            }
            match (&**self.stream).write(&self.outbox[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(CallFailure {
                        error: self.name(&error),
                        nothing_sent: sent == 0,
                        closed_before_reply: is_closed(&error),
                    });
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, started: Instant) -> Result<Frame, CallFailure> {
        let mut filled = 0;
        while filled < HEADER_LEN {
            filled += self.read_into_inbox(filled, started)?;
        }
        let header_bytes = self.inbox[..HEADER_LEN].try_into().expect("its length was checked");
        let header = Header::decode(&header_bytes).map_err(|error| {
            CallFailure::after_reply(CallError::Protocol { reason: error.to_string() })
        })?;
        let body_len = header.body_len as usize;
        let arrived = filled - HEADER_LEN;
        if arrived > body_len {
            let reason = "more bytes came than the reply has".to_owned();
            return Err(CallFailure::after_reply(CallError::Protocol { reason }));
        }
        if HEADER_LEN + body_len <= self.inbox.len() {
            while filled < HEADER_LEN + body_len {
                filled += self.read_into_inbox(filled, started)?;
            }
            let body = Bytes::copy_from_slice(&self.inbox[HEADER_LEN..HEADER_LEN + body_len]);
            return Ok(Frame { header, body });
        }
        let mut body = vec![0; body_len];
        body[..arrived].copy_from_slice(&self.inbox[HEADER_LEN..filled]);
        let mut at = arrived;
        while at < body_len {
            self.check_deadline(started)?;
            let read = recv(&mut self.watch, &self.stream, &mut body[at..]);
            if !self.goes_on_waiting(&read, started) {
                at += self.count(read, at)?;
            }
        }
        Ok(Frame { header, body: body.into() })
    }

    fn read_into_inbox(&mut self, filled: usize, started: Instant) -> Result<usize, CallFailure> {
        if filled > 0 {
            self.check_deadline(started)?;
        }
        loop {
            let read = recv(&mut self.watch, &self.stream, &mut self.inbox[filled..]);
            if !self.goes_on_waiting(&read, started) {
                return self.count(read, filled);
            }
        }
    }

    /// Whether nothing came for a while, and it is to be waited for all the same.
    fn goes_on_waiting(&mut self, read: &io::Result<usize>, started: Instant) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        let is_late = matches!(read, Err(error) if matches!(error.kind(), TimedOut | WouldBlock));
        let Some(may_stay) = self.may_stay.as_mut().filter(|_| is_late) else { return false };
        started.elapsed() < self.timeout && may_stay()
    }

    fn count(&self, read: io::Result<usize>, already: usize) -> Result<usize, CallFailure> {
        let failure = |error, closed| CallFailure {
            error,
            nothing_sent: false,
            closed_before_reply: closed && already == 0,
        };
        match read {
            Ok(count) => Ok(count),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let first = &self.inbox[..already.min(self.inbox.len())];
                let reason = mooncake_wire::foreign_protocol(first).map_or_else(
                    || "it closed the connection".to_owned(),
                    |protocol| {
                        format!("it speaks {protocol}; the port that serves the pool is another")
                    },
                );
                Err(failure(CallError::Unreachable { reason }, true))
            }
            Err(error) => Err(failure(self.name(&error), is_closed(&error))),
        }
    }

    /// A call may dribble in; each read has the whole timeout, but between them the deadline counts.
    fn check_deadline(&self, started: Instant) -> Result<(), CallFailure> {
        if started.elapsed() < self.timeout {
            return Ok(());
        }
        let error = CallError::TimedOut { after_ms: self.timeout.as_millis() as u64 };
        Err(CallFailure { error, nothing_sent: false, closed_before_reply: false })
    }

    fn name(&self, error: &io::Error) -> CallError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                CallError::TimedOut { after_ms: self.timeout.as_millis() as u64 }
            }
            _ => CallError::Unreachable { reason: error.to_string() },
        }
    }
}

fn recv(watch: &mut Watch, stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    let mut batch = RecvBatch::new();
    let pushed = batch.push_bytes(bytes);
    debug_assert!(pushed);
    let socket = stream.as_fd();
    watch.wait(|wait| batch.recv(socket, wait), |error| error.kind() == io::ErrorKind::WouldBlock)
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected)
}

impl CallFailure {
    fn after_reply(error: CallError) -> Self {
        Self { error, nothing_sent: false, closed_before_reply: false }
    }
}
