//! The calls that the transport makes now, and one thread with epoll in place of a thread for each connection.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::{Buffer, RawSlice, RecvBatch, SendBatch, Wait};

use crate::ring::Message;
use crate::shape::{AHEAD, Arena, Reply, SMALL_BYTES, Unsent};
use crate::usage::count_call;

/// How long a client spins at most.
const SPIN: Duration = Duration::from_micros(50);

/// How a client receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receive {
    /// What is there, straight to its place: as the transport does.
    AsItComes,
    /// The same, but the call waits until all of its places are filled (`MSG_WAITALL`).
    All,
    /// Small replies to one buffer, and then to their places.
    Gathered,
    /// As the transport does, but for a while it asks again and again before it sleeps.
    Spinning,
}

/// The client's half: each operation on the caller's thread.
pub(crate) struct Client {
    stream: TcpStream,
    arena: Arc<Arena>,
    receive: Receive,
    reply: Reply,
    window: Vec<RawSlice>,
    message: Message,
    gathered: Buffer,
}

impl Client {
    pub(crate) fn new(stream: TcpStream, arena: Arc<Arena>, receive: Receive) -> Client {
        Client {
            stream,
            arena,
            receive,
            reply: Reply::new(),
            window: Vec::new(),
            message: Message::new(),
            gathered: Buffer::zeroed(2 * SMALL_BYTES),
        }
    }

    pub(crate) fn operate(&mut self) -> io::Result<()> {
        let arena = Arc::clone(&self.arena);
        let mut asked = 0;
        for (index, frame) in arena.frames.iter().enumerate() {
            let from = asked;
            asked = arena.frames.len().min(index + AHEAD);
            self.ask(&arena, from..asked)?;
            self.reply.expect(&arena, frame, false);
            let is_gathered = self.receive == Receive::Gathered && frame.payload() <= SMALL_BYTES;
            while !self.reply.is_complete() {
                if is_gathered {
                    self.gather()?;
                } else {
                    self.reply.window(&mut self.window);
                    let count = self.recv()?;
                    self.reply.take_in(count);
                }
            }
        }
        Ok(())
    }

    fn recv(&mut self) -> io::Result<usize> {
        if self.receive == Receive::Spinning {
            let begin = Instant::now();
            while begin.elapsed() < SPIN {
                match recv(&self.stream, &self.window, Wait::Now) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return result,
                }
            }
        }
        if self.receive != Receive::All {
            return recv(&self.stream, &self.window, Wait::Block);
        }
        let message = self.message.replace(self.window.iter().copied());
        count_call();
        // SAFETY: the message names the pieces of the window, and stays until it is replaced.
        let count = unsafe { libc::recvmsg(self.stream.as_raw_fd(), message, libc::MSG_WAITALL) };
        match count {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count if count > 0 => Ok(count as usize),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Receives to one buffer, no more than the reply lacks, and copies.
    fn gather(&mut self) -> io::Result<()> {
        let place = self.gathered.raw().sub(0, self.reply.missing());
        let count = recv(&self.stream, &[place], Wait::Block)?;
        self.reply.copy_in(place.sub(0, count));
        Ok(())
    }

    fn ask(&self, arena: &Arena, frames: std::ops::Range<usize>) -> io::Result<()> {
        if frames.is_empty() {
            return Ok(());
        }
        let mut batch = SendBatch::new();
        for frame in &arena.frames[frames] {
            assert!(batch.push_bytes(&frame.request), "a few pieces fit");
        }
        count_call();
        let sent = batch.send(self.stream.as_fd(), Wait::Block, false)?;
        assert_eq!(sent, batch.len(), "requests are small");
        Ok(())
    }
}

fn recv(stream: &TcpStream, window: &[RawSlice], wait: Wait) -> io::Result<usize> {
    let mut batch = RecvBatch::new();
    for &piece in window {
        assert!(batch.push(piece), "a window fits");
    }
    count_call();
    batch.recv(stream.as_fd(), wait)
}

/// The server's half of one connection: requests in, replies out.
struct Service {
    stream: TcpStream,
    arena: Arc<Arena>,
    inbox: Vec<u8>,
    held: usize,
    next: usize,
    out: Vec<u8>,
    /// Where the reply stands that is being sent.
    unsent: Unsent,
    has_trailer_to_send: bool,
    /// Did the last receive leave nothing in the socket?
    is_drained: bool,
}

impl Service {
    fn new(stream: TcpStream, arena: Arc<Arena>) -> Service {
        Service {
            stream,
            arena,
            inbox: vec![0; 64 << 10],
            held: 0,
            next: 0,
            out: Vec::new(),
            unsent: Unsent::default(),
            has_trailer_to_send: false,
            is_drained: false,
        }
    }

