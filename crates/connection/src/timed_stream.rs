use std::fmt;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::{Private, Watch, recv_with_descriptors, send_with_descriptors};

use crate::{CallFault, CallProgress, Fault};

/// A socket on which a call may take so long and no longer.
pub(crate) struct TimedStream {
    pub(crate) stream: Arc<Private<TcpStream>>,
    pub(crate) timeout: Duration,
    watch: Watch,
    /// The file descriptors that came with the last frame.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// See [`crate::Connection::set_wait_check`].
    keep_waiting: Option<Box<dyn FnMut() -> bool + Send>>,
}

impl TimedStream {
    pub(crate) fn new(
        stream: Private<TcpStream>,
        timeout: Duration,
        busy_poll: Duration,
    ) -> io::Result<Self> {
        let (watch, stream) = (Watch::new(busy_poll), Arc::new(stream));
        let mut timed =
            Self { stream, timeout, watch, descriptors: Vec::new(), keep_waiting: None };
        timed.set_timeout(timeout)?;
        Ok(timed)
    }

    pub(crate) fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.timeout = timeout;
        self.stream.set_read_timeout(Some(timeout))?;
        self.stream.set_write_timeout(Some(timeout))
    }

    pub(crate) fn set_wait_check(
        &mut self,
        every: Duration,
        keep_waiting: Box<dyn FnMut() -> bool + Send>,
    ) -> io::Result<()> {
        self.keep_waiting = Some(keep_waiting);
        self.stream.set_read_timeout(Some(every.min(self.timeout)))
    }

    /// Sends all bytes of a call that began at `started`.
    pub(crate) fn send(
        &self,
        bytes: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
        started: Instant,
    ) -> Result<(), CallFault> {
        if descriptor.is_some() {
            let sent = send_with_descriptors(self.stream.as_fd(), bytes, descriptor.as_slice());
            return Ok(sent.map_err(Fault::of_blocking)?);
        }
        let mut sent = 0;
        while sent < bytes.len() {
            if sent > 0 {
                self.check_deadline(started)?;
            }
            match (&**self.stream).write(&bytes[sent..]) {
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

    /// Receives some bytes of a call that began at `started`: the first of a frame, or further ones.
    pub(crate) fn recv(
        &mut self,
        room: &mut [u8],
        started: Instant,
        is_first: bool,
    ) -> Result<usize, CallFault> {
        if !is_first {
            self.check_deadline(started)?;
        }
        loop {
            let (socket, descriptors) = (self.stream.as_fd(), &mut self.descriptors);
            let step = |wait| recv_with_descriptors(socket, room, descriptors, wait);
            let read = self.watch.wait(step, |error| error.kind() == io::ErrorKind::WouldBlock);
            if self.goes_on_waiting(&read, started) {
                continue;
            }
            let error = match read {
                Ok(0) => io::ErrorKind::UnexpectedEof.into(),
                Ok(count) => return Ok(count),
                Err(error) => error,
            };
            let progress = if is_first { progress_of(&error) } else { CallProgress::Unknown };
            return Err(CallFault { fault: Fault::of_blocking(error), progress });
        }
    }

    /// Whether to repeat a read that timed out without a byte.
    fn goes_on_waiting(&mut self, read: &io::Result<usize>, started: Instant) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        if !matches!(read, Err(error) if matches!(error.kind(), TimedOut | WouldBlock)) {
            return false;
        }
        let left = self.timeout.saturating_sub(started.elapsed());
        if left.is_zero() {
            return false;
        }
        match &mut self.keep_waiting {
            Some(keep_waiting) => keep_waiting(),
            // Under load the kernel may end a wait too early, since it counts ticks: wait again for the time left.
            None => self.stream.set_read_timeout(Some(left)).is_ok(),
        }
    }

    /// Bounds a frame that arrives in small pieces: the socket's timeout bounds each read, and this check all of them
    /// together.
    pub(crate) fn check_deadline(&self, started: Instant) -> Result<(), Fault> {
        if started.elapsed() < self.timeout { Ok(()) } else { Err(Fault::TimedOut) }
    }
}

impl fmt::Debug for TimedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedStream").field("stream", &self.stream).finish_non_exhaustive()
    }
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
