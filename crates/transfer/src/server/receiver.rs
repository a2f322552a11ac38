use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use mooncake_connection::Inbox;
use mooncake_connection::codec::{Awaited, BadFrame};
use mooncake_memory::{RawSlice, RecvBatch, Wait, Watch, recv_bytes};
use mooncake_wire::Header;

/// Bytes read ahead: enough for a small operation as a whole, little enough that copying the beginning of a large
/// payload out costs nothing.
const AHEAD: usize = 16 << 10;

/// Receives what a peer sends: frames and small payload through a buffer, large payload straight to its place.
pub(super) struct Receiver {
    pub(super) inbox: Inbox,
    /// Waits for the next request; the field below waits for the rest of a request.
    between: Watch,
    within: Watch,
}

impl Receiver {
    pub(super) fn new(busy_poll: Duration) -> Self {
        let (between, within) = (Watch::new(busy_poll), Watch::new(busy_poll));
        Self { inbox: Inbox::reading_ahead(AHEAD), between, within }
    }

    /// Receives the first bytes of a request. The inbox must be empty.
    pub(super) fn await_request(&mut self, stream: &TcpStream) -> io::Result<()> {
        debug_assert!(self.inbox.is_empty());
        let count = recv(&mut self.between, self.inbox.room(1), stream)?;
        self.inbox.arrived(count);
        Ok(())
    }

    /// Receives until the inbox holds the whole awaited frame. Before each wait it calls `prepare`.
    pub(super) fn fill_frame(
        &mut self,
        stream: &TcpStream,
        awaited: &Awaited<'_>,
        prepare: impl Fn() -> io::Result<()>,
    ) -> io::Result<Result<Header, BadFrame>> {
        let (inbox, within) = (&mut self.inbox, &mut self.within);
        inbox.fill_frame(awaited, |room| {
            prepare()?;
            recv(within, room, stream)
        })
    }

    /// Receives what has arrived, without waiting. Does not report errors, which the next call that waits meets again.
    pub(super) fn fill_now(&mut self, stream: &TcpStream) {
        let held = self.inbox.len();
        if held < AHEAD {
            let room = self.inbox.room(held + 1);
            let count = recv_bytes(stream.as_fd(), room, Wait::Now).unwrap_or(0);
            self.inbox.arrived(count);
        }
    }

    /// The next `len` bytes, received if need be. Memory grows only as they arrive.
    pub(super) fn read(&mut self, stream: &TcpStream, len: usize) -> io::Result<&[u8]> {
        let (inbox, within) = (&mut self.inbox, &mut self.within);
        inbox.fill(len, |room| recv(within, room, stream))?;
        Ok(inbox.take(len))
    }

    /// Fills the beginning of `dst` with the next bytes, and returns how many: at least one. The same system call
    /// receives up to `ahead` bytes behind them, which the inbox keeps.
    pub(super) fn read_raw(
        &mut self,
        stream: &TcpStream,
        dst: RawSlice<'_>,
        ahead: usize,
    ) -> io::Result<usize> {
        let held = self.inbox.len().min(dst.len());
        if held > 0 {
            dst.sub(0, held).write_from(self.inbox.take(held));
            return Ok(held);
        }
        let room = self.inbox.room(1);
        let ahead = ahead.min(room.len());
        let mut batch = RecvBatch::new();
        let pushed = batch.push(dst) && batch.push_bytes(&mut room[..ahead]);
        debug_assert!(pushed);
        let receive = |wait| batch.recv(stream.as_fd(), wait);
        let count = self.within.wait(receive, is_not_ready)?;
        self.inbox.arrived(count.saturating_sub(dst.len()));
        Ok(count.min(dst.len()))
    }

    /// Throws the next `len` bytes away.
    pub(super) fn skip(&mut self, stream: &TcpStream, mut len: u64) -> io::Result<()> {
        while len > 0 {
            let (inbox, within) = (&mut self.inbox, &mut self.within);
            inbox.fill(1, |room| recv(within, room, stream))?;
            let part = usize::try_from(len).unwrap_or(usize::MAX).min(inbox.len());
            inbox.take(part);
            len -= part as u64;
        }
        Ok(())
    }
}

fn recv(watch: &mut Watch, room: &mut [u8], stream: &TcpStream) -> io::Result<usize> {
    watch.wait(|wait| recv_bytes(stream.as_fd(), room, wait), is_not_ready)
}

fn is_not_ready(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
