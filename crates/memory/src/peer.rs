use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process at the other end of a Unix socket, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number; absent if it lives in a container of its own, where numbers mean something else.
    pub pid: Option<i32>,
    /// Its user.
    pub uid: u32,
}

/// Who is at the other end of a Unix socket.
///
/// # Errors
/// The system's; a socket of another kind has no such peer.
pub fn peer_of(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    // Not by rustix, for which no process has the number zero.
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

/// The user that others see this process as.
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
