use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};

/// What to wait for on one socket; after [`poll_sockets`], what is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Receiving would return bytes, the end of the stream or an error.
    pub read: bool,
    /// Sending would accept bytes or return an error.
    pub write: bool,
}

/// Waits until one of `sockets` is ready for its interest, or until `timeout`. Replaces each interest by what is
/// ready: all false after a timeout.
///
/// # Errors
/// The kernel's error.
pub fn poll_sockets(
    sockets: &mut [(BorrowedFd<'_>, Interest)],
    timeout: Duration,
) -> io::Result<()> {
    let watched = sockets.iter().filter_map(|(socket, interest)| {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, interest.read);
        events.set(PollFlags::OUT, interest.write);
        // A socket without interest must not end the wait when its peer hangs up.
        (!events.is_empty()).then(|| PollFd::from_borrowed_fd(*socket, events))
    });
    let mut watched: Vec<PollFd<'_>> = watched.collect();
    // A timeout too long for the kernel counts as endless.
    let timeout = Timespec::try_from(timeout).ok();
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut found = watched.iter().map(PollFd::revents);
    for (_, interest) in sockets.iter_mut().filter(|(_, it)| it.read || it.write) {
        let found = found.next().expect("each of these was watched");
        let is_broken = found.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        interest.read &= is_broken || found.contains(PollFlags::IN);
        interest.write &= is_broken || found.contains(PollFlags::OUT);
    }
    Ok(())
}

/// Waits until the peer has shut down its sending side, or the connection has ended. Unread bytes do not end the wait.
///
/// # Errors
/// The kernel's error.
pub fn await_hang_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut watched = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    while retry_on_intr(|| poll(&mut watched, None))? == 0 {}
    Ok(())
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
