//! One io_uring, and how it is set up.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue, squeue, types};
use mooncake_memory::{RawSlice, Region};

use crate::usage::count_call;

/// Which of its features are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Only the thread that waits does the ring's work (`SINGLE_ISSUER`, `DEFER_TASKRUN`).
    pub(crate) deferred: bool,
    /// A thread of the kernel takes the submissions.
    pub(crate) sqpoll: bool,
    /// Sockets and memory are registered; reads and writes name the memory by number.
    pub(crate) fixed: bool,
    /// The client receives to buffers of the ring, and copies.
    pub(crate) multishot: bool,
    /// The server sends without a copy where the card can.
    pub(crate) zero_copy: bool,
}

/// How long the kernel's thread looks for submissions before it sleeps.
const SQPOLL_IDLE_MS: u32 = 1;

/// A ring for some sockets.
pub(crate) struct Ring {
    ring: IoUring,
    setup: Setup,
    sockets: Vec<i32>,
}

impl Ring {
    /// Must be made by the thread that uses it.
    pub(crate) fn new(setup: Setup, streams: &[TcpStream]) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        if setup.deferred {
            builder.setup_single_issuer().setup_defer_taskrun();
        } else if setup.sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE_MS);
        } else {
            builder.setup_coop_taskrun();
        }
        let ring = builder.build(256)?;
        let mut sockets: Vec<i32> = streams.iter().map(AsRawFd::as_raw_fd).collect();
        if setup.fixed {
            ring.submitter().register_files(&sockets)?;
            sockets = (0..sockets.len() as i32).collect();
        }
        Ok(Ring { ring, setup, sockets })
    }

    /// Registers `memory` as buffer 0. It must outlive the ring.
    pub(crate) fn register_memory(&self, memory: RawSlice) -> io::Result<()> {
        let all = libc::iovec { iov_base: memory.as_ptr().cast(), iov_len: memory.len() };
        // SAFETY: the caller keeps the memory for as long as the ring is there.
        unsafe { self.ring.submitter().register_buffers(&[all]) }
    }

    /// The socket at a position, for an entry.
    pub(crate) fn socket(&self, index: usize) -> types::Fd {
        types::Fd(self.sockets[index])
    }

    /// Queues an entry. What it points to must stay until it is completed.
    pub(crate) fn push(&mut self, entry: squeue::Entry, flags: squeue::Flags) {
        let fixed =
            if self.setup.fixed { squeue::Flags::FIXED_FILE } else { squeue::Flags::empty() };
        let entry = entry.flags(flags | fixed);
        loop {
            // SAFETY: the users of this bench's rings keep what entries point to (see their fields).
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            count_call();
            self.ring.submit().expect("a queue can be submitted");
        }
    }

    /// Submits what is queued and waits for a completion, by one system call, or by none if there is one already and
    /// nothing to be submitted.
    pub(crate) fn wait(&mut self, out: &mut Vec<cqueue::Entry>) -> io::Result<()> {
        out.clear();
        loop {
            let is_submitted = self.setup.sqpoll || self.ring.submission().is_empty();
            if !is_submitted || self.ring.completion().is_empty() {
                count_call();
                match self.ring.submit_and_wait(1) {
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                    _ => {}
                }
            } else if self.setup.sqpoll && self.ring.submission().need_wakeup() {
                count_call();
                self.ring.submit()?;
            }
            out.extend(self.ring.completion());
            if !out.is_empty() {
                return Ok(());
            }
        }
    }
}

/// How long a thread's first call would wait for its ring: the median of many.
pub(crate) fn time_to_make() -> io::Result<Duration> {
    let setup = Setup { deferred: true, ..Setup::default() };
    let make = |_| {
        let begin = Instant::now();
        let ring = Ring::new(setup, &[])?;
        let taken = begin.elapsed();
        drop(ring);
        Ok(taken)
    };
    let mut times: Vec<Duration> = (0..201).map(make).collect::<io::Result<_>>()?;
    times.sort_unstable();
    Ok(times[100])
}

/// Bytes of one buffer that the kernel fills by its own choice.
const PROVIDED_BYTES: usize = 64 << 10;

/// How many there are.
const PROVIDED: u16 = 64;

/// Buffers that receives of a ring fill by the kernel's choice.
pub(crate) struct Provided {
    entries: Region,
    buffers: Region,
    tail: u16,
}

impl Provided {
    /// Group 0 of the ring.
    pub(crate) fn new(ring: &Ring) -> io::Result<Provided> {
        let map = |len: usize| Region::anonymous(len as u64).map_err(io::Error::other);
        let entries = map(usize::from(PROVIDED) * size_of::<BufRingEntry>())?;
        let buffers = map(usize::from(PROVIDED) * PROVIDED_BYTES)?;
        let mut provided = Provided { entries, buffers, tail: 0 };
        let address = provided.entries.whole().as_ptr() as u64;
        // SAFETY: page-aligned, long enough, and kept beside the ring.
        unsafe { ring.ring.submitter().register_buf_ring_with_flags(address, PROVIDED, 0, 0) }?;
        for id in 0..PROVIDED {
            provided.give_back(id);
        }
        Ok(provided)
    }

    /// The first bytes of a buffer.
    pub(crate) fn buffer(&self, id: u16, len: usize) -> RawSlice {
        self.buffers.whole().sub(usize::from(id) * PROVIDED_BYTES, len)
    }

    /// Lets the kernel fill a buffer again.
    pub(crate) fn give_back(&mut self, id: u16) {
        let address = self.buffer(id, PROVIDED_BYTES).as_ptr() as u64;
        let entries: *mut BufRingEntry = self.entries.whole().as_ptr().cast();
        let index = usize::from(self.tail % PROVIDED);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the index lies within the entries; the kernel reads those before the tail only.
        unsafe {
            let entry = &mut *entries.add(index);
            entry.set_addr(address);
            entry.set_len(PROVIDED_BYTES as u32);
            entry.set_bid(id);
            let tail: *const AtomicU16 = BufRingEntry::tail(entries).cast();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

/// A message that lies still, for entries that name one.
pub(crate) struct Message {
    pieces: Vec<libc::iovec>,
    header: Box<libc::msghdr>,
}

// SAFETY: the pointers name memory that is not tied to a thread.
unsafe impl Send for Message {}

impl Message {
    pub(crate) fn new() -> Message {
        // SAFETY: a msghdr is plain numbers and pointers; all zero means no address and no pieces.
        let header = Box::new(unsafe { std::mem::zeroed() });
        Message { pieces: Vec::new(), header }
    }

    /// Names these pieces. Nothing may be under way that uses the message.
    pub(crate) fn replace(&mut self, pieces: impl Iterator<Item = RawSlice>) -> *mut libc::msghdr {
        self.pieces.clear();
        let piece =
            |piece: RawSlice| libc::iovec { iov_base: piece.as_ptr().cast(), iov_len: piece.len() };
        self.pieces.extend(pieces.map(piece));
        self.header.msg_iov = self.pieces.as_mut_ptr();
        self.header.msg_iovlen = self.pieces.len() as _;
        &raw mut *self.header
    }
}
