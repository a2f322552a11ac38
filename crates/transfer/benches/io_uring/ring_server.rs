use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use io_uring::{cqueue, opcode, squeue::Flags};
use mooncake_memory::RawSlice;

use crate::ring::{Message, Ring, Setup};
use crate::ring_client::moved;
use crate::shape::{Arena, SMALL_BYTES};

/// What a completion is of.
const RECV: u64 = 0;
const BODY: u64 = 1;
const LAST: u64 = 2;

const SEND_FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;

/// `IORING_SEND_ZC_REPORT_USAGE` and its answer, `IORING_NOTIF_USAGE_ZC_COPIED`.
const REPORT_USAGE: u16 = 1 << 3;
const WAS_COPIED: i32 = i32::MIN;

/// Sends without a copy that the kernel ended, and those of them that it copied after all.
pub(crate) static ZERO_COPY_ENDED: AtomicU64 = AtomicU64::new(0);
pub(crate) static ZERO_COPY_COPIED: AtomicU64 = AtomicU64::new(0);

/// One connection.
struct Service {
    stream: TcpStream,
    inbox: Vec<u8>,
    out: Vec<u8>,
    next: usize,
    message: Message,
    /// Head and payload that are not sent yet, where one entry may send only a part.
    left: RawSlice,
}

/// The server's half: one thread and one ring for all connections.
struct Server {
    ring: Ring,
    setup: Setup,
    arena: Arc<Arena>,
    services: Vec<Service>,
    open: usize,
}

/// Serves all connections on one thread until all are closed.
pub(crate) fn serve(streams: Vec<TcpStream>, arena: &Arc<Arena>, setup: Setup) -> io::Result<()> {
    let arena = Arc::clone(arena);
    let (started, start) = mpsc::channel();
    std::thread::spawn(move || match Server::new(streams, arena, setup) {
        Ok(mut server) => {
            started.send(Ok(())).expect("waited for");
            // A failure closes the connections, and so the clients find out.
            let _ = server.run();
        }
        Err(error) => started.send(Err(error)).expect("waited for"),
    });
    start.recv().expect("no panic")
}

impl Server {
    fn new(streams: Vec<TcpStream>, arena: Arc<Arena>, setup: Setup) -> io::Result<Server> {
        let ring = Ring::new(setup, &streams)?;
        if setup.fixed {
            ring.register_memory(arena.memory())?;
        }
        let longest = arena.frames.iter().map(|frame| frame.request.len()).max().unwrap_or(0);
        let service = |stream| Service {
            stream,
            inbox: vec![0; longest],
            out: Vec::new(),
            next: 0,
            message: Message::new(),
            left: RawSlice::EMPTY,
        };
        let services: Vec<Service> = streams.into_iter().map(service).collect();
        let open = services.len();
        Ok(Server { ring, setup, arena, services, open })
    }

    fn run(&mut self) -> io::Result<()> {
        for index in 0..self.services.len() {
            self.push_recv(index);
        }
        let mut completed = Vec::new();
        while self.open > 0 {
            self.ring.wait(&mut completed)?;
            for entry in &completed {
                let index = (entry.user_data() >> 2) as usize;
                match entry.user_data() & 3 {
                    _ if cqueue::notif(entry.flags()) => note_end(entry),
                    RECV if entry.result() <= 0 => self.close(index),
                    RECV => self.reply(index),
                    BODY => self.pass_body(index, moved(entry)?),
                    // Only failures are told of, and a connection that broke is found out by its receive.
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn close(&mut self, index: usize) {
        self.open -= 1;
        // Its client has gone: nothing is under way any more.
        let _ = self.services[index].stream.shutdown(std::net::Shutdown::Both);
    }

    fn push_recv(&mut self, index: usize) {
        let service = &mut self.services[index];
        let len = self.arena.frames[service.next].request.len();
        let inbox = service.inbox.as_mut_ptr();
        let recv = opcode::Recv::new(self.ring.socket(index), inbox, len as u32);
        let recv = recv.flags(libc::MSG_WAITALL).build();
        self.ring.push(recv.user_data((index as u64) << 2 | RECV), Flags::empty());
    }

    fn reply(&mut self, index: usize) {
        let arena = Arc::clone(&self.arena);
        let service = &mut self.services[index];
        let frame = &arena.frames[service.next];
        if frame.payload() > SMALL_BYTES {
            service.left = arena.body(frame);
            self.push_body(index);
            return;
        }
        service.out.clear();
        arena.body(frame).append_to(&mut service.out);
        arena.trailer(frame).append_to(&mut service.out);
        // SAFETY: `out` stays as it is until the next request has come, which the client sends after this reply, or, if
        // it asks ahead, is received behind this send.
        let out = unsafe { RawSlice::new(service.out.as_mut_ptr(), service.out.len()) };
        self.push_last(index, out);
    }

    fn push_body(&mut self, index: usize) {
        let service = &mut self.services[index];
        let (socket, user_data) = (self.ring.socket(index), (index as u64) << 2 | BODY);
        let entry = if self.setup.fixed {
            let (bytes, len) = (service.left.as_ptr(), service.left.len() as u32);
            opcode::WriteFixed::new(socket, bytes, len, 0).build()
        } else {
            let frame = &self.arena.frames[service.next];
            let message = service.message.replace(self.arena.pieces(frame));
            if self.setup.zero_copy {
                let send = opcode::SendMsgZc::new(socket, message).ioprio(REPORT_USAGE);
                send.flags(SEND_FLAGS as u32).build()
            } else {
                let flags = (SEND_FLAGS | libc::MSG_MORE) as u32;
                opcode::SendMsg::new(socket, message).flags(flags).build()
            }
        };
        self.ring.push(entry.user_data(user_data), Flags::empty());
    }

    /// The transport looks up, when the bytes have been copied, whether the node still held them, and tells in the
    /// trailer: it cannot be queued with the body.
    fn pass_body(&mut self, index: usize, count: usize) {
        let service = &mut self.services[index];
        service.left = service.left.sub(count, service.left.len() - count);
        if !service.left.is_empty() {
            self.push_body(index);
            return;
        }
        let arena = Arc::clone(&self.arena);
        let trailer = arena.trailer(&arena.frames[service.next]);
        self.push_last(index, trailer);
    }

    /// Sends the end of a reply, and waits for the next request behind it.
    fn push_last(&mut self, index: usize, bytes: RawSlice) {
        let (socket, len) = (self.ring.socket(index), bytes.len() as u32);
        let send = opcode::Send::new(socket, bytes.as_ptr(), len).flags(SEND_FLAGS).build();
        let user_data = (index as u64) << 2 | LAST;
        self.ring.push(send.user_data(user_data), Flags::SKIP_SUCCESS | Flags::IO_LINK);
        let service = &mut self.services[index];
        service.next = (service.next + 1) % self.arena.frames.len();
        self.push_recv(index);
    }
}

fn note_end(entry: &cqueue::Entry) {
    ZERO_COPY_ENDED.fetch_add(1, Ordering::Relaxed);
    let was_copied = entry.result() & WAS_COPIED != 0;
    ZERO_COPY_COPIED.fetch_add(u64::from(was_copied), Ordering::Relaxed);
}
