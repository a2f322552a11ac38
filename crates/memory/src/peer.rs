use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process at the other end of a Unix socket, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer's pid. `None` if the peer is in a pid namespace that this process cannot see.
    pub pid: Option<i32>,
    /// The peer's user id.
    pub uid: u32,
}

/// Identifies the peer of a Unix socket.
///
/// # Errors
/// The kernel's error, for example for another kind of socket.
pub fn peer_of(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    // Not by rustix, whose pids are never zero: the kernel reports zero for an invisible peer.
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: writes at most `len` bytes, which is the length of `peer`, and the new length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { pid: Some(peer.pid).filter(|&pid| pid > 0), uid: peer.uid })
}

/// The user id that other processes see for this process.
#[must_use]
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn this_process_is_its_own_peer() {
        let (left, _right) = UnixStream::pair().unwrap();
        let peer = peer_of(left.as_fd()).unwrap();
        assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
        assert_eq!(peer.uid, own_uid());
    }

    #[test]
    fn what_is_no_socket_has_no_peer() {
        let (reader, _writer) = io::pipe().unwrap();
        let error = peer_of(reader.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }
}
