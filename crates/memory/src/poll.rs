use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What is waited for on one socket, and then what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Bytes, an end or an error can be received.
    pub read: bool,
    /// Bytes can be sent, or sending would tell an error.
    pub write: bool,
}

/// Waits until one of `sockets` is ready for something it is waited for, or `timeout` has passed, and replaces each
/// interest by what is ready: all false after a timeout.
///
/// # Errors
/// The system's.
pub fn poll_sockets(
    sockets: &mut [(BorrowedFd<'_>, Interest)],
    timeout: Duration,
) -> io::Result<()> {
    let watch = |(socket, interest): &(BorrowedFd<'_>, Interest)| libc::pollfd {
        // A socket that is waited for nothing must not end the wait because its peer hung up.
        fd: if *interest == Interest::default() { -1 } else { socket.as_raw_fd() },
        events: if interest.read { libc::POLLIN } else { 0 }
            | if interest.write { libc::POLLOUT } else { 0 },
        revents: 0,
    };
    let mut watched: Vec<libc::pollfd> = sockets.iter().map(watch).collect();
    // Rounded up: a remainder under a millisecond must not become a busy loop.
    let timeout_ms = i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    // SAFETY: the list holds as many entries as the call is told, and outlives it.
    let count =
        unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, timeout_ms) };
    if count < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    for ((_, interest), entry) in sockets.iter_mut().zip(&watched) {
        let broken = entry.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
        interest.read = interest.read && (broken || entry.revents & libc::POLLIN != 0);
        interest.write = interest.write && (broken || entry.revents & libc::POLLOUT != 0);
    }
    Ok(())
}

/// Waits until the peer sends nothing any more, whatever of what it sent before is still to be received, or the connection
/// has ended.
///
/// # Errors
/// The system's.
pub fn await_hang_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut watched = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    loop {
        // SAFETY: one entry, as the call is told, that outlives it.
        match unsafe { libc::poll(&raw mut watched, 1, -1) } {
            0 => {}
            1.. => return Ok(()),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn only_what_is_ready_is_reported() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let (quiet, _peer) = UnixStream::pair().unwrap();
        let both = Interest { read: true, write: true };
        let read = Interest { read: true, write: false };
        let none = Interest::default();

        let (closed, _) = UnixStream::pair().unwrap();
        let mut sockets = [(left.as_fd(), read), (quiet.as_fd(), read), (closed.as_fd(), none)];
        let begin = std::time::Instant::now();
        poll_sockets(&mut sockets, Duration::from_millis(2)).unwrap();
        assert_eq!(sockets.map(|(_, ready)| ready), [none; 3]);
        assert!(begin.elapsed() >= Duration::from_millis(2), "a closed socket ended the wait");

        right.write_all(b"x").unwrap();
        let mut sockets = [(left.as_fd(), both), (quiet.as_fd(), read)];
        poll_sockets(&mut sockets, Duration::from_secs(10)).unwrap();
        assert_eq!([sockets[0].1, sockets[1].1], [both, none]);
    }

    #[test]
    fn a_peer_that_sends_nothing_any_more_is_noticed_behind_what_it_sent() {
        let (left, mut right) = UnixStream::pair().unwrap();
        right.write_all(b"x").unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| await_hang_up(left.as_fd()));
            std::thread::sleep(Duration::from_millis(5));
            assert!(!waiting.is_finished(), "bytes are no end");
            right.shutdown(std::net::Shutdown::Write).unwrap();
            waiting.join().unwrap().unwrap();
        });
        let (left, right) = UnixStream::pair().unwrap();
        drop(right);
        await_hang_up(left.as_fd()).unwrap();
    }
}
