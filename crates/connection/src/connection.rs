use std::fmt;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::{Private, Watch, recv_with_descriptors, send_with_descriptors};
use mooncake_wire::{HEADER_LEN, Header, Kind, decode_refusal, foreign_protocol};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::{Body, CallFault, CallProgress, Fault, Frame};

/// Size of the receive buffer. The body of a longer frame gets its own buffer.
const INBOX_BYTES: usize = 64 << 10;

/// Most bytes of the send buffer that stay allocated for the next frame.
const KEPT_OUTBOX_BYTES: usize = 1 << 20;

/// See [`Connection::was_used_lately`].
const LATELY: Duration = Duration::from_millis(1);

/// One connection, used by one thread at a time. After any error, drop it.
pub struct Connection {
    stream: Arc<Private<TcpStream>>,
    timeout: Duration,
    watch: Watch,
    /// When the last frame arrived.
    used: Instant,
    last_id: u64,
    outbox: Vec<u8>,
    inbox: Box<[u8]>,
    /// The file descriptors that came with the last frame.
    descriptors: Vec<OwnedFd>,
    /// See [`Connection::set_wait_check`].
    keep_waiting: Option<Box<dyn FnMut() -> bool + Send>>,
}

/// Where the body of a frame lies.
enum BodyPlace {
    Inbox { len: usize },
    Own(Vec<u8>),
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
        let mut connection = Self {
            stream: Arc::new(stream),
            timeout,
            watch: Watch::new(busy_poll),
            used: Instant::now(),
            last_id: 0,
            outbox: Vec::new(),
            inbox: vec![0; INBOX_BYTES].into_boxed_slice(),
            descriptors: Vec::new(),
            keep_waiting: None,
        };
        connection.set_timeout(timeout)?;
        Ok(connection)
    }

    /// How long each call may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Changes how long each call may take.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.timeout = timeout;
        self.stream.set_read_timeout(Some(timeout))?;
        self.stream.set_write_timeout(Some(timeout))
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
        self.keep_waiting = Some(Box::new(keep_waiting));
        self.stream.set_read_timeout(Some(every.min(self.timeout)))
    }

    /// The socket.
    #[must_use]
    pub fn stream(&self) -> &Arc<Private<TcpStream>> {
        &self.stream
    }

    /// Gives up the connection, between two frames, and returns its socket to a caller that reads and writes it
    /// itself.
    #[must_use]
    pub fn into_stream(self) -> Arc<Private<TcpStream>> {
        self.stream
    }

    /// Whether the last frame arrived within the last millisecond, so that the connection is most likely open.
    #[must_use]
    pub fn was_used_lately(&self) -> bool {
        self.used.elapsed() < LATELY
    }

    /// Whether the connection is open, as far as the kernel knows, and no byte arrived since the last frame.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        is_quiet(self.stream.as_fd())
    }

    /// Takes the file descriptors that came with the last frame.
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
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
        self.last_id += 1;
        let id = self.last_id;
        self.send_from(started, descriptor, |out| encode(out, id))?;
        meanwhile();
        let (header, place) = self.receive_from(started, &[awaited, Kind::Refusal], Some(id))?;
        let body = self.body(place);
        if header.kind == Kind::Refusal {
            return Err(decode_refusal(&body).map_or_else(Fault::from, Fault::Refused).into());
        }
        Ok(body)
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
    /// The fault that broke the connection, with [`CallProgress::Closed`] if the peer closed it before the frame's first
    /// byte.
    pub fn receive(&mut self, admitted: &[Kind]) -> Result<Frame<'_>, CallFault> {
        let (header, place) = self.receive_from(Instant::now(), admitted, None)?;
        Ok(Frame { header, body: self.body(place) })
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
        if descriptor.is_some() {
            let socket = self.stream.as_fd();
            let sent = send_with_descriptors(socket, &self.outbox, descriptor.as_slice());
            return Ok(sent.map_err(Fault::of_blocking)?);
        }
        let mut sent = 0;
        while sent < self.outbox.len() {
            if sent > 0 {
                self.check_deadline(started)?;
            }
            match (&**self.stream).write(&self.outbox[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let progress = match sent {
                        0 => CallProgress::NothingSent,
                        _ => progress_of(&error),
                    };
                    return Err(CallFault { fault: Fault::of_blocking(error), progress });
                }
            }
        }
        Ok(())
    }

    /// Waits for a frame. If `id` is given, the frame must bear this request id, unless it is a refusal.
    fn receive_from(
        &mut self,
        started: Instant,
        admitted: &[Kind],
        id: Option<u64>,
    ) -> Result<(Header, BodyPlace), CallFault> {
        self.descriptors.clear();
        let mut filled = 0;
        while filled < HEADER_LEN {
            filled += self.read_into_inbox(filled, started)?;
        }
        let bytes = self.inbox[..HEADER_LEN].try_into().expect("its length was checked");
        let header = Header::decode(&bytes).map_err(Fault::from)?;
        check_answer(&header, admitted, id)?;
        let (body_len, arrived) = (header.body_len as usize, filled - HEADER_LEN);
        if arrived > body_len {
            return Err(protocol("more bytes came than the frame has".to_owned()));
        }
        let place = match HEADER_LEN + body_len <= self.inbox.len() {
            true => {
                while filled < HEADER_LEN + body_len {
                    filled += self.read_into_inbox(filled, started)?;
                }
                BodyPlace::Inbox { len: body_len }
            }
            false => {
                let mut body = vec![0; body_len];
                body[..arrived].copy_from_slice(&self.inbox[HEADER_LEN..filled]);
                self.read_rest(&mut body, arrived, started)?;
                BodyPlace::Own(body)
            }
        };
        self.used = Instant::now();
        Ok((header, place))
    }

    fn body(&self, place: BodyPlace) -> Body<'_> {
        match place {
            BodyPlace::Inbox { len } => Body::Short(&self.inbox[HEADER_LEN..HEADER_LEN + len]),
            BodyPlace::Own(body) => Body::Long(body),
        }
    }

    fn read_into_inbox(&mut self, filled: usize, started: Instant) -> Result<usize, CallFault> {
        if filled > 0 {
            self.check_deadline(started)?;
        }
        loop {
            let (room, descriptors) = (&mut self.inbox[filled..], &mut self.descriptors);
            let read = recv(&mut self.watch, &self.stream, room, descriptors);
            if !self.goes_on_waiting(&read, started) {
                return self.count(read, filled);
            }
        }
    }

    fn read_rest(
        &mut self,
        body: &mut [u8],
        mut filled: usize,
        started: Instant,
    ) -> Result<(), CallFault> {
        while filled < body.len() {
            self.check_deadline(started)?;
            let (room, descriptors) = (&mut body[filled..], &mut self.descriptors);
            let read = recv(&mut self.watch, &self.stream, room, descriptors);
            if !self.goes_on_waiting(&read, started) {
                filled += self.count(read, HEADER_LEN + filled)?;
            }
        }
        Ok(())
    }

    /// Whether to repeat a read that timed out without a byte.
    fn goes_on_waiting(&mut self, read: &io::Result<usize>, started: Instant) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        let is_late = matches!(read, Err(error) if matches!(error.kind(), TimedOut | WouldBlock));
        let left = self.timeout.saturating_sub(started.elapsed());
        if !is_late || left.is_zero() {
            return false;
        }
        match &mut self.keep_waiting {
            Some(keep_waiting) => keep_waiting(),
            // Under load the kernel may end a wait too early, since it counts ticks: wait again for the time left.
            None => self.stream.set_read_timeout(Some(left)).is_ok(),
        }
    }

    /// The byte count of a read that followed `already` bytes of the same frame, or why it failed.
    fn count(&self, read: io::Result<usize>, already: usize) -> Result<usize, CallFault> {
        let error = match read {
            Ok(0) => {
                let first = &self.inbox[..already.min(self.inbox.len())];
                let kind = io::ErrorKind::UnexpectedEof;
                foreign_protocol(first).map_or_else(
                    || kind.into(),
                    |protocol| {
                        let hint = "the port that serves the pool is another";
                        io::Error::new(kind, format!("it speaks {protocol}; {hint}"))
                    },
                )
            }
            Ok(count) => return Ok(count),
            Err(error) => error,
        };
        let progress = if already == 0 { progress_of(&error) } else { CallProgress::Unknown };
        Err(CallFault { fault: Fault::of_blocking(error), progress })
    }

    /// Bounds a frame that arrives in small pieces: the socket's timeout bounds each read, and this check all of them
    /// together.
    fn check_deadline(&self, started: Instant) -> Result<(), Fault> {
        if started.elapsed() < self.timeout { Ok(()) } else { Err(Fault::TimedOut) }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("stream", &self.stream).finish_non_exhaustive()
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

fn recv(
    watch: &mut Watch,
    stream: &TcpStream,
    bytes: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let step = |wait| recv_with_descriptors(stream.as_fd(), bytes, descriptors, wait);
    watch.wait(step, |error| error.kind() == io::ErrorKind::WouldBlock)
}

fn check_answer(header: &Header, admitted: &[Kind], id: Option<u64>) -> Result<(), CallFault> {
    let &Header { kind, request_id, .. } = header;
    if !admitted.contains(&kind) {
        let awaited = admitted.first();
        let awaited = awaited.map_or_else(String::new, |kind| format!(" in place of {kind:?}"));
        return Err(protocol(format!("a frame of kind {kind:?} came{awaited}")));
    }
    match id.filter(|&id| kind != Kind::Refusal && request_id != id) {
        None => Ok(()),
        Some(id) => {
            let reason = format!("the reply to request {request_id} came in place of that to {id}");
            Err(protocol(reason))
        }
    }
}

fn protocol(reason: String) -> CallFault {
    Fault::Protocol(reason).into()
}

/// How far a call had come that failed with `error` before the first byte of its reply.
fn progress_of(error: &io::Error) -> CallProgress {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof,
    };
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof => {
            CallProgress::Closed
        }
        _ => CallProgress::Unknown,
    }
}