    fn recv(&mut self, wait: Wait) -> io::Result<()> {
        if wait == Wait::Now && self.is_drained {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut batch = RecvBatch::new();
        assert!(batch.push_bytes(&mut self.inbox[self.held..]), "one piece fits");
        let room = batch.len();
        count_call();
        let count = batch.recv(self.stream.as_fd(), wait)?;
        self.is_drained = count < room;
        self.held += count;
        Ok(())
    }

    /// Takes the next request out of what is held, and begins its reply. False if it has not come as a whole.
    fn begin(&mut self) -> bool {
        let frame = &self.arena.frames[self.next];
        let len = frame.request.len();
        if self.held < len {
            return false;
        }
        self.inbox.copy_within(len..self.held, 0);
        self.held -= len;
        if frame.payload() <= SMALL_BYTES {
            self.out.clear();
            self.arena.body(frame).append_to(&mut self.out);
            self.arena.trailer(frame).append_to(&mut self.out);
            // SAFETY: `out` stays as it is until the reply has been sent.
            let out = unsafe { RawSlice::new(self.out.as_mut_ptr(), self.out.len()) };
            self.unsent.replace(std::iter::once(out));
        } else {
            self.unsent.replace(self.arena.pieces(frame));
            self.has_trailer_to_send = true;
        }
        true
    }

    /// Sends what is left of the reply.
    fn send(&mut self, wait: Wait) -> io::Result<()> {
        loop {
            while !self.unsent.is_empty() {
                let mut batch = SendBatch::new();
                for piece in self.unsent.window() {
                    assert!(batch.push(piece), "a window fits");
                }
                count_call();
                let sent = batch.send(self.stream.as_fd(), wait, self.has_trailer_to_send)?;
                self.unsent.pass(sent);
            }
            let frame = &self.arena.frames[self.next];
            if !std::mem::take(&mut self.has_trailer_to_send) {
                self.next = (self.next + 1) % self.arena.frames.len();
                return Ok(());
            }
            self.unsent.replace(std::iter::once(self.arena.trailer(frame)));
        }
    }

    fn serve(&mut self, wait: Wait) -> io::Result<()> {
        loop {
            self.send_begun(wait)?;
            while !self.begin() {
                self.recv(wait)?;
            }
            self.send(wait)?;
        }
    }

    /// Goes on with a reply that the socket took only a part of.
    fn send_begun(&mut self, wait: Wait) -> io::Result<()> {
        if self.unsent.is_empty() && !self.has_trailer_to_send {
            return Ok(());
        }
        self.send(wait)
    }
}

/// Serves each connection on a thread of its own until it is closed.
pub(crate) fn serve_by_threads(streams: Vec<TcpStream>, arena: &Arc<Arena>) {
    for stream in streams {
        let mut service = Service::new(stream, Arc::clone(arena));
        std::thread::spawn(move || service.serve(Wait::Block));
    }
}

/// Serves all connections on one thread until all are closed.
pub(crate) fn serve_by_epoll(streams: Vec<TcpStream>, arena: &Arc<Arena>) -> io::Result<()> {
    let mut services: Vec<Service> =
        streams.into_iter().map(|stream| Service::new(stream, Arc::clone(arena))).collect();
    // SAFETY: a new descriptor; no memory is involved.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if epoll < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
    for (index, service) in services.iter().enumerate() {
        // Edges: interest need not be changed between receiving and sending.
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events, u64: index as u64 };
        let (epoll, socket) = (epoll.as_raw_fd(), service.stream.as_raw_fd());
        // SAFETY: the event lives through the call.
        let result = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket, &raw mut event) };
        assert_eq!(result, 0, "a socket can be waited for");
    }
    std::thread::spawn(move || run_epoll(&epoll, &mut services));
    Ok(())
}

fn run_epoll(epoll: &OwnedFd, services: &mut [Service]) {
    let mut open = vec![true; services.len()];
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    while open.contains(&true) {
        count_call();
        // SAFETY: the list has room for as many events as the call is told.
        let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), 64, -1) };
        for event in &events[..count.max(0) as usize] {
            let index = event.u64 as usize;
            services[index].is_drained = false;
            let result = services[index].serve(Wait::Now);
            open[index] = result.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        }
    }
}
