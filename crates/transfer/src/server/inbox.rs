use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use mooncake_memory::{RawSlice, RecvBatch, Wait, Watch, recv_bytes};
use mooncake_wire::{HEADER_LEN, Header};

/// Capacity of the buffer that small frames pass through.
const CAPACITY: usize = 64 << 10;

/// Bytes read ahead: enough for a small operation as a whole, little enough that copying the beginning of a large
/// payload out costs nothing.
const AHEAD: usize = 16 << 10;

/// A body longer than the buffer grows in steps of this many bytes as it arrives, whatever its header announced.
const BODY_STEP: usize = 1 << 20;

/// Receives what a peer sends: small frames through a buffer, payload straight to its place.
pub(super) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    large: Vec<u8>,
    /// Waits for the next request; the field below waits for the rest of a request.
    between: Watch,
    within: Watch,
}

impl Inbox {
    pub(super) fn new(busy_poll: Duration) -> Self {
        let (between, within) = (Watch::new(busy_poll), Watch::new(busy_poll));
        let (bytes, large) = (vec![0; CAPACITY], Vec::new());
        Self { bytes, start: 0, end: 0, large, between, within }
    }

    /// Whether it holds no bytes.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes held.
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Receives the first bytes of a request. The inbox must be empty.
    pub(super) fn await_request(&mut self, stream: &TcpStream) -> io::Result<()> {
        debug_assert!(self.is_empty());
        (self.start, self.end) = (0, 0);
        self.end = recv(&mut self.between, &mut self.bytes[..AHEAD], stream)?;
        Ok(())
    }

    /// Receives until `len` bytes are held, at most the buffer's capacity.
    pub(super) fn fill(&mut self, stream: &TcpStream, len: usize) -> io::Result<()> {
        if self.end - self.start >= len {
            return Ok(());
        }
        if self.start + len.max(AHEAD) > self.bytes.len() || self.start == self.end {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let limit = self.start + len.max(AHEAD);
        while self.end - self.start < len {
            self.end += recv(&mut self.within, &mut self.bytes[self.end..limit], stream)?;
        }
        Ok(())
    }

    /// Receives what has arrived, without waiting. Does not report errors, which the next call that waits meets again.
    pub(super) fn fill_now(&mut self, stream: &TcpStream) {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        let limit = self.bytes.len().min(self.start + AHEAD);
        if self.end < limit {
            let room = &mut self.bytes[self.end..limit];
            self.end += recv_bytes(stream.as_fd(), room, Wait::Now).unwrap_or(0);
        }
    }

    /// The header and the body of the next frame, if all of it is held.
    pub(super) fn whole_frame(&self) -> Option<(Header, &[u8])> {
        let (header, rest) = self.bytes[self.start..self.end].split_first_chunk::<HEADER_LEN>()?;
        let header = Header::decode(header).ok()?;
        Some((header, rest.get(..header.body_len as usize)?))
    }

    /// The next `len` bytes, which are held already.
    pub(super) fn take(&mut self, len: usize) -> &[u8] {
        assert!(len <= self.end - self.start, "only what was filled can be taken");
        self.start += len;
        &self.bytes[self.start - len..self.start]
    }

    /// The next `len` bytes, received if need be. Memory grows only as they arrive.
    pub(super) fn read(&mut self, stream: &TcpStream, len: usize) -> io::Result<&[u8]> {
        if len <= CAPACITY {
            self.fill(stream, len)?;
            return Ok(self.take(len));
        }
        let held = self.end - self.start;
        self.large.clear();
        self.large.shrink_to(BODY_STEP);
        self.large.extend_from_slice(&self.bytes[self.start..self.end]);
        (self.start, self.end) = (0, 0);
        debug_assert!(held < len);
        while self.large.len() < len {
            let from = self.large.len();
            self.large.resize(len.min(from + BODY_STEP), 0);
            let mut got = from;
            while got < self.large.len() {
                got += recv(&mut self.within, &mut self.large[got..], stream)?;
            }
        }
        Ok(&self.large)
    }

    /// Fills the beginning of `dst` with the next bytes, and returns how many: at least one. The same system call
    /// receives up to `ahead` bytes behind them, which the inbox keeps.
    pub(super) fn read_raw(
        &mut self,
        stream: &TcpStream,
        dst: RawSlice<'_>,
        ahead: usize,
    ) -> io::Result<usize> {
        let held = (self.end - self.start).min(dst.len());
        if held > 0 {
            dst.sub(0, held).write_from(&self.bytes[self.start..self.start + held]);
            self.start += held;
            return Ok(held);
        }
        (self.start, self.end) = (0, 0);
        let mut batch = RecvBatch::new();
        let pushed = batch.push(dst) && batch.push_bytes(&mut self.bytes[..ahead.min(AHEAD)]);
        debug_assert!(pushed);
        let receive = |wait| batch.recv(stream.as_fd(), wait);
        let count = self.within.wait(receive, is_not_ready)?;
        self.end = count.saturating_sub(dst.len());
        Ok(count.min(dst.len()))
    }

    /// Throws the next `len` bytes away.
    pub(super) fn skip(&mut self, stream: &TcpStream, mut len: u64) -> io::Result<()> {
        while len > 0 {
            if self.is_empty() {
                self.fill(stream, 1)?;
            }
            let part = usize::try_from(len).unwrap_or(usize::MAX).min(self.end - self.start);
            self.start += part;
            len -= part as u64;
        }
        Ok(())
    }
}

fn recv(watch: &mut Watch, bytes: &mut [u8], stream: &TcpStream) -> io::Result<usize> {
    watch.wait(|wait| recv_bytes(stream.as_fd(), bytes, wait), is_not_ready)
}

fn is_not_ready(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
