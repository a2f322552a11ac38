use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use io_uring::{cqueue, opcode, squeue::Flags};
use mooncake_memory::RawSlice;

use crate::ring::{Message, Provided, Ring, Setup};
use crate::shape::{AHEAD, Arena, Reply};

/// What a completion is of.
const SEND: u64 = 0;
const RECV: u64 = 1;

/// `IORING_RECVSEND_POLL_FIRST`: nothing can be there yet, so wait before looking.
const POLL_FIRST: u16 = 1;

/// The client's half with a ring of the caller's thread: what is to be sent, the receive and the wait are one call.
pub(crate) struct Client {
    ring: Ring,
    setup: Setup,
    arena: Arc<Arena>,
    reply: Reply,
    window: Vec<RawSlice>,
    message: Message,
    /// The requests that are being sent. They are the same in every operation.
    requests: Vec<Vec<u8>>,
    provided: Option<Provided>,
    /// Is a receive under way that fills provided buffers?
    is_armed: bool,
    completed: Vec<cqueue::Entry>,
    /// A provided buffer whose last bytes belong to the next reply.
    held: Option<(u16, RawSlice)>,
    _streams: Vec<TcpStream>,
}

impl Client {
    pub(crate) fn new(stream: TcpStream, arena: Arc<Arena>, setup: Setup) -> io::Result<Client> {
        let streams = vec![stream];
        let ring = Ring::new(setup, &streams)?;
        if setup.fixed {
            ring.register_memory(arena.memory())?;
        }
        let frames = &arena.frames;
        let first: Vec<u8> =
            frames.iter().take(AHEAD).flat_map(|frame| frame.request.clone()).collect();
        let rest = frames.iter().skip(AHEAD).map(|frame| frame.request.clone());
        Ok(Client {
            provided: if setup.multishot { Some(Provided::new(&ring)?) } else { None },
            requests: std::iter::once(first).chain(rest).collect(),
            ring,
            setup,
            arena,
            reply: Reply::new(),
            window: Vec::new(),
            message: Message::new(),
            is_armed: false,
            completed: Vec::new(),
            held: None,
            _streams: streams,
        })
    }

    pub(crate) fn operate(&mut self) -> io::Result<()> {
        let arena = Arc::clone(&self.arena);
        for (index, frame) in arena.frames.iter().enumerate() {
            if let Some(request) = self.requests.get(index) {
                let (bytes, len) = (request.as_ptr(), request.len() as u32);
                let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
                let send = opcode::Send::new(self.ring.socket(0), bytes, len).flags(flags);
                self.ring.push(send.build().user_data(SEND), Flags::SKIP_SUCCESS);
            }
            self.reply.expect(&arena, frame, self.setup.fixed);
            if self.setup.multishot {
                self.recv_provided()?;
            } else {
                self.recv_in_place(index == 0)?;
            }
        }
        Ok(())
    }

    fn recv_in_place(&mut self, nothing_is_there: bool) -> io::Result<()> {
        let mut poll_first = if nothing_is_there { POLL_FIRST } else { 0 };
        while !self.reply.is_complete() {
            self.reply.window(&mut self.window);
            let socket = self.ring.socket(0);
            let entry = if self.setup.fixed {
                let piece = self.window[0];
                opcode::ReadFixed::new(socket, piece.as_ptr(), piece.len() as u32, 0).build()
            } else {
                let message = self.message.replace(self.window.iter().copied());
                let recv = opcode::RecvMsg::new(socket, message);
                recv.ioprio(poll_first).flags(libc::MSG_WAITALL as u32).build()
            };
            poll_first = 0;
            self.ring.push(entry.user_data(RECV), Flags::empty());
            let count = loop {
                self.ring.wait(&mut self.completed)?;
                // Of a send only a failure is told, and then the receive fails as well.
                if let Some(entry) = self.completed.iter().find(|it| it.user_data() == RECV) {
                    break moved(entry)?;
                }
            };
            self.reply.take_in(count);
        }
        Ok(())
    }

    fn recv_provided(&mut self) -> io::Result<()> {
        while !self.reply.is_complete() {
            let (id, bytes) = match self.held.take() {
                Some(held) => held,
                None => self.next_provided()?,
            };
            let taken = self.reply.copy_in(bytes);
            if taken < bytes.len() {
                self.held = Some((id, bytes.sub(taken, bytes.len() - taken)));
            } else {
                self.provided.as_mut().expect("made with the client").give_back(id);
            }
        }
        Ok(())
    }

    /// The next bytes, and the buffer that they lie in.
    fn next_provided(&mut self) -> io::Result<(u16, RawSlice)> {
        loop {
            if let Some(entry) = self.completed.pop() {
                self.is_armed = cqueue::more(entry.flags());
                // All buffers were full: those that were given back meanwhile are filled by the next receive.
                if entry.result() == -libc::ENOBUFS {
                    continue;
                }
                let count = moved(&entry)?;
                let id = cqueue::buffer_select(entry.flags()).expect("bytes lie in a buffer");
                let provided = self.provided.as_ref().expect("made with the client");
                return Ok((id, provided.buffer(id, count)));
            }
            if !self.is_armed {
                let recv = opcode::RecvMulti::new(self.ring.socket(0), 0).build();
                self.ring.push(recv.user_data(RECV), Flags::empty());
                self.is_armed = true;
            }
            self.ring.wait(&mut self.completed)?;
            self.completed.reverse();
        }
    }
}

/// How many bytes an entry moved: at least one.
pub(crate) fn moved(entry: &cqueue::Entry) -> io::Result<usize> {
    match entry.result() {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count if count > 0 => Ok(count as usize),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
